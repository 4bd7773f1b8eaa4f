"""`apod serve` and the process that refits are killed again and again under annotators who work over HTTP.

The server, its refits with the package's own engine, and all checks are what users have: commands and the API.
"""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from served_people import Allowance, Annotator, Served, serving
from web_people import GROUPS, people

from apod.campaign import Campaign
from apod.testing import Place
from support.postgres import PostgresMissing, throwaway_postgres
from support.waiting import PATIENCE

log = logging.getLogger(__name__)
logging.getLogger("httpx2").setLevel(logging.WARNING)  # not a line for every request
PEOPLE, PER_LIFE = 6, 8


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(str(tmp_path / "trial.db"), tmp_path / "files")
        return
    try:
        with throwaway_postgres() as server:
            yield Place(server.fresh(), tmp_path / "files")
    except PostgresMissing as missing:
        pytest.skip(str(missing))


def command(place: Place, *words: str) -> str:
    """What a command prints."""
    name, *rest = words
    done = subprocess.run(
        [sys.executable, "-m", "apod", name, *rest, "--files", str(place.files)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def tokens_of(place: Place, budget: int) -> dict[str, str]:
    """A new campaign with overlap, gold questions and an audit; everybody's token."""
    frame, labels = people(4 * budget)
    campaign = Campaign.create(
        place.url,
        frame.select_dtypes("number"),
        labels,
        display=frame,
        ids=[f"person {row}" for row in range(len(frame))],
        groups=GROUPS,
        budget=budget,
        overlap=2,
        gold={row: GROUPS[row % 2] for row in range(0, 4 * budget, 40)},
        gold_every=5,
        audit_share=0.2,
        name="trial",
        files=place.files,
        engine_options={"preset": "heads", "epochs": 1, "body_epochs": 1},
        refit="demand",
    )
    with campaign:
        return {
            f"annotator {n}": campaign.owner.access.grant(f"annotator {n}", what="token").token for n in range(PEOPLE)
        }


class Owner:
    """The owner of one life's server."""

    def __init__(self, origin: str, token: str) -> None:
        self.client = httpx2.Client(base_url=f"{origin}/api/v1", headers={"X-Apod": "1"}, timeout=PATIENCE)
        assert self.client.post("/session", json={"token": token}).json()["role"] == "owner"

    def refits(self) -> int:
        """How many answers the latest model knows."""
        return int(self.client.get("/dashboard").json()["campaign"]["model_answers"])

    def waits_for_a_refit(self, seconds: float = 120.0) -> bool:
        before, end = self.refits(), time.monotonic() + seconds
        while time.monotonic() < end:
            if self.refits() != before:
                return True
            time.sleep(0.05)
        return False


@contextmanager
def life(place: Place, served: Served) -> Iterator[tuple[Owner, psutil.Process]]:
    """A server from its start until it is killed."""
    with serving(place.url, "--files", str(place.files)) as (origin, token, process):
        served.origin = origin
        owner = Owner(origin, token)
        try:
            yield owner, psutil.Process(process.pid)
        finally:
            owner.client.close()


def storm(place: Place, kills: int, served: Served, allowance: Allowance) -> Counter[str]:
    """Kill so many processes: after a refit, anywhere, or the one that refits and then its server."""
    chance, done = random.Random(7), Counter[str]()
    while done["kills"] < kills:
        with life(place, served) as (owner, server):
            allowance.grant(PER_LIFE)
            if done["lives"] % 3 == 1:
                time.sleep(chance.uniform(0, 2))
            else:
                done["refitted lives"] += owner.waits_for_a_refit()
            if done["lives"] % 3 == 2:
                for child in server.children(recursive=True):
                    child.kill()
                    done["kills"] += 1
                allowance.grant(PER_LIFE)
                done["replaced"] += owner.waits_for_a_refit()
            server.kill()
            done["kills"] += 1
            done["lives"] += 1
    return done


def attack(place: Place, kills: int) -> None:
    budget = max(60, PER_LIFE * kills * 4 // 3)
    tokens = tokens_of(place, budget)
    served, allowance = Served(), Allowance()
    crowd = [Annotator(name, token, GROUPS, served, allowance) for name, token in tokens.items()]
    for person in crowd:
        person.start()
    done = storm(place, kills, served, allowance)
    allowance.over.set()
    with life(place, served):  # the last one is left in peace
        for person in crowd:
            person.join(PATIENCE)
            assert not person.is_alive()
    assert [repr(person.error) for person in crowd if person.error] == []
    done["acknowledged"] = sum(len(person.kept) for person in crowd)
    done["repeated"] = sum(person.repeated for person in crowd)
    log.info("%s", dict(done))
    check(place, crowd, budget)


def check(place: Place, crowd: list[Annotator], budget: int) -> None:
    """What the campaign says against what everybody was told."""
    told = {(person.name, *answer) for person in crowd for answer in person.kept.values()}
    target = place.files.parent / "answers.jsonl"
    command(place, "export", place.url, str(target))
    found = [json.loads(line) for line in target.read_text().splitlines()]
    assert {(one["annotator"], one["id"], one["group"], one["counted"]) for one in found} == told
    assert len(found) == len(told) == len({(one["annotator"], one["id"]) for one in found})
    paid = Counter(one["id"] for one in found if one["purpose"] != "gold" and one["counted"])
    assert max(paid.values()) == 2
    status: Any = json.loads(command(place, "status", place.url, "--json"))
    assert (status["answered"], status["pending"], status["uncounted"]) == (budget, 0, 0)
    assert sum(paid.values()) == budget
    assert "The log is whole" in command(place, "log", "verify", place.url)


@pytest.mark.slow
def test_a_served_campaign_whose_processes_are_killed_loses_nothing_and_meets_nobody_twice(place: Place) -> None:
    attack(place, kills=int(os.environ.get("APOD_KILLS", "4")))
