"""What the audit of a run says, beside what the records say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apod.fairness.metrics import RATE_WORDS
from apod.report.numbers import UNDEFINED, percent, percent_span, points, signed_points
from apod.report.tables import Cell, Table, notion_of

Result = Mapping[str, Any]
_VIEWS = (("before", "vanilla", "without"), ("after", "selected", "with"))


def audited_table(result: Result) -> Table:
    """Every rate as audited, with its interval, beside the recorded one."""
    audit, rows = result["audit"], []
    for view, metrics, when in _VIEWS:
        found = audit["predictions"][view]
        recorded = result[metrics]
        for name in result["group_names"]:
            for rate in notion_of(result).rates:
                told = recorded["groups"][name][rate]
                rows.append(
                    [
                        Cell(f"{RATE_WORDS[rate]} of {name}, {when}"),
                        _cell(found["groups"][name][rate]),
                        Cell(percent(told)),
                    ]
                )
        gap = found["gap"]
        audited = Cell(points(gap["value"]), percent_span([gap["low"], gap["high"]]))
        rows.append([Cell(f"Gap {when}, points"), audited, Cell(points(recorded["gap"]))])
    change = audit["change"]["gap"]
    before, after = result["vanilla"]["gap"], result["selected"]["gap"]
    truth = UNDEFINED if before is None or after is None else signed_points(after - before)
    span = f"{signed_points(change['low'])} to {signed_points(change['high'])}"
    rows.append([Cell("Change of the gap, points"), Cell(signed_points(change["value"]), span), Cell(truth)])
    caption = f"From {audit['answers']['drawn']} answers about random people of the test part, with 95% intervals"
    return Table(caption, ["", "audited", "recorded"], rows)


def _cell(estimate: Result) -> Cell:
    return Cell(percent(estimate["value"]), percent_span([estimate["low"], estimate["high"]]))
