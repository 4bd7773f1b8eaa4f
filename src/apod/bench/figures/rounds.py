"""RQ3: fairness of the snapshot after every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from apod.bench.figures.style import (
    COLOURS,
    COLUMN,
    FAIR,
    GREY,
    PANEL_TITLES,
    NothingToDraw,
    Sketch,
    legend_below,
    line_style,
    new_figure,
    seeds_shown,
)
from apod.bench.methods import METHODS
from apod.bench.results import FloatArray, Results, TaskResults
from apod.bench.statistics import mean_over_seeds, sd_over_seeds

STRENGTHS: Mapping[str, float] = MappingProxyType({"adult": 0.5, "loan": 0.1})
"""Tasks of RQ3 and the strength each is shown at."""

SHOWN = ("pod-rs", "pod-al", "apod")


def snapshots(results: Results, dataset: str, method: str, value: float, column: str) -> tuple[FloatArray, FloatArray]:
    """Numbers of answers (T,) that every seed has a snapshot of, and the column there (seeds, T)."""
    rounds = results.rounds
    if rounds.empty:
        return np.empty(0), np.empty((0, 0))
    chosen = rounds[(rounds["dataset"] == dataset) & (rounds["method"] == method) & np.isclose(rounds["value"], value)]
    table = chosen.pivot_table(index="seed", columns="answered", values=column, aggfunc="last", dropna=False)
    answered = [n for n in table.columns if _everybody_has(chosen, int(n))]
    return np.array(answered, dtype=np.float64), table[answered].to_numpy(dtype=np.float64)


def _everybody_has(chosen: pd.DataFrame, answered: int) -> bool:
    """Seeds begin with different numbers of first answers; a mean over some of them would jump."""
    return bool(chosen.loc[chosen["answered"] == answered, "seed"].nunique() == chosen["seed"].nunique())


def draw_rounds(results: Results, task: TaskResults) -> Sketch:
    """RQ3 on one task: signed Delta-EO as in the paper, the gap, and balanced accuracy, against answers."""
    strength = STRENGTHS[task.name]
    shown = [m for m in SHOWN if len(snapshots(results, task.name, m, strength, "gap")[0])]
    if not shown:
        raise NothingToDraw(f"no rounds of {', '.join(SHOWN)} at strength {strength:g}")
    figure = new_figure(COLUMN, 4.3)
    panels = figure.subplots(3, 1, sharex=True)
    for axes, column in zip(panels, ("delta_eo", "gap", "balanced_accuracy"), strict=True):
        for name in shown:
            _band(axes, *snapshots(results, task.name, name, strength, column), name)
        _reference_lines(axes, results, task, strength, column)
        if column in FAIR:
            axes.axhline(FAIR[column], color=GREY, linewidth=0.7, linestyle=":", zorder=1)
        axes.set_ylabel(PANEL_TITLES[column])
        if column == "gap":
            axes.set_ylim(bottom=0)  # a band of one deviation may reach below, a gap cannot
        axes.locator_params(axis="y", nbins=4)
    panels[0].set_title(f"{task.title}, strength {strength:g}, {seeds_shown(task, 'bands')}")
    panels[-1].set_xlabel("answers")
    panels[-1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
    legend_below(figure, 3, _lines(results, task, strength, shown))
    text = f"{task.title}: the snapshot after every answer at strength {strength:g}, on the test part; mean over seeds"
    text += ", bands one standard deviation." if len(task.seeds) > 1 else "."
    text += " Straight lines: after the last round."
    text += " A gap near 0 at a balanced accuracy near 0.5 is a head that gives everybody the same answer."
    return Sketch(figure, text)


def _band(axes: Axes, answered: FloatArray, values: FloatArray, name: str) -> None:
    mean, sd = mean_over_seeds(values), np.nan_to_num(sd_over_seeds(values))
    axes.fill_between(answered, mean - sd, mean + sd, color=COLOURS[name], alpha=0.18, linewidth=0, zorder=2)
    axes.plot(answered, mean, color=COLOURS[name], marker="o", markersize=2, zorder=4)


def _last_round(results: Results, task: TaskResults, method: str, value: float, column: str) -> float:
    """Mean over seeds after as many rounds as the others; NaN where the method is not on record."""
    rounds = results.rounds
    chosen = rounds[
        (rounds["dataset"] == task.name) & (rounds["method"] == method) & np.isclose(rounds["value"], value)
    ]
    if chosen.empty:
        return float("nan")
    last = chosen.sort_values("round").groupby("seed")[column].last()
    return float(mean_over_seeds(last.to_numpy(dtype=np.float64)))


def _references(results: Results, task: TaskResults, strength: float, column: str) -> dict[str, float]:
    levels = {
        "vanilla": _last_round(results, task, "vanilla", 0.0, column),
        "pod-all": _last_round(results, task, "pod-all", strength, column),
    }
    return {name: level for name, level in levels.items() if not np.isnan(level)}


def _reference_lines(axes: Axes, results: Results, task: TaskResults, strength: float, column: str) -> None:
    for name, level in _references(results, task, strength, column).items():
        axes.axhline(level, color=COLOURS[name], linewidth=0.9, linestyle=line_style(name), alpha=0.8, zorder=3)


def _lines(results: Results, task: TaskResults, strength: float, shown: Sequence[str]) -> list[Line2D]:
    curves = [Line2D([], [], color=COLOURS[m], marker="o", markersize=2.5, label=METHODS[m].title) for m in shown]
    levels = _references(results, task, strength, "gap")
    return curves + [Line2D([], [], color=COLOURS[m], linestyle=line_style(m), label=METHODS[m].title) for m in levels]
