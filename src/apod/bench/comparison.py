"""What one task's runs say when methods are held against Vanilla, against all groups known, and against APOD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from apod.bench.results import FloatArray, MethodRuns, TaskResults
from apod.bench.statistics import (
    EXTRA_GAP,
    Chosen,
    Span,
    choose,
    dominated_area,
    majority_accuracy,
    mean_interval,
    mean_over_seeds,
    share_closed,
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """One task's methods with their chosen points; nothing is chosen where Vanilla has no runs."""

    task: TaskResults
    chosen: Mapping[str, Chosen]
    reference: tuple[float, float]  # of the dominated area: accuracy and gap

    def at_choice(self, method: str, column: str) -> FloatArray:
        """(seeds,) a column at the method's chosen points; NaN where it has none."""
        if method not in self.chosen:
            return np.full(len(self.task.seeds), np.nan)
        return self.chosen[method].of(self.task.methods[method][column])

    def share(self, method: str) -> Span:
        """Share of the gap closed; see `share_closed`."""
        vanilla, mine, best = (self.at_choice(name, "gap") for name in ("vanilla", method, "pod-all"))
        return share_closed(vanilla, mine, best)

    def area(self, method: str) -> float:
        """Area dominated by the method's mean points; see `dominated_area`."""
        runs = self.task.methods[method]
        accuracy, gap = mean_over_seeds(runs["accuracy"]), mean_over_seeds(runs["gap"])
        return dominated_area(accuracy.tolist(), gap.tolist(), self.reference)

    def change(self, method: str, other: str, column: str) -> Span:
        """Paired difference method - other at the chosen points, with its t interval over seeds."""
        return mean_interval(self.at_choice(method, column) - self.at_choice(other, column))

    def matched(self, method: str, other: str, column: str) -> tuple[list[Span], Span] | None:
        """Paired differences at equal places of the two ranges, and their mean; None for ranges of other lengths."""
        mine, theirs = self.task.methods[method], self.task.methods[other]
        if len(mine.values) != len(theirs.values):
            return None
        difference = mine[column] - theirs[column]  # (seeds, values)
        return [mean_interval(column_) for column_ in difference.T], mean_interval(_complete_mean(difference))


def _complete_mean(values: FloatArray) -> FloatArray:
    """(seeds,) means over all values; NaN for a seed that lacks one, whose mean would be of something else."""
    return np.asarray(values.mean(axis=1), dtype=np.float64)


def compare(task: TaskResults) -> Comparison:
    """Choose every method's points by the validation part and place the reference of the areas."""
    vanilla = task.methods.get("vanilla")
    if vanilla is None:
        return Comparison(task, {}, (float("nan"), float("nan")))
    chosen = {name: choose(runs, vanilla) for name, runs in task.methods.items()}
    gap = float(np.nanmean(vanilla["gap"])) if _any(vanilla, "gap") else float("nan")
    return Comparison(task, chosen, (majority_accuracy(task), gap + EXTRA_GAP))


def _any(runs: MethodRuns, column: str) -> bool:
    return bool((~np.isnan(runs[column])).any())
