"""The report's charts of numbers: curve, rounds, who changes, what more answers would bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from markupsafe import Markup

from apod.method.outlook import OutlookJson
from apod.report.result import Ends, Metrics, Result, Round
from apod.report.svg import (
    CHARACTER,
    WIDTH,
    Frame,
    Scale,
    drawing,
    end_labels,
    line,
    marker,
    padded,
    polyline,
    shorten,
    tag,
    tip,
    words,
)
from apod.report.tables import base_name
from apod.report.words import Value, Way, count, defined, label_name, percent, plain, points, span

Series = tuple[str, str, list[float | None]]  # name, class, one value per x
COLOURS = 8
WITHOUT, WITH = "without mitigation", "with mitigation"


def tick_points(value: float) -> str:
    """A tick in percentage points, .125 as 12.5, .1 as 10."""
    return f"{100 * value:.1f}".removesuffix(".0").replace("-0", "0" if abs(value) < 1e-9 else "−0")


def tick_percent(value: float) -> str:
    """A tick in percent."""
    return f"{tick_points(value)}%"


def curve_chart(result: Result) -> Markup | None:
    """Accuracy against gap, a point per strength; None where no gap is defined."""
    measured = [
        (e, gap, accuracy)
        for e in (result["vanilla"], *result["tradeoff"])
        if defined(gap := e["gap"]) and defined(accuracy := e["accuracy"])
    ]
    if not measured:
        return None
    chosen, base = result["selected"]["strength"], base_name(result)
    entries = [e for e, _, _ in measured]
    marked = [e for e in entries if e["strength"] in (0, chosen)]
    gap_ends = [v for e in marked for v in span(e["intervals"]["gap"]) or ()]
    accuracy_ends = [v for e in marked for v in span(e["intervals"]["accuracy"]) or ()]
    x = Scale(padded([*(gap for _, gap, _ in measured), *gap_ends], floor=0.0, least=0.02), (52, WIDTH - 12))
    y = Scale(padded([*(accuracy for _, _, accuracy in measured), *accuracy_ends], least=0.01), (290, 40))
    frame = Frame(
        x, y, tick_points, tick_percent, "Gap, percentage points (← left = fairer)", "Accuracy (↑ up = more accurate)"
    )
    places = [(x(gap), y(accuracy)) for _, gap, accuracy in measured]
    parts: list[str] = [frame.draw(), polyline(places, "after thin")]
    for entry, place in zip(entries, places, strict=True):
        if entry["strength"] in (0, chosen):
            parts.append(_crosshair(entry, place, x, y))
    for entry, place in zip(entries, places, strict=True):
        parts.append(_curve_mark(entry, place, chosen, base))
    named = len(entries) if result.get("model") is None else 0  # places on a path speak for themselves
    parts.append(_curve_labels(entries, places, chosen, base, named))
    said = "; ".join(
        f"{_strength_name(e['strength'], chosen, base)}: gap {points(e['gap'])}, accuracy {percent(e['accuracy'])}"
        for e in entries
    )
    return drawing(340, f"Accuracy against gap on the test part. {said}.", *parts)


def _strength_name(strength: float, chosen: float, base: str) -> str:
    if strength == 0:
        return base
    return f"strength {strength:.3g}, selected" if strength == chosen else f"strength {strength:.3g}"


def _crosshair(entry: Metrics, place: tuple[float, float], x: Scale, y: Scale) -> Markup:
    (at_x, at_y), class_ = place, "before" if entry["strength"] == 0 else "after"
    across, upright = span(entry["intervals"]["gap"]), span(entry["intervals"]["accuracy"])
    parts = []
    if across is not None:
        parts.append(line(x(across[0]), at_y, x(across[1]), at_y, f"whisker thin {class_}"))
    if upright is not None:
        parts.append(line(at_x, y(upright[0]), at_x, y(upright[1]), f"whisker thin {class_}"))
    return Markup("").join(parts)


def _curve_mark(entry: Metrics, place: tuple[float, float], chosen: float, base: str) -> Markup:
    strength = entry["strength"]
    shape, radius, class_ = ("square", 6, "before") if strength == 0 else ("circle", 4, "after")
    said = (
        f"{_strength_name(strength, chosen, base)}: gap {points(entry['gap'])} points, "
        f"accuracy {percent(entry['accuracy'])}, balanced accuracy {percent(entry['balanced_accuracy'])}"
    )
    mark = tag("path", tip(said), d=marker(shape, *place, radius), class_=f"mark {class_}")
    ring = tag("path", d=marker("circle", *place, 9), class_="ring after") if strength == chosen and strength else ""
    return Markup("").join([ring, mark])


def _curve_labels(
    entries: Sequence[Metrics], places: Sequence[tuple[float, float]], chosen: float, base: str, most: int
) -> Markup:
    """Strengths beside their points, vanilla and selected first, then `most` others or the last; a label that finds no
    free place is left out."""
    taken = [(px - 5, py - 5, px + 5, py + 5) for px, py in places]
    parts = []
    marked = [i for i, entry in enumerate(entries) if entry["strength"] in (0, chosen)]
    others = [i for i in range(len(entries)) if i not in marked][:most] or [len(entries) - 1]
    for i in dict.fromkeys([*marked, *others]):
        strength = entries[i]["strength"]
        text = _strength_name(strength, chosen, base) if strength in (0, chosen) else f"{strength:.3g}"
        found = _free_place(text, places[i], taken)
        if found is None:
            continue
        at_x, at_y, anchor, far, box = found
        taken.append(box)
        if far:
            parts.append(line(*places[i], at_x, at_y - 4, "leader after"))
        parts.append(words(at_x, at_y, text, anchor, "label strong" if strength in (0, chosen) else "label"))
    return Markup("").join(parts)


Box = tuple[float, float, float, float]
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (0.8, -0.8), (-0.8, -0.8), (0.8, 0.8), (-0.8, 0.8))


def _free_place(
    text: str, place: tuple[float, float], taken: Sequence[Box]
) -> tuple[float, float, str, bool, Box] | None:
    """The nearest place around a point where the text covers nothing: x, y, anchor, whether far off, its box."""
    wide = len(text) * CHARACTER + 4
    for reach in (12, 24, 38, 54):
        for right, down in DIRECTIONS:
            x, y = place[0] + reach * right, place[1] + 4 + reach * down * (1.2 if reach == 12 else 1)
            anchor = "middle" if right == 0 else "start" if right > 0 else "end"
            left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            box = (left, y - 10, left + wide, y + 3)
            inside = box[0] >= 50 and box[2] <= WIDTH and box[1] >= 30 and box[3] <= 290
            if inside and not any(b[0] < box[2] and box[0] < b[2] and b[1] < box[3] and box[1] < b[3] for b in taken):
                return x, y, anchor, reach > 12, box
    return None


def answers_chart(
    answered: Sequence[int],
    series: Sequence[Series],
    title: str,
    alt: str,
    *,
    percentages: bool = False,
    counts: bool = False,
    log: bool = False,
    chosen: int | None = None,
    right: float = 104,
    title_x: str = "Answers so far",
) -> Markup | None:
    """Lines over the number of answers, named at their ends; None where every value is undefined.

    `chosen` is a number of answers to mark. Undefined values break a line; log leaves out what is not positive.
    """
    usable = [(name, class_, [v if _drawable(v, log) else None for v in values]) for name, class_, values in series]
    known = [v for _, _, values in usable for v in values if v is not None]
    if not known:
        return None
    text = plain if log else count if counts else tick_percent if percentages else tick_points
    domain = (min(known) / 1.3, max(known) * 1.3) if log else padded(known, floor=0.0, least=2 if counts else 0.01)
    y = Scale((0.0, domain[1]) if counts else domain, (230, 40), log)
    x = Scale(_answers_domain(answered), (46, WIDTH - right))
    frame = Frame(x, y, count, text, title_x, title)
    parts: list[str] = [frame.draw([t for t in x.ticks() if t == int(t)])]
    if chosen is not None:
        parts += [line(x(chosen), 40, x(chosen), 230, "guide")]
    ends = {}
    for name, class_, values in usable:
        places = [None if v is None else (x(a), y(v)) for a, v in zip(answered, values, strict=True)]
        parts.append(polyline(places, class_, step=counts))
        parts.append(_dots(name, class_, answered, values, places, text, 1.5 if counts else 2.5))
        drawn = [place for place in places if place is not None]
        if drawn:
            ends[name] = (*drawn[-1], class_, name)  # a line in two pieces is named at its last
    parts.append(end_labels(list(ends.values()), WIDTH - right, 34, 236))
    return drawing(274, alt, *parts)


def _drawable(value: float | None, log: bool) -> bool:
    return defined(value) and (not log or (value is not None and value > 0))


def _answers_domain(answered: Sequence[int]) -> tuple[float, float]:
    low, high = min(answered), max(answered)
    return (low, high) if high > low else (low - 1, high + 1)


def _dots(
    name: str,
    class_: str,
    answered: Sequence[int],
    values: Sequence[float | None],
    places: Sequence[tuple[float, float] | None],
    text: Callable[[float], str],
    radius: float,
) -> Markup:
    """A small mark with a tip per round."""
    return Markup("").join(
        tag(
            "path",
            tip(f"{name}, {a} answers: {text(v)}"),
            d=marker("circle", *place, radius if len(answered) <= 60 else 1.2),
            class_=f"mark small {class_}",
        )
        for a, v, place in zip(answered, values, places, strict=True)
        if place is not None and v is not None
    )


def changes_chart(result: Result) -> Markup | None:
    """Decisions that flip, per group and direction, as a share of the group; None where nobody has a group, or there
    are more than two labels."""
    if len(result["label_names"]) > 2:
        return None
    negative, positive = (label_name(name) for name in result["label_names"])
    groups = {name: g for name, g in result["changes"]["groups"].items() if g["n"]}
    if not groups:
        return None
    largest = max(max(g["to_positive"], g["to_negative"]) / g["n"] for g in groups.values())
    reach = WIDTH / 2 - 98
    x = Scale((0.0, max(largest, 1e-9)), (0.0, reach))
    middle, height = WIDTH / 2, 30 + 46 * len(groups)
    ways: tuple[tuple[Way, int, str], ...] = (("to_negative", -1, negative), ("to_positive", 1, positive))
    parts: list[str] = [
        words(middle - 8, 14, f"← to {shorten(negative, 22)}", "end", "title"),
        words(middle + 8, 14, f"to {shorten(positive, 22)} →", class_="title"),
    ]
    for place, (name, flips) in enumerate(groups.items()):
        y = 42 + 46 * place
        parts.append(tag("text", shorten(name, 28), tip(name), x=2, y=y, class_="name"))
        for key, side, to in ways:
            long = x(flips[key] / flips["n"])
            said = f"{count(flips[key])} of {count(flips['n'])} {name} ({percent(flips[key] / flips['n'])}) to {to}"
            left = middle if side > 0 else middle - long
            parts += [
                tag("rect", tip(said), x=float(left), y=y + 6.0, width=float(long), height=16, class_=f"bar way{side}"),
                words(
                    middle + side * (long + 5),
                    y + 18,
                    f"{count(flips[key])} ({percent(flips[key] / flips['n'])})",
                    "start" if side > 0 else "end",
                    "value",
                ),
            ]
    parts.append(line(middle, 24, middle, height - 2, "axis"))
    said = "; ".join(
        f"{name}: {count(g['to_negative'])} to {negative}, {count(g['to_positive'])} to {positive}"
        for name, g in groups.items()
    )
    return drawing(height, f"Decisions that change, per group. {said}.", *parts)


class ExpectedSoFar(TypedDict):
    """The gap to expect after so many answers."""

    answers: int
    gap: float | None
    interval: Ends


def outlook_sentence(
    outlook: Sequence[OutlookJson], show: Callable[[Value], str] = points, unit: str = " points"
) -> str:
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


def outlook_chart(past: Sequence[ExpectedSoFar | OutlookJson], outlook: Sequence[OutlookJson]) -> Markup | None:
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


def expected_so_far(rounds: Sequence[Round]) -> list[ExpectedSoFar]:
    """Answers, expected gap and its interval of the head that each round's posterior speaks for."""
    found: list[ExpectedSoFar] = []
    for entry in rounds:
        choice = entry["choice"]
        if choice is None or choice["heads"] is None:
            continue
        head = next(one for one in choice["heads"] if one["strength"] == choice["strength"])
        found.append({"answers": entry["answered"], "gap": head["gap"], "interval": head["interval"]})
    return found


def subgroups_chart(result: Result) -> Markup | None:
    """Answers per subgroup by number of answers; None where no round tells of subgroups."""
    rounds = [r for r in result["rounds"] if r["subgroups"]]
    if not rounds:
        return None
    series: list[Series] = []
    for place, cell in enumerate(rounds[0]["subgroups"]):
        values: list[float | None] = [float(r["subgroups"][place]["answered"]) for r in rounds]
        size = len(result["label_names"])
        dashed = "" if size > 2 or cell["label"] == result["label_names"][1] else " dashed"
        colour = place // 2 if size == 2 else place
        series.append((f"{cell['group']}, {label_name(cell['label'])}", f"c{colour % COLOURS}{dashed}", values))
    alt = "Answers per subgroup by number of answers; at the end " + "; ".join(
        f"{name} {values[-1]:.0f}" for name, _, values in series if values[-1] is not None
    )
    answered = [r["answered"] for r in rounds]
    return answers_chart(answered, series, "Answers per subgroup", f"{alt}.", counts=True, right=134)
