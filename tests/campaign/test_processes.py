"""Fifty annotators in five processes on one database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apod.campaign.transfer import records
from apod.testing.engines import GROUPS, Workshop
from support import SUPPORT

GOLD = {row: GROUPS[row % 2] for row in range(0, 500, 25)}


def crowd(workshop: Workshop, out: Path, **habits: float) -> list[dict[str, Any]]:
    """What fifty people were told, each of them a line."""
    job = {"url": workshop.place.url, "files": str(workshop.place.files), "out": str(out), "processes": 5, "people": 10}
    job |= {"skips": 0.0, "corrects": 0.0, "undoes": 0.0, **habits}
    script = SUPPORT / "crowd.py"
    done = subprocess.run([sys.executable, str(script), json.dumps(job)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [person["error"] for person in found if "error" in person] == []
    assert len(found) == 50
    return found


def test_fifty_annotators_in_five_processes_get_no_row_twice_and_no_locked_database(
    workshop: Workshop, tmp_path: Path
) -> None:
    workshop.create(rows=500, budget=120, lookahead=40).close()
    people = crowd(workshop, tmp_path / "out")
    rows = [row for person in people for row, *_ in person["answers"]]
    assert len(rows) == len(set(rows)) == 120
    campaign = workshop.open()
    status = campaign.status()
    assert (status.answered, status.pending, status.uncounted) == (120, 0, 0)
    asked = [entry["row"] for entry in campaign.owner.log() if entry["what"] == "asked"]
    assert len(asked) == len(set(asked)) == 120
    assert campaign.owner.verify_log().ok
    assert status.annotators > 10


@pytest.mark.parametrize("budget", [300, pytest.param(800, marks=pytest.mark.slow)])
def test_fifty_annotators_with_overlap_and_gold_lose_nothing_and_meet_nobody_twice(
    workshop: Workshop, tmp_path: Path, budget: int
) -> None:
    workshop.create(rows=500, budget=budget, overlap=2, gold=GOLD, gold_every=5, lookahead=100).close()
    people = crowd(workshop, tmp_path / "out", skips=0.05, corrects=0.05, undoes=0.05)
    for person in people:
        rows = [row for row, *_ in person["answers"]]
        assert len(rows) == len(set(rows)), "answered twice"
    told = Counter(tuple(answer) for person in people for answer in person["answers"])
    campaign = workshop.open()
    kept = [(found.row, found.annotator, found.group, found.counted) for found in records(campaign)]
    assert Counter(kept) == told
    assert max(told.values()) == 1
    paid = Counter(found.row for found in records(campaign) if found.purpose != "gold")
    assert (sum(paid.values()), max(paid.values())) == (budget, 2)
    status = campaign.status()
    assert (status.answered, status.pending, status.late, status.uncounted) == (budget, 0, 0, 0)
    assert status.gold_answered == len(kept) - budget > 20
    assert campaign.owner.verify_log().ok
