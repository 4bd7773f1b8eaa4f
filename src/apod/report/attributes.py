"""Several attributes in the report of a run: every attribute and the intersections, before and after.

A cell that few answers or few people speak for says so instead of showing a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from apod.fairness.metrics import RATE_WORDS, SHOWN_RATES
from apod.report.measured import AttributeEstimate, AttributeResult
from apod.report.result import Result
from apod.report.tables import Cell, Table
from apod.report.words import count, defined, percent, percent_span, points

FEW_ANSWERS = 5
"""A group or an intersection that fewer answers named is said to have too few."""


@dataclass(frozen=True)
class AttributeSection:
    """One attribute, or the intersections, in the report."""

    title: str
    text: tuple[str, ...]
    table: Table


def attribute_sections(result: Result) -> list[AttributeSection]:
    """Every attribute, then the intersections; none where there is one attribute."""
    found, together, estimate = result.get("by_attribute", {}), result.get("intersections"), result.get("estimate")
    estimates = {} if estimate is None else estimate.get("attributes", {})
    sections = [_section(result, name, one, estimates.get(name)) for name, one in found.items()]
    if together is not None:
        crossed = None if estimate is None else estimate.get("intersections")
        sections.append(_section(result, "Intersections", together, crossed))
    return sections


def _section(result: Result, title: str, one: AttributeResult, estimate: AttributeEstimate | None) -> AttributeSection:
    text = []
    before, after = one["vanilla"]["gap"], one["selected"]["gap"]
    if defined(before) and defined(after):
        change = percent_span(one["differences"]["gap"])
        text.append(
            f"On record the gap goes from {points(before)} to {points(after)} points"
            + (f" (95% interval of the change: {change})." if change else ".")
        )
    if estimate is not None and defined(estimate["base"]["gap"]):
        spans = [percent_span(estimate[which]["interval"]) for which in ("base", "selected")]
        text.append(
            f"By the answers alone {points(estimate['base']['gap'])} ({spans[0]}) before and "
            f"{points(estimate['selected']['gap'])} ({spans[1]}) after."
        )
    if one["left_out"]:
        text.append(
            f"Left out of the gap, with too few people of a label in the test part: {'; '.join(one['left_out'])}."
        )
    few = [name for name, group in one["groups"].items() if group["answers"] < FEW_ANSWERS]
    if few:
        text.append(
            f"Fewer than {FEW_ANSWERS} answers named {'; '.join(few)}: what was chosen for them is pooled from others."
        )
    return AttributeSection(title, tuple(text), _table(result, one))


def _table(result: Result, one: AttributeResult) -> Table:
    rows = []
    for name, group in one["groups"].items():
        answers = count(group["answers"]) if group["answers"] >= FEW_ANSWERS else f"{group['answers']}: too few"
        row = [Cell(name), Cell(answers), Cell(count(group["people"]))]
        for rate in SHOWN_RATES:
            for metrics in (one["vanilla"], one["selected"]):
                if not group["compared"]:
                    row.append(Cell("too few people"))
                    continue
                value = metrics["groups"][name][rate]
                row.append(Cell(percent(value), percent_span(metrics["intervals"]["groups"][name][rate])))
        rows.append(row)
    columns = ["Group", "Answers", "People"]
    for rate in SHOWN_RATES:
        columns += [f"{RATE_WORDS[rate]} without", "with"]
    return Table("Answers, and rates on the test part, in percent", columns, rows)
