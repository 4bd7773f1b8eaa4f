"""`apod run`, `predict` and `check` on a table with four labels: numbers as brute force has them, schema, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from apod import APODClassifier
from support.commands import apod
from support.many_labels import BANDS, banded_people

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "result.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bands")
    banded_people().to_csv(folder / "people.csv", index=False)
    done = apod(
        *("run", "people.csv", "--label", "band", "--sensitive", "sex", "--budget", "24", "--batch", "8"),
        *("--caution", "0", "--verify-share", "0.3", "--out", "out"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "out" / "result.json").read_text(encoding="utf-8"))


def test_the_result_follows_the_schema_and_names_the_default_notion(result: dict[str, Any]) -> None:
    jsonschema.validate(result, SCHEMA)
    assert result["label_names"] == list(BANDS)
    assert result["notion"] == result["settings"]["notion"] == "true_positive_rate_parity"
    assert result["model"]["threshold"] is None
    assert result["data"]["base_rate"] is None
    assert len(result["correction"]["direction"]) == 8


def test_rates_and_gap_are_those_of_the_classifier_on_the_test_part(folder: Path, result: dict[str, Any]) -> None:
    people = banded_people()
    classifier = APODClassifier.load(folder / "out" / "classifier.apod")
    asked = {entry["row"] for entry in result["answers"]}
    from apod.data import split_rows

    test = split_rows("own file", len(people), (0.6, 0.2, 0.2), result["seed"]).test
    assert not asked & set(test.tolist())
    part = people.iloc[test]
    for point, strength in ((result["vanilla"], 0.0), (result["selected"], result["selected"]["strength"])):
        decided = classifier.at(strength).predict(part[list("abcd")])
        assert point["accuracy"] == pytest.approx((decided == part["band"]).mean())
        gap = 0.0
        for label in BANDS:
            rates = []
            for group in ("female", "male"):
                mine = ((part["band"] == label) & (part["sex"] == group)).to_numpy()
                found = point["groups"][group]["labels"][label]
                assert found["n"] == mine.sum()
                rates.append((decided[mine] == label).mean())
                assert found["tpr"] == pytest.approx(rates[-1])
                others = ((part["band"] != label) & (part["sex"] == group)).to_numpy()
                assert found["fpr"] == pytest.approx((decided[others] == label).mean())
            gap += abs(rates[0] - rates[1])
        assert point["gap"] == pytest.approx(gap)


def test_changes_and_joint_counts_are_those_of_the_two_decisions(folder: Path, result: dict[str, Any]) -> None:
    joint = np.array(
        [result["joint_counts"]["groups"][name] for name in result["group_names"]]
    )  # (g, y, before, after)
    assert joint.sum() == result["n_test"]
    for place, name in enumerate(result["group_names"]):
        moved = joint[place].sum(axis=0)
        np.fill_diagonal(moved, 0)
        assert list(result["changes"]["groups"][name]["to"].values()) == moved.sum(axis=0).tolist()


def test_the_report_speaks_of_every_label_and_of_none_as_positive(folder: Path) -> None:
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "Every label against all others" in page
    assert "It predicts the most probable label" in page
    for wrong in ("TPR</dt>", "None", "nan"):
        assert wrong not in page.replace("None of", "")


def test_predict_writes_a_score_of_every_label(folder: Path) -> None:
    done = apod("predict", "out/classifier.apod", "people.csv", "--out", "scored.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    scored = pd.read_csv(folder / "scored.csv")
    scores = scored[[f"score_{label}" for label in BANDS]]
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)
    assert (np.array(BANDS)[scores.to_numpy().argmax(axis=1)] == scored["corrected"]).all()


def test_a_resumed_run_gives_the_same(folder: Path, result: dict[str, Any]) -> None:
    done = apod(
        *("run", "people.csv", "--label", "band", "--sensitive", "sex", "--budget", "24", "--batch", "8"),
        *("--caution", "0", "--verify-share", "0.3", "--out", "out", "--resume", "--json"),
        folder=folder,
    )
    again = json.loads(done.stdout)
    for key in ("vanilla", "selected", "answers", "correction", "estimate"):
        assert again[key] == result[key]


def test_check_counts_every_label_and_plan_knows_them(folder: Path) -> None:
    found = json.loads(
        apod("check", "people.csv", "--label", "band", "--sensitive", "sex", "--json", folder=folder).stdout
    )
    assert found["label"]["labels"] == banded_people()["band"].value_counts().sort_index().to_dict()
    assert sum(found["groups"][0]["labels"].values()) == found["groups"][0]["people"]
    assert (
        "labels  band: A" in apod("check", "people.csv", "--label", "band", "--sensitive", "sex", folder=folder).stdout
    )
    plan = apod(
        *("run", "people.csv", "--label", "band", "--sensitive", "sex", "--budget", "90", "--plan"), folder=folder
    )
    assert "as many of each label" in plan.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--positive", "A"), "none of which is the positive one: leave --positive out"),
        (("--threshold", "0.4"), "A threshold tells two labels apart"),
        (("--body", "contrastive"), "Heads on a body know two labels"),
        (("--score", "a"), "A column of scores is of one of two labels"),
        (("--audit-share", "0.2"), "An audit compares two labels"),
        (("--split", "0.98,0.01,0.01"), "part of people .* has the label"),
    ],
)
def test_what_many_labels_cannot_have_is_refused_in_a_line(
    folder: Path, options: tuple[str, ...], message: str
) -> None:
    import re

    done = apod(
        *("run", "people.csv", "--label", "band", "--sensitive", "sex", "--budget", "20", "--out", "other", *options),
        folder=folder,
    )
    assert done.returncode != 0
    assert re.search(message, done.stderr.replace("\n", " ")), done.stderr


def test_evidence_audits_and_campaigns_say_that_they_know_two_labels(folder: Path) -> None:
    commands = {
        "Evidence speaks of two labels": ("report", "out", "--evidence", "evidence"),
        "An audit compares two labels": (
            "audit",
            "people.csv",
            "--label",
            "band",
            "--prediction",
            "a",
            "--group",
            "sex",
        ),
        "A campaign compares two labels": (
            *("campaign", "new", "bands.db", "people.csv", "--label", "band", "--groups", "female,male"),
            *("--budget", "20", "--drop", "sex"),
        ),
    }
    for message, command in commands.items():
        done = apod(*command, folder=folder)
        assert done.returncode != 0
        assert message in done.stderr.replace("\n", " "), done.stderr
