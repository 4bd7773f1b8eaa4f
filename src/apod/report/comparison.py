"""The same people with another preset, beside what this run did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apod.report.numbers import count, percent, percent_span, points, seconds
from apod.report.tables import Cell, Table, base_name

Result = Mapping[str, Any]
TITLES = {
    "default": "a corrected model",
    "heads": "heads with a posterior",
    "paper": "the paper's APOD",
}


def comparison(result: Result) -> dict[str, Any] | None:
    """A section of the report; None where nothing was compared."""
    other = result.get("compared")
    if other is None:
        return None
    title = TITLES.get(other["preset"], f"the preset {other['preset']}")
    return {"title": f"The same people, {title}", "text": _text(result, other), "table": _table(result, other)}


def _text(result: Result, other: Result) -> list[str]:
    text = [
        f"The same training, validation and test people and the same budget of {count(result['budget'])} answers "
        f"with --preset {other['preset']}. It took {seconds(other['seconds'])}, this run "
        f"{seconds(result['timing']['total_seconds'])}. One seed is an example, not evidence."
    ]
    if other["answers_read"] > other["answers"]:
        text.append(
            f"There every strength asks its own questions: its whole curve read {count(other['answers_read'])} answers "
            f"about {count(other['people_read'])} people, the strength that was selected {count(other['answers'])}."
        )
    return text


def _table(result: Result, other: Result) -> Table:
    here = "corrected" if result.get("model") is not None else "mitigated"
    entries = [
        (f"this run, {base_name(result)}", result["vanilla"]),
        (f"this run, {here if result['selected']['strength'] else 'unchanged'}", result["selected"]),
        (f"{other['preset']}, no mitigation", other["vanilla"]),
        (f"{other['preset']}, selected", other["selected"]),
    ]
    rows = [
        [
            Cell(name),
            *(
                Cell(show(entry[metric]), percent_span(entry["intervals"].get(metric)))
                for metric, show in (("accuracy", percent), ("balanced_accuracy", percent), ("gap", points))
            ),
        ]
        for name, entry in entries
    ]
    caption = "On the test part, with 95% intervals"
    return Table(caption, ["", "Accuracy", "Balanced accuracy", "Gap, points"], rows, 1, 1)
