"""The files of a finished run, each written whole or not at all, for the owner's eyes: result, classifier, report."""

from __future__ import annotations

import json
import time
from pathlib import Path

from apod.files import write_private
from apod.report import render_report
from apod.run.experiment import Outcome
from apod.run.pictures import draw_pictures

CLASSIFIER = "classifier.apod"


def write_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write result.json, report.html and, of a corrected model, the classifier; gives the path of the report."""
    start, timing = time.perf_counter(), outcome.result["timing"]
    folder.mkdir(parents=True, exist_ok=True)
    _write_classifier(outcome, folder / CLASSIFIER)
    _write_result(outcome, folder)  # first: whatever happens while drawing, the result is there
    report = folder / "report.html"
    write_private(report, render_report(outcome.result, draw_pictures(outcome)).encode())
    seconds = round(time.perf_counter() - start, 3)
    timing |= {"report_seconds": seconds, "total_seconds": round(timing["total_seconds"] + seconds, 3)}
    _write_result(outcome, folder)
    return report


def _write_classifier(outcome: Outcome, path: Path) -> None:
    classifier = outcome.approach.classifier()
    path.unlink(missing_ok=True)  # that of an earlier run
    if classifier is not None:
        classifier.save(path)
    outcome.result["classifier"] = None if classifier is None else path.name


def _write_result(outcome: Outcome, folder: Path) -> None:
    write_private(folder / "result.json", (json.dumps(outcome.result, indent=1, allow_nan=False) + "\n").encode())
