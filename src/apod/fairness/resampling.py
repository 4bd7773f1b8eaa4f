"""Intervals of every metric by the bootstrap: rows are drawn with replacement, as counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.errors import InputError
from apod.fairness.counts import Counts, GroupCounts, Weights, coded, group_codes, group_counts, weighted_counts
from apod.fairness.many_labels import Metric
from apod.fairness.metrics import FloatArray, metric_table
from apod.fairness.notions import EQUALIZED_ODDS, Notion


@dataclass(frozen=True, eq=False)
class Interval:
    """A metric and its percentile interval, each in the metric's shape; unpacks as `low, high`."""

    value: FloatArray
    low: FloatArray
    high: FloatArray
    undefined: npt.NDArray[np.int64]  # resamples left out because the metric did not exist in them

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.low, self.high))


def bootstrap(
    counts: GroupCounts,
    rng: np.random.Generator,
    notion: Notion = EQUALIZED_ODDS,
    *,
    resamples: int = 1000,
    level: float = 0.95,
) -> dict[str, Interval]:
    """An interval for every metric, per classifier (those of RATES: and per group).

    Drawing n rows with replacement and counting them is a multinomial draw of the counts, so the counts are
    drawn: the same distribution, at a price that does not grow with the rows.
    """
    drawn = GroupCounts(_resample(counts.cells, rng, resamples, squares=counts.squares))
    return {name: _interval(metric(counts), metric(drawn), level) for name, metric in metric_table(notion).items()}


def paired_bootstrap(
    y_true: npt.ArrayLike,
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    groups: npt.ArrayLike,
    n_groups: int,
    rng: np.random.Generator,
    notion: Notion = EQUALIZED_ODDS,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    weights: Weights = None,
) -> dict[str, Interval]:
    """An interval for every metric's change, after minus before, of two classifiers on the same rows.

    before (n,), after (..., n), groups (n,). The joint cells group x label x before x after are drawn: both
    err on much the same rows, which two separate intervals would ignore.
    """
    size = notion.classes
    codes, first = group_codes(groups, n_groups), coded("before", before, size)
    if codes.shape != first.shape:
        raise InputError(f"before has shape {first.shape} and groups {codes.shape}: pass one of each per row.")
    slot = np.where(codes < 0, n_groups, codes) * size + first  # (n,) group and first prediction in one code
    joint = group_counts(y_true, after, slot, size * (n_groups + 1), size).cells[..., :-1, :, :]
    joint = joint.reshape(*joint.shape[:-3], n_groups + 1, size, size, size)  # (..., group, before, label, after)
    squares = None
    if weights is not None:
        counted = weighted_counts(y_true, after, slot, size * (n_groups + 1), weights, size)
        joint, squares = (  # the same cells, in people and in squared weights
            part[..., :-1, :, :].reshape(joint.shape) for part in (counted.cells, counted.squares) if part is not None
        )
    drawn = _resample(joint, rng, resamples, cell_axes=4, squares=squares)

    def change(metric: Metric, cells: Counts) -> FloatArray:
        old, new = np.swapaxes(cells.sum(-1), -1, -2), cells.sum(-3)  # (..., group, label, prediction)
        return metric(GroupCounts(new)) - metric(GroupCounts(old))

    return {name: _interval(change(m, joint), change(m, drawn), level) for name, m in metric_table(notion).items()}


def _resample(
    cells: Counts, rng: np.random.Generator, resamples: int, cell_axes: int = 3, squares: Counts | None = None
) -> Counts:
    """Multinomial draws over the last axes: (resamples, *cells.shape).

    Of weighted people, gamma draws with the sum of weights as mean and that of their squares as variance: what drawing
    a Poisson number of every row would bring.
    """
    if squares is not None:
        some = cells > 0
        spread = np.where(some, squares, 1.0) / np.where(some, cells, 1.0)
        drawn = rng.standard_gamma(np.where(some, cells / spread, 1.0), size=(resamples, *cells.shape)) * spread
        return np.asarray(np.where(some, drawn, 0.0))
    if not np.issubdtype(cells.dtype, np.integer):
        raise InputError("These counts are expected values: resampling needs counted rows, of group_counts.")
    if resamples < 1:
        raise InputError(f"resamples is {resamples}: draw at least one.")
    batch = cells.shape[:-cell_axes]
    flat = cells.reshape(*batch, -1)
    total = flat.sum(-1)
    share = flat / np.maximum(total, 1)[..., None]
    return rng.multinomial(total, share, size=(resamples, *batch)).reshape(resamples, *cells.shape)


def _interval(value: FloatArray, drawn: FloatArray, level: float) -> Interval:
    """Percentiles of the draws in which the metric exists; NaN where there are none."""
    if not 0 < level < 1:
        raise InputError(f"level is {level}: pass a share between 0 and 1, like 0.95.")
    ordered = np.sort(drawn, axis=0)  # NaN sorts to the end
    defined = (~np.isnan(drawn)).sum(0)
    low, high = (_percentile(ordered, defined, share) for share in ((1 - level) / 2, (1 + level) / 2))
    return Interval(value, low, high, len(drawn) - defined)


def _percentile(ordered: FloatArray, defined: npt.NDArray[np.int64], share: float) -> FloatArray:
    """Linear quantile of each column's first `defined` entries: nanquantile without its loop and warning."""
    last = np.maximum(defined - 1, 0)
    below = np.floor(share * last).astype(np.int64)
    above = np.minimum(below + 1, last)
    left, right = (np.take_along_axis(ordered, place[None], axis=0)[0] for place in (below, above))
    return np.asarray(left + (share * last - below) * (right - left))
