"""What more answers would bring, in a sentence and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from apod.report.figures import Series, answers_chart
from apod.report.numbers import Value, defined, points, span

Entry = Mapping[str, Any]


def outlook_sentence(outlook: Sequence[Entry], show: Callable[[Value], str] = points, unit: str = " points") -> str:
    """The gap to expect now, with about twice as many answers, and at the far end of the look ahead."""
    now = outlook[0]
    if not defined(now["gap"]):
        return f"No gap can be expected yet from {now['answers']} answers."
    ends = span(now["interval"])
    within = "" if ends is None else f" (95% credible: {show(ends[0])} to {show(ends[1])})"
    said = f"Judging by {now['answers']} answers, the gap to expect is {show(now['gap'])}{unit}{within}"
    later = [entry for entry in outlook[1:] if defined(entry["gap"])]
    if not later:
        return f"{said}."
    middle = min(later, key=lambda entry: abs(entry["answers"] - 2 * now["answers"]))
    steps = [middle] if middle is later[-1] else [middle, later[-1]]
    ahead = ", ".join(f"{show(entry['gap'])} with {entry['answers']:,}" for entry in steps)
    plain = " There the unpenalised head would still be chosen: answers tell its gap better, and do not narrow it."
    return f"{said}; if more answers bear out what these say, {ahead}.{'' if later[-1]['strength'] else plain}"


def outlook_chart(past: Sequence[Entry], outlook: Sequence[Entry]) -> Markup | None:
    """The gap to expect after every answer so far and, from there, after more; None where none is defined."""
    ends = [span(entry["interval"]) or (None, None) for entry in (*past, *outlook)]
    gaps = [entry["gap"] for entry in (*past, *outlook)]
    before, ahead = len(past), len(outlook)
    series: list[Series] = [
        ("high", "c4 thin", [high for _, high in ends]),
        ("expected", "after", [*gaps[:before], *([None] * ahead)]),
        ("expected", "after dashed", [*([None] * before), *gaps[before:]]),
        ("low", "c4 thin", [low for low, _ in ends]),
    ]
    first, last = outlook[0], outlook[-1]
    alt = (
        f"Expected gap by number of answers: {points(first['gap'])} points after {first['answers']} answers; looking "
        f"ahead, {points(last['gap'])} after {last['answers']}."
    )
    answered = [entry["answers"] for entry in (*past, *outlook)]
    return answers_chart(answered, series, "Gap to expect, points", alt, chosen=first["answers"], title_x="Answers")


def expected_so_far(rounds: Sequence[Entry]) -> list[dict[str, Any]]:
    """Answers, expected gap and its interval of the head that each round's posterior speaks for."""
    found = []
    for entry in rounds:
        choice = entry["choice"]
        head = next(one for one in choice["heads"] if one["strength"] == choice["strength"])
        found.append({"answers": entry["answered"], "gap": head["gap"], "interval": head["interval"]})
    return found
