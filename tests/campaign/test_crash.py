"""An annotator's process is killed again and again: nothing that was acknowledged is lost, nothing is asked twice."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from bisect import bisect
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import standin
from sqlalchemy import select

from apod.campaign import Campaign, Materials, Proposal, schema
from apod.campaign.events import canonical
from apod.campaign.files import state_hash
from apod.campaign.formats import Record
from apod.campaign.transfer import records
from apod.testing import Place
from apod.testing.engines import Workshop, answer_all, pool
from support import SUPPORT

log = logging.getLogger(__name__)


class Scripted(standin.StandIn):
    """Proposes the rows another campaign asked about, in the same order."""

    def __init__(self, materials: Materials, script: list[Record]) -> None:
        super().__init__(materials)
        self.script = script

    def fit(self, answers: Any, start: Any) -> None:
        return None  # the script needs no model

    def propose(self, model: Any, answers: Any, unavailable: Any, k: int) -> list[Proposal]:
        left = [record for record in self.script if record.row not in unavailable][:k]
        return [Proposal(int(r.row or 0), {"rule": "script"}, "training", r.probability) for r in left]


@dataclass(frozen=True)
class Fire:
    """What the killed were told, and between which events they lived."""

    acknowledged: list[list[str]]
    lives: list[int]


def run_killed(place: Place, tmp_path: Path, kills: int, budget: int) -> Fire:
    """A campaign under fire."""
    features, labels = pool(2 * budget)
    Campaign.create(
        place.url, features, labels, groups=standin.GROUPS, budget=budget, name="trial", files=place.files, engine=None
    ).close()
    job: dict[str, Any] = {"url": place.url, "files": str(place.files), "kills": kills, "seed": 7}
    job |= {name: str(tmp_path / name) for name in ("acknowledged", "publishing", "published", "lives")}
    job["share"] = budget // (kills + 1)  # of the answers: all lives together must not spend the budget too early
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "crash_nursery.py"), json.dumps(job)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in (tmp_path / "acknowledged").read_text().splitlines()]
    return Fire(told, [int(line) for line in (tmp_path / "lives").read_text().splitlines()])


def survives(workshop: Workshop, tmp_path: Path, kills: int, budget: int) -> None:
    fire = run_killed(workshop.place, tmp_path, kills, budget)
    campaign = workshop.open()
    found = records(campaign)

    by_row = {record.row: record for record in found}
    for _, row, group in fire.acknowledged:
        assert by_row[int(row)].group == group
    assert len(found) == len(by_row) == budget
    status = campaign.status()
    assert (status.answered, status.pending, status.uncounted, status.budget) == (budget, 0, 0, budget)
    asked = [entry["row"] for entry in campaign.owner.log() if entry["what"] == "asked"]
    assert len(asked) == len(set(asked)) == budget  # not even handed out twice: a lease outlives the crash
    assert campaign.owner.verify_log().ok
    check_refits(campaign, fire, kills)

    undisturbed = Workshop(Place(f"sqlite:///{tmp_path}/calm.db", tmp_path / "calm.files"), standin.build)
    calm = undisturbed.create(rows=2 * budget, budget=budget, lookahead=budget)
    calm._factory = lambda materials: Scripted(materials, found)
    answer_all(calm, "worker")
    assert [told(record) for record in records(calm)] == [told(record) for record in found]
    assert counts(calm) == counts(campaign)
    assert model_hash(calm) == model_hash(campaign)
    calm.close()


def check_refits(campaign: Campaign, fire: Fire, kills: int) -> None:
    """Models were published between the kills, and no file of one that was not is left."""
    refitted = [int(entry["event"]) for entry in campaign.owner.log() if entry["what"] == "refitted"]
    between = [bisect(refitted, end) - bisect(refitted, start) for start, end in pairwise(fire.lives)]
    lives = sum(map(bool, between))
    log.info("%d kills, %d acknowledged, %d refits, in %d lives", kills, len(fire.acknowledged), len(refitted), lives)
    assert lives >= kills // 2, "too few refits were published between the kills"
    campaign.owner.refit()
    with campaign.store.reading() as connection:
        kept = set(connection.execute(select(schema.models.c.file)).scalars())
    files = {path.stem for path in (campaign.files.folder / "models-1").iterdir()}
    assert kept <= files
    assert len(files) <= 1 + len(kept)  # the last to be replaced goes with the next refit; none of a crash stays


def told(record: Record) -> Record:
    """What was asked and answered, without when and under which token."""
    return replace(record, question=None, asked_at=None, answered_at=None)


def counts(campaign: Campaign) -> dict[str, Any]:
    """The fold without what a crash may leave behind, how many models were fitted on the way, and without what the two
    campaigns were created for: one of them for the package's own engine."""
    status = campaign.status().to_json()
    for name in ("model_answers", "behind", "refitting", "refit_failures", "refit_failure", "events"):
        del status[name]
    for name in ("preset", "selector", "model"):
        del status[name]
    return status


def model_hash(campaign: Campaign) -> str:
    """Of the canonical refit, by the engine every campaign of these tests has."""
    model = standin.build(campaign.materials).fit(campaign.owner.answers(), None)
    assert model is not None
    state = model.state()
    return state_hash(state.arrays, canonical(state.meta))


def test_five_kills_lose_nothing_ask_nothing_twice_and_change_no_result(workshop: Workshop, tmp_path: Path) -> None:
    survives(workshop, tmp_path, kills=5, budget=60)


@pytest.mark.slow
def test_many_kills_lose_nothing_ask_nothing_twice_and_change_no_result(workshop: Workshop, tmp_path: Path) -> None:
    kills = int(os.environ.get("APOD_KILLS", "20"))
    survives(workshop, tmp_path, kills, budget=9 * kills)
