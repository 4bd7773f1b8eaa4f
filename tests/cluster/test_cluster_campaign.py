"""A campaign on three nodes asks the questions of one machine, and outlives a node."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from apod import large
from apod.campaign import Campaign
from apod.campaign.clustered import cluster_engine

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROWS, WIDTH, BUDGET = 26_000, 6, 12


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    groups = (matrix[:, 1] + rng.standard_normal(ROWS) > 0.5).astype(int)
    labels = (matrix[:, 0] + groups + rng.standard_normal(ROWS) > 0).astype(int)
    np.save(folder / "x.npy", matrix)
    np.save(folder / "y.npy", labels)
    return folder, np.array(["a", "b"])[groups]


def new_campaign(people, folder, **more) -> Campaign:
    return Campaign.create_from_table(
        folder / "c.db",
        people[0] / "x.npy",
        label=str(people[0] / "y.npy"),
        groups=["a", "b"],
        budget=BUDGET,
        engine_options={"preset": "paper", "strengths": [0.5], "epochs": 1},  # its selector is scored on the cluster
        refit="demand",
        **more,
    )


def answer_all(campaign: Campaign, groups, after=lambda number: None) -> list[tuple]:
    asked = []
    while (question := campaign.ask()) is not None:
        asked.append(question.row)
        campaign.tell(question, str(groups[question.row]))
        after(len(asked))
    return asked


@pytest.mark.parametrize("limit", [1000, 10**6])
def test_a_node_lost_in_the_middle_of_a_campaign_changes_no_question_and_loses_no_answer(
    cluster, people, tmp_path, monkeypatch, limit
):
    monkeypatch.setattr(large, "LARGE", limit)  # a large pool trains on rows that the parts hand over
    monkeypatch.setattr(large, "ROUND_STEPS", 20)
    folders = [tmp_path / "here", tmp_path / "there"]
    for folder in folders:
        folder.mkdir()
    with new_campaign(people, folders[0]) as here:
        expected = answer_all(here, people[1])
        answers = here.answers()
    with new_campaign(people, folders[1], engine=cluster_engine(cluster.address)) as there:

        def lose(number):
            if number == 8:
                pool = there.engine().cluster
                assert len(set(pool.nodes())) == 3
                cluster.lose(cluster.may_lose(pool.nodes()))

        try:
            assert answer_all(there, people[1], lose) == expected
            assert there.engine().cluster.rebuilt >= 1
            assert there.answers() == answers
            assert len(answers) == BUDGET
        finally:
            cluster.grow()
            there.engine().cluster.close()


def test_the_command_asks_the_same_question_on_a_cluster(cluster, people, tmp_path):
    (tmp_path / "here").mkdir()
    with new_campaign(people, tmp_path / "here") as campaign:
        for _ in range(6):
            question = campaign.ask()
            campaign.tell(question, str(people[1][question.row]))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    found = []
    for url, more in (
        (tmp_path / "here" / "c.db", []),
        (tmp_path / "there" / "c.db", ["--engine", "ray", "--address", cluster.address]),
    ):
        command = [sys.executable, "-m", "apod", "ask", str(url), "--json", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["row"])
    assert found[0] == found[1]
