"""Charts of rates: every group's, with the four-fifths line; and of the gap against the threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from apod.fairness.impact import FOUR_FIFTHS, impact_ratios
from apod.fairness.metrics import RATE_WORDS, RateName, ThresholdPoint, Thresholds
from apod.fairness.notions import Notion
from apod.report.charts import WITH, WITHOUT, tick_percent, tick_points
from apod.report.svg import (
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
from apod.report.tables import group_interval
from apod.report.words import count, decimal, defined, percent, percent_span, points, span

if TYPE_CHECKING:  # runs are reported on without loading what campaigns need
    from apod.report.facts import AnyMetrics, AnyResult


@dataclass(frozen=True)
class RateFigure:
    """A chart of one rate, what stands in its place where there is none, and what is said below it."""

    chart: Markup | None
    empty: str
    caption: str


def rate_figures(result: AnyResult, notion: Notion, names: tuple[str, str] = (WITHOUT, WITH)) -> list[RateFigure]:
    """Every rate that the notion compares, and selection rates with the four-fifths line."""
    rates = dict.fromkeys((*notion.rates, "selection_rate"))
    found = []
    for rate in rates:
        caption = "Bars are 95% intervals. Fair means: the dots of all groups lie at the same place."
        if rate == "selection_rate":
            caption = f"{ratio_text(result)} Dashed: four fifths of the highest rate."
        elif result["selected"] is not None and names == (WITHOUT, WITH):
            caption = f"Hollow: without mitigation. Filled: with. {caption}"
        empty = f"No picture: nobody's {RATE_WORDS[rate]} is known."
        found.append(
            RateFigure(rate_chart(result, rate, rate_title(result["label_names"], rate), names), empty, caption)
        )
    return found


def threshold_chart(found: Thresholds | None) -> Markup | None:
    """The gap at every threshold, without and with mitigation; None where no gap is known."""
    if found is None:
        return None
    lines = [(WITHOUT, "before", found["base"])]
    lines += [] if found["selected"] == found["base"] else [(WITH, "after", found["selected"])]
    gaps = [gap for _, _, own in lines for point in own if defined(gap := point["gap"])]
    if not gaps:
        return None
    cuts = [point["threshold"] for point in found["base"]]
    x, y = Scale((min(cuts), max(cuts)), (46, WIDTH - 96)), Scale(padded(gaps, floor=0.0, least=0.01), (230, 40))
    frame = Frame(x, y, lambda cut: f"{cut:g}", tick_points, "Threshold of the score", "Gap, points")
    at = x(found["in_use"])
    now = tag("line", tip("The threshold in use"), x1=at, y1=40.0, x2=at, y2=230.0, class_="fifths")
    parts: list[str] = [frame.draw(), now]
    ends = []
    for name, class_, own in lines:
        places = [(x(p["threshold"]), y(gap)) if defined(gap := p["gap"]) else None for p in own]
        parts.append(polyline(places, class_))
        parts += [_threshold_dot(name, class_, point, place) for point, place in zip(own, places, strict=True) if place]
        ends.append((*next(place for place in reversed(places) if place), class_, name.split()[0]))
    parts.append(end_labels(ends, WIDTH - 96, 34, 236))
    gaps_now = [next(p["gap"] for p in own if p["threshold"] == found["in_use"]) for _, _, own in lines]
    said = "; ".join(f"{points(gap)} points {name}" for (name, _, _), gap in zip(lines, gaps_now, strict=True))
    return drawing(
        274, f"Gap by threshold, on the test part. At {found['in_use']:.3g}, the one in use: {said}.", *parts
    )


def _threshold_dot(name: str, class_: str, point: ThresholdPoint, place: tuple[float, float]) -> Markup:
    said = (
        f"{name}, threshold {point['threshold']:.3g}: gap {points(point['gap'])} points, "
        f"{percent(point['selection_rate'])} selected, accuracy {percent(point['accuracy'])}"
    )
    return tag("path", tip(said), d=marker("circle", *place, 2.0), class_=f"mark small {class_}")


def selection_ratio(metrics: AnyMetrics) -> float | None:
    """The lowest selection rate over the highest; None where fewer than two are known."""
    known = [rate for group in metrics["groups"].values() if defined(rate := group["selection_rate"])]
    ratios = impact_ratios(np.array(known, dtype=np.float64)) if len(known) > 1 else np.array([np.nan])
    return None if np.isnan(ratios).any() else float(ratios.min())


def ratio_text(result: AnyResult) -> str:
    """The selection-rate ratio before and after, against four fifths."""
    ratios = [selection_ratio(one) for one in (result["vanilla"], result["selected"]) if one is not None]
    shown = [decimal(own) for own in ratios]
    if ratios[-1] is None:
        return "The selection-rate ratio, lowest over highest, is unknown."
    said = f"{shown[0]}, then {shown[1]}" if len(shown) > 1 and shown[0] != shown[1] else shown[-1]
    side = "below" if ratios[-1] < FOUR_FIFTHS else "not below"
    return f"Selection-rate ratio, lowest over highest: {said}; {side} four fifths ({FOUR_FIFTHS:g})."


def _four_fifths_line(x: Scale, rates: Sequence[float | None], height: float) -> list[Markup]:
    """Four fifths of the highest of these rates; nothing where that is outside the picture."""
    known = [rate for rate in rates if defined(rate)]
    limit = FOUR_FIFTHS * max(known, default=0.0)
    if len(known) < 2 or not x.domain[0] <= limit <= x.domain[1]:
        return []
    said = f"Four fifths of the highest selection rate: {percent(limit)}"
    return [tag("line", tip(said), x1=x(limit), y1=26.0, x2=x(limit), y2=float(height - 22), class_="fifths")]


def rate_title(label_names: Sequence[str], rate: RateName) -> str:
    """Who is counted, and for what."""
    negative, positive = (shorten(name, 16) for name in label_names)
    return {
        "tpr": f"TPR: label {positive}, predicted {positive}",
        "fpr": f"FPR: label {negative}, predicted {positive}",
        "selection_rate": f"Selection rate: predicted {positive}",
        "precision": f"Precision: predicted {positive}, label {positive}",
    }[rate]


def rate_chart(
    result: AnyResult, rate: RateName, title: str, names: tuple[str, str] = (WITHOUT, WITH)
) -> Markup | None:
    """One rate per group, without and with mitigation (or of decisions by other `names`); None where nobody has one.

    Where answers are too few for an estimate its interval stands alone; where nothing is mitigated, one row per group.
    """
    pairs: list[tuple[str, str, AnyMetrics]] = [(names[0], "before", result["vanilla"])]
    pairs += [] if result["selected"] is None else [(names[1], "after", result["selected"])]
    rows = [
        (name, what, class_, metrics["groups"][name].get(rate), span(group_interval(metrics, name, rate)))
        for name in result["group_names"]
        for what, class_, metrics in pairs
    ]
    values = [v for row in rows for v in (row[3], *(row[4] or ())) if v is not None and defined(v)]
    if not values:
        return None
    each, step = len(pairs), 26 + 19 * len(pairs)
    height = 34 + len(result["group_names"]) * step + 22
    low, high = padded(values, floor=0.0, least=0.02)
    x = Scale((low, min(high, 1.0)), (66, WIDTH - 56))
    parts: list[str] = [words(2, 14, title, class_="title")]
    for value in x.ticks(4):
        parts += [
            line(x(value), 26, x(value), height - 22, "grid"),
            words(x(value), height - 6, tick_percent(value), "middle", "tick"),
        ]
    for place, row in enumerate(rows):
        y = 52 + (place // each) * step + (place % each) * 19
        if place % each == 0:
            named = shorten(row[0], 40) + _of_so_many(result, row[0], rate)
            parts.append(tag("text", named, tip(row[0]), x=2, y=y - 13, class_="name"))
        parts.append(_rate_row(x, y, *row))
    if rate == "selection_rate":
        parts += _four_fifths_line(x, [row[3] for row in rows if row[2] == pairs[-1][1]], height)
    said = "; ".join(f"{name} {what} {_rate_text(value, ends)}" for name, what, _, value, ends in rows)
    return drawing(height, f"{title} {said}.", *parts)


def _rate_row(
    x: Scale, y: float, name: str, what: str, class_: str, value: float | None, ends: tuple[float, float] | None
) -> Markup:
    parts = [words(2, y + 4, shorten(what.split()[0], 9), class_="tick")]
    if ends is not None:
        parts.append(line(x(ends[0]), y, x(ends[1]), y, f"whisker {class_}"))
    if value is None:
        return Markup("").join([*parts, words(WIDTH - 2, y + 4, "" if ends else "nobody", "end", "tick")])
    said = f"{name}, {what}: {percent(value)}" + ("" if ends is None else f", interval {percent_span(ends)}")
    dot = tag("path", tip(said), d=marker("circle", x(value), y, 5), class_=f"mark {class_}")
    return Markup("").join([*parts, dot, words(WIDTH - 2, y + 4, percent(value), "end", "value")])


def _of_so_many(result: AnyResult, name: str, rate: RateName) -> str:
    """On how many people of a group a rate rests, where that is counted."""
    found = result["vanilla"]["groups"][name]
    people, positives = found["n"], found.get("n_positive")
    if people is None or positives is None or rate == "precision":
        return ""
    return f", n = {count({'tpr': positives, 'fpr': people - positives}.get(rate, people))}"


def _rate_text(value: float | None, ends: tuple[float, float] | None) -> str:
    return percent(value) if value is not None or ends is None else f"{percent_span(ends)} percent"
