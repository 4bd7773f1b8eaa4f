"""An annotator's process is killed again and again: nothing that was acknowledged is lost, nothing is asked twice."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import standin

from apod.campaign import Campaign, Materials, Proposal
from apod.campaign.events import canonical
from apod.campaign.exchange import Record
from apod.campaign.files import state_hash
from apod.campaign.transfer import records
from apod.testing import Place
from apod.testing.contract import Workshop, answer_all, pool


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


def run_killed(place: Place, tmp_path: Path, kills: int, longest: float, budget: int) -> tuple[int, list[list[str]]]:
    """A campaign under fire; how often it was hit, and what was acknowledged."""
    features, labels = pool(2 * budget)
    Campaign.create(
        place.url, features, labels, groups=standin.GROUPS, budget=budget, name="trial", files=place.files, engine=None
    ).close()
    job = {
        "url": place.url,
        "files": str(place.files),
        "acknowledged": str(tmp_path / "acknowledged"),
        "kills": kills,
        "budget": budget,
        "longest": longest,
        "seed": 7,
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("crash_nursery.py")), json.dumps(job)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (tmp_path / "acknowledged").read_text().splitlines()]
    return int(done.stdout), lines


def survives(workshop: Workshop, tmp_path: Path, kills: int, longest: float, budget: int) -> None:
    hits, acknowledged = run_killed(workshop.place, tmp_path, kills, longest, budget)
    assert hits == kills, "the campaign was over before the last kill: give it a larger budget"
    campaign = workshop.open()
    found = records(campaign)

    by_row = {record.row: record for record in found}
    for _, row, group in acknowledged:
        assert by_row[int(row)].group == group
    assert len(found) == len(by_row) == budget
    status = campaign.status()
    assert (status.answered, status.pending, status.uncounted, status.budget) == (budget, 0, 0, budget)
    asked = [entry["row"] for entry in campaign.log() if entry["what"] == "asked"]
    assert len(asked) == len(set(asked)) == budget  # not even handed out twice: a lease outlives the crash
    assert campaign.verify_log().ok

    undisturbed = Workshop(Place(f"sqlite:///{tmp_path}/calm.db", tmp_path / "calm.files"), standin.build)
    calm = undisturbed.create(rows=2 * budget, budget=budget, lookahead=budget)
    calm._factory = lambda materials: Scripted(materials, found)
    answer_all(calm, "worker")
    assert [told(record) for record in records(calm)] == [told(record) for record in found]
    assert counts(calm) == counts(campaign)
    assert model_hash(calm) == model_hash(campaign)
    calm.close()


def told(record: Record) -> Record:
    """What was asked and answered, without when and under which token."""
    return replace(record, question=None, asked_at=None, answered_at=None)


def counts(campaign: Campaign) -> dict[str, Any]:
    """The fold without what a crash may leave behind: how many models were fitted on the way."""
    status = campaign.status().to_json()
    for name in ("model_answers", "behind", "refitting", "refit_failures", "refit_failure", "events"):
        del status[name]
    return status


def model_hash(campaign: Campaign) -> str:
    """Of the canonical refit, by the engine every campaign of these tests has."""
    model = standin.build(campaign.materials).fit(campaign.answers(), None)
    assert model is not None
    state = model.state()
    return state_hash(state.arrays, canonical(state.meta))


def test_ten_kills_lose_nothing_ask_nothing_twice_and_change_no_result(workshop: Workshop, tmp_path: Path) -> None:
    survives(workshop, tmp_path, kills=10, longest=0.4, budget=150)


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing_ask_nothing_twice_and_change_no_result(
    workshop: Workshop, tmp_path: Path
) -> None:
    survives(workshop, tmp_path, kills=200, longest=0.6, budget=2500)
