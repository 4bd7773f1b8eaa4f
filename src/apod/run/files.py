"""The files of a finished run: result.json and report.html, each written whole or not at all, for the owner's eyes."""

from __future__ import annotations

import json
import time
from pathlib import Path

from apod.files import write_private
from apod.report import render_report
from apod.run.experiment import Outcome
from apod.run.pictures import draw_pictures


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write result.json and report.html into the folder; gives the path of the report."""
    start, timing = time.perf_counter(), outcome.result["timing"]
    folder.mkdir(parents=True, exist_ok=True)
    _write_result(outcome, folder)  # first: whatever happens while drawing, the result is there
    report = folder / "report.html"
    write_private(report, render_report(outcome.result, draw_pictures(outcome)).encode())
    seconds = round(time.perf_counter() - start, 3)
    timing |= {"report_seconds": seconds, "total_seconds": round(timing["total_seconds"] + seconds, 3)}
    _write_result(outcome, folder)
    return report


def _write_result(outcome: Outcome, folder: Path) -> None:
    write_private(folder / "result.json", (json.dumps(outcome.result, indent=1, allow_nan=False) + "\n").encode())
