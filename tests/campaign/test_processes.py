"""Fifty annotators in five processes on one database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from apod.testing.contract import Workshop

BUDGET = 200


def test_fifty_annotators_in_five_processes_get_no_row_twice_and_no_locked_database(
    workshop: Workshop, tmp_path: Path
) -> None:
    workshop.create(rows=500, budget=BUDGET, lookahead=40).close()
    job = {
        "url": workshop.place.url,
        "files": str(workshop.place.files),
        "out": str(tmp_path / "out"),
        "processes": 5,
        "people": 10,
    }
    script = Path(__file__).with_name("crowd.py")
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(job)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out").read_text().splitlines()
    assert [line for line in lines if line.startswith("error")] == []
    assert len(lines) == len(set(lines)) == BUDGET
    campaign = workshop.open()
    status = campaign.status()
    assert (status.answered, status.pending, status.uncounted) == (BUDGET, 0, 0)
    asked = [entry["row"] for entry in campaign.log() if entry["what"] == "asked"]
    assert len(asked) == len(set(asked)) == BUDGET
    assert campaign.verify_log().ok
    assert status.annotators > 10
