"""Accuracy against fairness: the curves of RQ1, RQ2 and the rivals per task, and all tasks at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from apod.bench.figures.style import (
    AXIS_TITLES,
    COLOURS,
    COLUMN,
    FAIR,
    GREY,
    MARKERS,
    NothingToDraw,
    Sketch,
    legend_below,
    line_style,
    marker_key,
    method_line,
    new_figure,
    seeds_shown,
    tidy,
)
from apod.bench.methods import CORRECTIONS, RIVALS
from apod.bench.results import FloatArray, MethodRuns, TaskResults
from apod.bench.statistics import mean_over_seeds, sd_over_seeds

IntArray = npt.NDArray[np.int64]
Markers = npt.NDArray[np.str_]

RQ1 = ("vanilla", "group-dro", "lff", "fal", "apod", "pod-all")
RQ2 = ("vanilla", "ssbm", "pod-al", "pod-ca", "apod", "pod-all")
RIVALRY = ("vanilla", *RIVALS, "apod", "pod-all")
CORRECTED = (*CORRECTIONS, "apod")

WORDS: Mapping[str, str] = MappingProxyType({"eop": "EOP", "delta_eo": "signed Δ-EO", "gap": "the absolute gap"})

_FARTHEST = MappingProxyType({"eop": 0.35, "delta_eo": 0.3, "gap": 0.3})
"""How far from Vanilla, or from fair, the axis reaches at most; what lies beyond is drawn at the edge."""
_FORMULA = " = TPR$_0$ / TPR$_1$"  # no room for it in the overview
_LOWEST_ACCURACY = 0.1
"""How far below Vanilla the accuracy axis reaches at most."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A method's mean points over seeds, in the order of its values."""

    runs: MethodRuns
    x: FloatArray
    y: FloatArray
    x_sd: FloatArray
    y_sd: FloatArray
    collapsed: FloatArray  # share of the seeds

    @property
    def drawable(self) -> npt.NDArray[np.bool_]:
        """Points that exist in at least half of their seeds."""
        return ~np.isnan(self.x) & ~np.isnan(self.y)


def mean_curve(runs: MethodRuns, metric: str) -> Curve:
    """Means of the defined runs; a point whose metric is undefined in most of its seeds is none."""
    x, y = runs[metric], runs["accuracy"]
    defined = (~np.isnan(x)).sum(axis=0) * 2 >= runs.present.sum(axis=0)
    return Curve(
        runs,
        np.where(defined, mean_over_seeds(x), np.nan),
        mean_over_seeds(y),
        np.nan_to_num(sd_over_seeds(x)),
        np.nan_to_num(sd_over_seeds(y)),
        mean_over_seeds(runs["collapsed"]),
    )


def draw_curves(task: TaskResults, methods: Sequence[str], metric: str) -> Sketch:
    """One task's accuracy-fairness curves of these methods."""
    curves = _curves(task, methods, metric)
    figure = new_figure(COLUMN, 3.0)
    axes = figure.add_subplot()
    beyond = _draw(axes, curves, metric)
    tidy(axes, AXIS_TITLES[metric], AXIS_TITLES["accuracy"])
    axes.set_title(f"{task.title}, {seeds_shown(task, 'bars')}")
    legend_below(figure, 3, _legend(curves), _key(curves, beyond))
    return Sketch(figure, _caption(task, curves, metric, beyond))


def draw_overview(tasks: Sequence[TaskResults], metric: str | None) -> Sketch:
    """RQ1 on all tasks, each by its own metric or all by the one given."""
    curves = {}
    for task in tasks:
        try:
            curves[task.name] = _curves(task, RQ1, metric or task.metric)
        except NothingToDraw:
            continue
    if not curves:
        raise NothingToDraw("no task has a curve")
    columns = 2 if len(curves) == 4 else min(3, len(curves))
    rows, beyond = -(-len(curves) // columns), 0
    figure = new_figure(2 * COLUMN + 0.3, 2.15 * rows + 0.5)
    for place, task in enumerate(task for task in tasks if task.name in curves):
        axes = figure.add_subplot(rows, columns, place + 1)
        x = metric or task.metric
        beyond += _draw(axes, curves[task.name], x)
        tidy(axes, AXIS_TITLES[x].replace(_FORMULA, ""), "accuracy →" if place % columns == 0 else "")
        axes.set_title(f"{task.title} ({len(task.seeds)} seed{'s' * (len(task.seeds) > 1)})")
    shown = [curve for of_task in curves.values() for curve in of_task]
    legend_below(figure, 6, _legend(list({c.runs.name: c for c in shown}.values())), _key(shown, beyond))
    by = WORDS[metric] if metric else "the fairness metric of each task's figure in the paper"
    return Sketch(figure, f"RQ1 on all tasks: accuracy against {by}; means over seeds, bars one standard deviation.")


def _curves(task: TaskResults, methods: Sequence[str], metric: str) -> list[Curve]:
    curves = [mean_curve(task.methods[name], metric) for name in methods if name in task.methods]
    if not any(curve.drawable.any() for curve in curves):
        raise NothingToDraw(f"none of {', '.join(methods)} has a point with a defined {WORDS[metric]}")
    return curves


def _draw(axes: Axes, curves: Sequence[Curve], metric: str) -> int:
    """Draw the curves; gives how many points lie beyond the axes and stand at the edge as triangles."""
    low, high, floor, ceiling = _window(curves, metric)
    axes.axvline(FAIR[metric], color=GREY, linewidth=0.7, linestyle=":", zorder=1)
    beyond = 0
    for curve in sorted(curves, key=lambda c: c.runs.name == "apod"):  # APOD on top
        at = np.flatnonzero(curve.drawable)
        x, y = np.clip(curve.x[at], low, high), np.clip(curve.y[at], floor, ceiling)
        inside = (x == curve.x[at]) & (y == curve.y[at])
        colour, name = COLOURS.get(curve.runs.name, GREY), curve.runs.name
        axes.plot(curve.x[at], curve.y[at], color=colour, linestyle=line_style(name), alpha=0.75, zorder=3)
        axes.errorbar(
            x[inside], y[inside], xerr=curve.x_sd[at][inside], yerr=curve.y_sd[at][inside], fmt="none", ecolor=colour,
            elinewidth=0.6, alpha=0.35, zorder=2,
        )  # fmt: skip
        usual = MARKERS.get(curve.runs.annotation, "o")
        _points(axes, curve, at, x, y, np.where(inside, usual, _edge(curve, at, low, high)))
        beyond += int((~inside).sum())
    axes.set_xlim(low, high)
    axes.set_ylim(floor, ceiling)
    return beyond


def _points(axes: Axes, curve: Curve, at: IntArray, x: FloatArray, y: FloatArray, markers: Markers) -> None:
    """The marks of a curve at these places, hollow where it collapsed."""
    name, hollow = curve.runs.name, curve.collapsed[at] >= 0.5
    colour = COLOURS.get(name, GREY)
    for marker, empty in sorted({*zip(markers.tolist(), hollow.tolist(), strict=True)}):
        these = (markers == marker) & (hollow == empty)
        axes.plot(
            x[these], y[these], linestyle="none", marker=marker, markersize=4.6 if name == "vanilla" else 3.6,
            markeredgewidth=0.8, color=colour, markerfacecolor="white" if empty else colour, clip_on=False,
            zorder=5 if name in ("apod", "vanilla") else 4,
        )  # fmt: skip


def _edge(curve: Curve, at: IntArray, low: float, high: float) -> Markers:
    """Triangles that point to where the means really are."""
    x = curve.x[at]
    return np.where(x > high, ">", np.where(x < low, "<", "v"))


def _window(curves: Sequence[Curve], metric: str) -> tuple[float, float, float, float]:
    """Limits of the axes: around all points that are not uselessly far from Vanilla and from fair."""
    x = np.concatenate([curve.x[curve.drawable] for curve in curves])
    y = np.concatenate([curve.y[curve.drawable] for curve in curves])
    vanilla = next((c for c in curves if c.runs.name == "vanilla" and c.drawable.any()), None)
    anchor = float(vanilla.x[vanilla.drawable][0]) if vanilla else float(np.median(x))
    best = float(vanilla.y[vanilla.drawable][0]) if vanilla else float(y.max())
    least, most = min(anchor, FAIR[metric]) - _FARTHEST[metric], max(anchor, FAIR[metric]) + _FARTHEST[metric]
    across = [anchor, FAIR[metric], *x[(x >= least) & (x <= most)]]
    up = [best, *y[y >= best - _LOWEST_ACCURACY]]
    margin, lift = 0.06 * max(np.ptp(across), 0.02), 0.08 * max(np.ptp(up), 0.005)
    left = 0.0 if metric == "gap" else min(across) - margin
    return left, max(across) + margin, min(up) - lift, min(1.0, max(up) + lift)


def _legend(curves: Sequence[Curve]) -> list[Line2D]:
    return [method_line(c.runs.name, c.runs.title, c.runs.annotation, len(c.runs.values) > 1) for c in curves]


def _key(curves: Sequence[Curve], beyond: int) -> str:
    hollow = any((curve.collapsed[curve.drawable] >= 0.5).any() for curve in curves)
    return marker_key([curve.runs.annotation for curve in curves], hollow, beyond > 0)


def _caption(task: TaskResults, curves: Sequence[Curve], metric: str, beyond: int) -> str:
    text = f"{task.title}: accuracy against {WORDS[metric]} on the test part, one point per value, mean over seeds."
    if len(task.seeds) > 1:
        text += " Bars: one standard deviation over seeds."
    if any((curve.collapsed[curve.drawable] >= 0.5).any() for curve in curves):
        text += " Hollow: collapsed in at least half of the seeds."
    if beyond:
        text += f" Triangles at the edge: {beyond} points beyond the axes."
    undefined = {curve.runs.title: int((~curve.drawable).sum()) for curve in curves if not curve.drawable.all()}
    if undefined:
        listed = ", ".join(f"{title} at {n} of its values" for title, n in undefined.items())
        text += f" Not drawn because undefined (nobody of a group predicted positive) in most seeds: {listed}."
    return text
