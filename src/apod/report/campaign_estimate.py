"""What the training answers of a campaign lead to expect, in words and as a table; the audit's say comes first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apod.report.corrected import confirming_text, estimate_sentence, tells_little
from apod.report.numbers import defined, percent, percent_span, points
from apod.report.tables import Cell, Table

Facts = Mapping[str, Any]

NOT_VERIFIED = "The answers that chose a correction are no test of it; audit answers are."


def expected_sentences(estimate: Facts | None, strength: float | None) -> list[str]:
    """The gap to expect of the base model, and of the corrected one where decisions change; nothing without any."""
    if estimate is None:
        return []
    found = {"estimate": estimate, "vanilla": {"gap": None}, "selected": {"gap": None}}
    return [estimate_sentence(found, which) for which in (("base", "selected") if strength else ("base",))]


def audit_says_more(estimate: Facts | None, gap: Facts) -> bool:
    """Whether the audit knows the base model's gap better than the training answers do."""
    if estimate is None or tells_little(estimate["base"]):
        return True
    low, high = estimate["base"]["interval"]
    known = defined(gap["low"]) and defined(gap["high"])
    return bool(known and gap["high"] - gap["low"] <= high - low)


def expected_card(facts: Facts) -> dict[str, str]:
    """The gap to expect, as the head of the page shows it."""
    base, selected = (facts["estimate"][name] for name in ("base", "selected"))
    spans = [percent_span(one["interval"]) for one in (base, selected)]
    card = {"what": "Gap to expect, points"}
    if tells_little(base):
        return card | {"after": "not known yet", "small": f"By the answers, 95% interval: {spans[0]}."}
    if not facts["strength"]:
        return card | {"after": points(base["gap"]), "small": f"By the answers, 95% interval: {spans[0]}."}
    small = f"By the answers, 95% intervals: {spans[0]}, then {spans[1]}."
    return card | {"before": points(base["gap"]), "after": points(selected["gap"]), "small": small}


def expected_section(facts: Facts) -> dict[str, Any] | None:
    """What the answers say of every place on the correction's path; None where heads were trained."""
    if not facts["path"] or "interval" not in facts["path"][0]:
        return None
    rows, here = [], None
    for place, point in enumerate(facts["path"]):
        here = place if point["strength"] == facts["strength"] else here
        rows.append(
            [
                Cell(f"{point['strength']:.3g}" if point["strength"] else "0, the model as it is"),
                Cell(points(point["gap"]), percent_span(point["interval"])),
                Cell(percent(point["accuracy"])),
                Cell(percent(point["balanced_accuracy"])),
                Cell(percent(point["changed"])),
            ]
        )
    columns = ["Strength", "Gap to expect", "Accuracy", "Balanced accuracy", "Decisions changed"]
    caption = (
        "Every place on the correction's path: gaps in points with 95% intervals, accuracy in percent, on the pool"
    )
    text = expected_sentences(facts["estimate"], facts["strength"])
    confirming = [confirming_text(facts["confirmation"])] if facts["confirmation"] else []
    return {"text": [*text, *confirming, NOT_VERIFIED], "table": Table(caption, columns, rows, 1, here)}
