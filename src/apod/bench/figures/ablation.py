"""RQ4: what each half of the selection adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from apod.bench.figures.style import (
    COLOURS,
    COLUMN,
    FAIR,
    GREY,
    PANEL_TITLES,
    NothingToDraw,
    Sketch,
    legend_below,
    new_figure,
    seeds_shown,
)
from apod.bench.results import FloatArray, MethodRuns, TaskResults
from apod.bench.statistics import mean_over_seeds, sd_over_seeds

SHOWN: Mapping[str, str] = MappingProxyType(
    {"apod": "APOD", "pod-group": "POD+Group selection", "pod-ca": "POD+Individual selection"}
)
"""Rows of RQ4 under their labels there: individual selection alone is the core-set rule."""

_WIDEST_EOP = 1.6


def draw_ablation(task: TaskResults) -> Sketch:
    """RQ4: APOD beside each half of its selection alone, at every strength; bars that collapsed are hollow."""
    shown = [name for name in SHOWN if name in task.methods]
    if len(shown) < 2:
        raise NothingToDraw(f"fewer than two of {', '.join(SHOWN)} have runs")
    figure = new_figure(COLUMN, 4.4)
    columns = (task.metric, "gap", "balanced_accuracy")
    strengths = sorted({value for name in shown for value in task.methods[name].values})
    panels = figure.subplots(3, 1, sharex=True)
    for axes, column in zip(panels, columns, strict=True):
        for place, name in enumerate(shown):
            _bars(axes, task.methods[name], column, strengths, (place - (len(shown) - 1) / 2) * 0.27)
        _vanilla_line(axes, task, column)
        if column in FAIR:
            axes.axhline(FAIR[column], color=GREY, linewidth=0.7, linestyle=":", zorder=1)
        axes.set_ylabel(PANEL_TITLES[column])
        if column == "gap":
            axes.set_ylim(bottom=0)
        axes.locator_params(axis="y", nbins=4)
        axes.grid(visible=False, axis="x")
    panels[-1].set_ylim(0.48, None)
    if task.metric == "eop":
        panels[0].set_ylim(0, min(_WIDEST_EOP, max(1.1, panels[0].get_ylim()[1])))
    panels[-1].set_xticks(range(len(strengths)), [f"{s:g}" for s in strengths])
    panels[-1].set_xlabel("strength")
    panels[0].set_title(f"{task.title}, {seeds_shown(task, 'bars')}")
    entries = [Patch(facecolor=COLOURS[m], edgecolor="black", linewidth=0.5, label=SHOWN[m]) for m in shown]
    legend_below(figure, 2, [*entries, *_key(task, shown)])
    return Sketch(figure, _ablation_caption(task))


def _key(task: TaskResults, shown: Sequence[str]) -> list[Line2D | Patch]:
    key: list[Line2D | Patch] = []
    if "vanilla" in task.methods:
        key.append(Line2D([], [], color=COLOURS["vanilla"], linewidth=0.9, label="Vanilla"))
    if any((mean_over_seeds(task.methods[m]["collapsed"]) >= 0.5).any() for m in shown):
        key.append(Patch(facecolor="white", edgecolor=GREY, hatch="////", linewidth=0.5, label="hatched: collapsed"))
    if any(np.isnan(_means(task.methods[m], task.metric)).any() for m in shown):
        key.append(Line2D([], [], color=GREY, linestyle="none", marker="x", label="undefined"))
    return key


def _ablation_caption(task: TaskResults) -> str:
    return (
        f"{task.title}: group selection alone and individual selection alone (the core-set rule, POD+CA) beside APOD "
        "at equal strengths; mean over seeds, error bars one standard deviation; hatched where at least half of the "
        "seeds collapsed. A cross: undefined in most seeds; a bar that ends at the edge goes beyond it."
    )


def _means(runs: MethodRuns, column: str) -> FloatArray:
    """(values,) means over seeds; NaN where the number is undefined in most of them."""
    values = runs[column]
    enough = (~np.isnan(values)).sum(axis=0) * 2 >= runs.present.sum(axis=0)
    return np.where(enough, mean_over_seeds(values), np.nan)


def _bars(axes: Axes, runs: MethodRuns, column: str, strengths: Sequence[float], shift: float) -> None:
    means, sd = _means(runs, column), np.nan_to_num(sd_over_seeds(runs[column]))
    collapsed = mean_over_seeds(runs["collapsed"]) >= 0.5
    colour = COLOURS[runs.name]
    for k, value in enumerate(runs.values):
        at = strengths.index(value) + shift
        if np.isnan(means[k]):
            axes.plot(at, 0.06, marker="x", color=colour, transform=axes.get_xaxis_transform(), zorder=4)
            continue
        face, edge, hatch = ("white", colour, "//////") if collapsed[k] else (colour, "black", None)
        axes.bar(at, means[k], 0.25, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.5, zorder=3)
        if sd[k] > 0:
            axes.errorbar(at, means[k], yerr=sd[k], fmt="none", ecolor="black", elinewidth=0.5, zorder=4)


def _vanilla_line(axes: Axes, task: TaskResults, column: str) -> None:
    if "vanilla" in task.methods:
        level = float(mean_over_seeds(task.methods["vanilla"][column]).max())
        axes.axhline(level, color=COLOURS["vanilla"], linewidth=0.9, zorder=2)
