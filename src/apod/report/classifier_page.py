"""The report of a fitted classifier: what was chosen, why, what every strength would bring; inline in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from apod import __version__
from apod.files import write_private
from apod.method.gap_interval import GapEstimate, tells_little
from apod.report.run_page import fill
from apod.report.tables import Cell, Table
from apod.report.words import UNDEFINED, decimal, percent, percent_span, points, signed_points

if TYPE_CHECKING:
    from apod.classifier import APODClassifier

HEIGHT = 640


@dataclass(frozen=True)
class ClassifierReport:
    """A page that needs nothing else. In a notebook it shows itself."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        write_private(Path(path), self.html.encode())
        return Path(path)

    def _repr_html_(self) -> str:
        """In a frame of its own: its style is not the notebook's."""
        frame = f'style="width: 100%; height: {HEIGHT}px; border: 0"'
        return f'<iframe sandbox="allow-scripts" {frame} srcdoc="{escape(self.html)}"></iframe>'


VERDICTS = {
    "not verified": "The choice is not verified: by the answers alone.",
    "passed": "The correction passed the test of fresh answers.",
    "shrunk": "Half of the correction passed the test of fresh answers.",
    "failed": "The correction that the answers chose did not pass the test of fresh ones.",
}


def of(classifier: APODClassifier) -> ClassifierReport:
    """The report of a fitted `APODClassifier`."""
    selection, strength = classifier.selection_, classifier.selected_strength_
    lead = [f"Strength {strength:.3g} is in use." if strength else "Nothing is changed: strength 0 is in use."]
    lead += [classifier.selected_because_] if classifier.selected_because_ else []
    variables = {
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": __version__,
        "lead": lead,
        "cards": _cards(classifier),
        "cautions": [] if selection is None else [VERDICTS[selection.verification]],
        "tradeoff": _tradeoff(classifier.tradeoff_, strength),
        "about": _about(classifier),
    }
    return ClassifierReport(fill("classifier.html", variables))


def _cards(classifier: APODClassifier) -> list[dict[str, str]]:
    selection = classifier.selection_
    if selection is None:
        return []
    cards = [_gap("Gap to expect without mitigation, points", selection.before)]
    return cards if not selection.strength else [*cards, _gap("With mitigation, points", selection.after)]


def _gap(what: str, found: GapEstimate | None) -> dict[str, str]:
    if found is None:
        return {"what": what, "big": UNDEFINED, "small": "Not known yet."}
    ends = percent_span([found.low, found.high])
    if tells_little(found.low, found.high):
        return {"what": what, "big": "not known yet", "small": f"All of {ends} fits the answers."}
    return {"what": what, "big": points(found.gap), "small": f"95% interval: {ends}."}


def _tradeoff(table: pd.DataFrame, strength: float) -> Table:
    """A row per strength, the one in use marked."""
    marked = int((table["strength"] - strength).abs().to_numpy().argmin())
    if "gap" in table.columns:
        columns = ["Strength", "Gap to expect, points", "Accuracy lost, points", "Decisions that change"]
        rows = [
            [Cell(f"{row['strength']:.3g}"), Cell(points(row["gap"]), percent_span([row["gap_low"], row["gap_high"]])),
             Cell(signed_points(row["accuracy_lost"])), Cell(percent(row["changed"]))]
            for row in table.to_dict("records")
        ]  # fmt: skip
        return Table("Every strength, with 95% intervals", columns, rows, marked=marked)
    columns = ["Strength", "Accuracy, validation part", "Fairness by guessed groups"]
    rows = [
        [
            Cell(f"{row['strength']:.3g}"),
            Cell(percent(row["validation_accuracy"])),
            Cell(decimal(row["validation_fairness"])),
        ]
        for row in table.to_dict("records")
    ]
    return Table("Every strength", columns, rows, marked=marked)


def _about(classifier: APODClassifier) -> Table:
    told: dict[str, object] = {
        "Model": classifier.model_ or "heads on a body of its own",
        "Positive label": classifier.positive_,
        "Groups": ", ".join(classifier.groups_) or "none known",
        "Features": classifier.n_features_in_,
    }
    rows = [[Cell(name), Cell(str(value))] for name, value in told.items()]
    return Table("What was fitted", ["", ""], rows, 2)
