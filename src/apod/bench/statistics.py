"""The arithmetic of the comparison: means over seeds, chosen points, shares, intervals, method against method."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from apod.bench.results import FloatArray, MethodRuns, TaskResults
from apod.randomness import generator

ACCURACY_GIVEN_UP = 0.01
"""How much validation accuracy a chosen point may lose against Vanilla."""

EXTRA_GAP = 0.1
"""The reference point of the dominated area lies this much above Vanilla's gap."""

BOOTSTRAP_SEEDS = 5
"""Fewer seeds give no bootstrap interval."""

RESAMPLES = 4000
FEWEST_DEFINED = 0.95
"""Where a share is undefined in more resamples than the rest, it has no interval: its denominator may be zero."""

Span = tuple[float, float, float]
"""A mean and the two ends of its interval; NaN ends where there is none."""


def mean_over_seeds(values: FloatArray) -> FloatArray:
    """Mean of the defined entries along the first axis; NaN where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the documented NaN
        return np.asarray(np.nanmean(values, axis=0), dtype=np.float64)


def sd_over_seeds(values: FloatArray) -> FloatArray:
    """Standard deviation (n - 1) of the defined entries along the first axis; NaN with fewer than two."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanstd(values, axis=0, ddof=1), dtype=np.float64)


def mean_interval(values: npt.ArrayLike, level: float = 0.95) -> Span:
    """Mean of the defined entries with its t interval."""
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    if not len(array):
        return float("nan"), float("nan"), float("nan")
    middle = float(array.mean())
    if len(array) < 2:
        return middle, float("nan"), float("nan")
    half = float(stats.t.ppf((1 + level) / 2, len(array) - 1) * array.std(ddof=1) / np.sqrt(len(array)))
    return middle, middle - half, middle + half


@dataclass(frozen=True, eq=False)
class Chosen:
    """A method's point in every seed, chosen by what the validation part said."""

    index: npt.NDArray[np.int64]  # (seeds,) column of the value; -1 where the method has no run
    within: npt.NDArray[np.bool_]  # (seeds,) whether a value kept the accuracy; otherwise the most accurate one counts

    def of(self, column: FloatArray) -> FloatArray:
        """(seeds,) this column at the chosen points."""
        picked = column[np.arange(len(self.index)), np.maximum(self.index, 0)]
        return np.where(self.index >= 0, picked, np.nan)


def choose(runs: MethodRuns, vanilla: MethodRuns) -> Chosen:
    """Per seed: of the values whose validation accuracy is at most .01 below Vanilla's, the fairest on that part.

    Without a defined fairness (a method that knows no groups, a head that predicts nobody positive) the most accurate
    of them; a tie goes to the smaller value. The test part plays no role.
    """
    accuracy, fairness = runs["validation_accuracy"], runs["validation_fairness"]
    floor = vanilla["validation_accuracy"].max(axis=1) - ACCURACY_GIVEN_UP
    index = np.full(len(accuracy), -1, dtype=np.int64)
    within = np.zeros(len(accuracy), dtype=bool)
    for seed, ran in enumerate(runs.present):
        if not ran.any() or np.isnan(floor[seed]):
            continue
        allowed = ran & (accuracy[seed] >= floor[seed])
        within[seed] = allowed.any()
        fair = np.where(allowed & ~np.isnan(fairness[seed]), fairness[seed], -np.inf)
        if np.isfinite(fair).any():
            index[seed] = int(np.argmax(fair))
        else:
            index[seed] = int(np.argmax(np.where(allowed if allowed.any() else ran, accuracy[seed], -np.inf)))
    return Chosen(index, within)


def share_closed(vanilla: FloatArray, method: FloatArray, best: FloatArray) -> Span:
    """(gap of Vanilla - gap of the method) / (gap of Vanilla - gap with all groups known), from means over seeds.

    Each argument (seeds,); seeds one of them lacks are left out. NaN where all groups known closes no gap. The ends
    are the 95 % bootstrap interval over seeds, from five seeds on and where the denominator is safely positive.
    """
    gaps = np.stack([vanilla, method, best])
    gaps = gaps[:, ~np.isnan(gaps).any(axis=0)]
    n = gaps.shape[1]
    nothing = (float("nan"),) * 3
    if not n:
        return nothing
    share = float(_share(gaps.mean(axis=1)))
    if n < BOOTSTRAP_SEEDS or np.isnan(share):
        return share, float("nan"), float("nan")
    drawn = generator(0, "share closed").integers(n, size=(RESAMPLES, n))
    shares = _share(gaps[:, drawn].mean(axis=2))
    defined = shares[~np.isnan(shares)]
    if len(defined) < FEWEST_DEFINED * RESAMPLES:
        return share, float("nan"), float("nan")
    low, high = np.quantile(defined, [0.025, 0.975])
    return share, float(low), float(high)


def _share(gaps: FloatArray) -> FloatArray:
    """From (3, ...) mean gaps of Vanilla, the method, all groups known."""
    closed, closable = gaps[0] - gaps[1], gaps[0] - gaps[2]
    share = np.divide(closed, closable, out=np.full(np.shape(closed), np.nan), where=closable > 1e-9)
    return np.asarray(share, dtype=np.float64)


def dominated_area(accuracy: Sequence[float], gap: Sequence[float], reference: tuple[float, float]) -> float:
    """Area of all (accuracy, gap) that some point is at least as good as and the reference point is not.

    The union of the rectangles between each point and the reference (accuracy, gap): a staircase. A point that is
    not better than the reference in both adds nothing. NaN points are left out.
    """
    least, most = reference
    points = [(a, g) for a, g in zip(accuracy, gap, strict=True) if a > least and g < most]
    area, lowest = 0.0, most
    for a, g in sorted(points, key=lambda point: (-point[0], point[1])):  # from the most accurate on
        if g < lowest:
            area += (a - least) * (lowest - g)
            lowest = g
    return area


def majority_accuracy(task: TaskResults) -> float:
    """Accuracy of giving everybody the commoner label, mean over seeds of the test part.

    The share of label 1 in a group follows from its rates: selection = TPR x share + FPR x (1 - share).
    """
    by_seed = [_positive_share(task, seed) for seed in range(len(task.seeds))]
    known = [max(share, 1 - share) for share in by_seed if not np.isnan(share)]
    return float(np.mean(known)) if known else float("nan")


def _positive_share(task: TaskResults, seed: int) -> float:
    """From the run whose rates differ most, so that the division is exact to rounding; NaN where none differ."""
    groups = range(len(task.group_names))
    best, share = 1e-6, float("nan")
    for runs in task.methods.values():
        for column in np.flatnonzero(runs.present[seed]):
            n, tpr, fpr, selected = (
                np.array([runs[f"{field}_{a}"][seed, column] for a in groups])
                for field in ("n", "tpr", "fpr", "selection_rate")
            )
            apart = float(np.abs(tpr - fpr).min())  # NaN compares as not larger
            if apart > best:
                positives = np.rint(n * (selected - fpr) / (tpr - fpr))
                best, share = apart, float(positives.sum() / n.sum())
    return share


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
