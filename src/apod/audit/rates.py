"""From group shares of cells to each group's rates, and the classical estimate from the answers alone."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from apod.audit.shares import CellAnswers, FloatArray
from apod.data.dataset import IntArray


@dataclass(frozen=True, eq=False)
class Cells:
    """Known cells of people: everybody's label and the decision about them."""

    labels: IntArray  # (c,) 0 or 1
    decisions: IntArray  # (c,) 0 or 1
    sizes: FloatArray  # (c,) people whose group is to be estimated
    certain: FloatArray  # (c, g) further people whose group is known for certain


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Rates per group, (..., g). NaN where nobody can be of the group."""

    tpr: FloatArray
    fpr: FloatArray
    selection_rate: FloatArray
    people: FloatArray  # how many there are


def rates(shares: FloatArray, cells: Cells) -> GroupRates:
    """Each group's rates if the cells had these group shares (..., c, g)."""
    people = shares * cells.sizes[:, None] + cells.certain  # (..., c, g)
    chosen = cells.decisions == 1

    def rate(among: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> FloatArray:
        whole = people[..., among, :].sum(-2)
        with np.errstate(invalid="ignore", divide="ignore"):  # 0/0 is the documented NaN
            return np.asarray(people[..., among & chosen, :].sum(-2) / whole)

    positive = cells.labels == 1
    return GroupRates(rate(positive), rate(~positive), rate(np.ones_like(positive)), people.sum(-2))


def difference(rate: FloatArray) -> FloatArray:
    """Signed difference, first group minus reference (the last); beyond two groups highest minus lowest."""
    if rate.shape[-1] == 2:
        return np.asarray(rate[..., 0] - rate[..., 1])
    return np.asarray(rate.max(-1) - rate.min(-1))


def classical_difference(
    sample: CellAnswers, cells: Cells, label: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Two groups' difference in rate and its textbook interval from the answers alone: (difference, low, high).

    Weighted by the draw, +- z standard errors, no proxies, nothing known of the others. NaN where a group has none.
    """
    mine = cells.labels[sample.cells] == label  # (..., n)
    decision = cells.decisions[sample.cells].astype(np.float64)
    rate, variance = [], []
    for group in (0, 1):
        weight = mine * sample.answers[..., group] / sample.probability
        total, count = weight.sum(-1), (weight > 0).sum(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (weight * decision).sum(-1) / total
            spread = (weight**2 * (decision - mean[..., None]) ** 2).sum(-1) / total**2
            variance.append(spread * count / np.maximum(count - 1, 1))
        rate.append(mean)
    middle = rate[0] - rate[1]
    half = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variance[0] + variance[1])
    return middle, middle - half, middle + half
