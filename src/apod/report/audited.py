"""What the audit of a run says, beside what the records say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apod.fairness.metrics import RATE_WORDS
from apod.report.numbers import UNDEFINED, percent, points, signed_points
from apod.report.tables import Cell, Table, estimated, notion_of

Result = Mapping[str, Any]
_VIEWS = (("before", "vanilla", "without"), ("after", "selected", "with"))


def audited_table(result: Result) -> Table:
    """Every rate as audited, with its interval, beside the recorded one."""
    audit, rows = result["audit"], []
    caption = f"From {audit['answers']['drawn']} answers about random people of the test part, with 95% intervals"
    changed = result["selected"]["strength"] > 0
    for view, metrics, when in _VIEWS if changed else _VIEWS[:1]:
        found = audit["predictions"][view]
        recorded = result[metrics]
        for name in result["group_names"]:
            for rate in notion_of(result).rates:
                told = recorded["groups"][name][rate]
                rows.append(
                    [
                        Cell(f"{RATE_WORDS[rate]} of {name}, {when}"),
                        estimated(found["groups"][name][rate], percent),
                        Cell(percent(told)),
                    ]
                )
        rows.append([Cell(f"Gap {when}, points"), estimated(found["gap"], points), Cell(points(recorded["gap"]))])
    if not changed:
        return Table(caption, ["", "audited", "recorded"], rows)
    change = estimated(audit["change"]["gap"], signed_points)
    before, after = result["vanilla"]["gap"], result["selected"]["gap"]
    truth = UNDEFINED if before is None or after is None else signed_points(after - before)
    rows.append([Cell("Change of the gap, points"), change, Cell(truth)])
    return Table(caption, ["", "audited", "recorded"], rows)
