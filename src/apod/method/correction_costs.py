"""What corrections cost: accuracy and balanced accuracy lost on labelled people, and how sure that is.

The cheapest of hundreds of candidates looks cheaper than it is. So one standard error is added to what counts against
limits, and a third of the loss is counted by how probable labels are near the threshold instead of by the labels.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import expit

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

BY_PROBABILITY = 1 / 3
"""How much of a cost is counted by the probability of the labels instead of the labels. These say what it is without
bias, but the cheapest of hundreds looks cheaper than it is; probabilities hardly favour any, but may be off."""
LOCAL, LOCAL_VARIANCE, NEWTON_STEPS = 0.35, 25.0, 12
"""The bell curve's width is the distance from the threshold within which so many people are."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Those a correction is judged on: labels and the model's decisions; groups come as draws."""

    labels: IntArray  # (n,) codes, 0 or 1 of two labels
    decisions: IntArray  # (n,) the same
    weights: Floats | None = None  # (n,) how many people each stands for, 1 on average; None: all alike
    likely: Floats | None = None  # (n,) P(y = 1) near the threshold; costs are partly counted by it

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: IntArray | slice) -> Judged:
        """These people."""
        return Judged(self.labels[rows], self.decisions[rows], None if self.weights is None else self.weights[rows])


@dataclass(frozen=True, eq=False)
class Costs:
    """What corrections cost on labelled people, how sure that is, and what counts against limits; (A, R) each."""

    accuracy: Floats  # lost, as a fraction
    accuracy_error: Floats  # standard error of it
    balanced: Floats
    balanced_error: Floats
    changed: Floats  # share of decisions that change
    accuracy_counted: Floats  # what is compared with the limit, with a standard error of its own added
    balanced_counted: Floats

    def joined(self, others: Costs) -> Costs:
        """Of these directions and others."""
        return Costs(*joined_fields(self, others))


def joined_fields(one: DataclassInstance, other: DataclassInstance) -> list[Floats]:
    """Of two of a kind that hold arrays by directions: the arrays of both, field by field."""
    return [np.concatenate([getattr(one, own.name), getattr(other, own.name)]) for own in fields(one)]


def costs(people: Judged, band: IntArray, count: int) -> Costs:
    """Accuracy and balanced accuracy lost along all directions, with standard errors, by labels.

    What counts against limits is the loss by labels, or, where the probability of the labels is given, partly by that
    (`BY_PROBABILITY`), plus one standard error: that of the part by labels. Weighted people count by their weight, and
    errors by the squares: unequal weights tell less.
    """
    if people.weights is not None:
        return _weighted_costs(people, band, count, people.weights)
    direction, row = np.nonzero(band < count)
    place, size = direction * count + band[direction, row], len(band) * count
    kind = 2 * people.labels + (people.labels == people.decisions)  # label, was right or wrong
    counted = np.bincount(kind[row] * size + place, minlength=4 * size)
    sums = np.cumsum(counted.reshape(2, 2, len(band), count), axis=3, dtype=np.float64)
    lost, touched = sums[:, 1] - sums[:, 0], sums[:, 1] + sums[:, 0]  # (2, A, R)
    n, of_label = len(people), np.bincount(people.labels, minlength=2)[:, None, None]
    accuracy, within = lost.sum(axis=0) / n, lost / of_label
    error = np.sqrt((touched.sum(axis=0) / n - accuracy**2).clip(0) / n)
    own = np.sqrt(((touched / of_label - within**2).clip(0) / of_label).sum(axis=0)) / 2
    likely, share = lost, 0.0
    if people.likely is not None:
        was, share = np.where(people.decisions == 1, 1.0, -1.0), BY_PROBABILITY
        each = [np.bincount(place, right[row], size) for right in (-was * (1 - people.likely), was * people.likely)]
        likely = np.cumsum(np.reshape(each, (2, len(band), count)), axis=2)
    mixed = (1 - share) * lost + share * likely
    return Costs(
        accuracy,
        error,
        within.mean(axis=0),
        own,
        touched.sum(axis=0) / n,
        mixed.sum(axis=0) / n + (1 - share) * error,
        (mixed / of_label).mean(axis=0) + (1 - share) * own,
    )


def _weighted_costs(people: Judged, band: IntArray, count: int, weights: Floats) -> Costs:
    sign = np.where(people.labels == people.decisions, 1.0, -1.0)  # a change of what was right is a loss
    place = band + (count + 1) * np.arange(len(band))[:, None]

    def along(values: Floats) -> Floats:  # (A, R) sums over everybody who has changed by then
        each = np.bincount(place.ravel(), np.tile(values, len(band)), minlength=len(band) * (count + 1))
        return np.cumsum(each.reshape(len(band), count + 1)[:, :count], axis=1)

    def mean_and_error(inside: BoolArray) -> tuple[Floats, Floats]:
        own = weights * inside
        total = own.sum()
        mean = along(own * sign) / total
        # of a ratio: sum of w^2 (x - mean)^2, x = +-1 where changed and 0 elsewhere
        squares = along(own**2) - 2 * mean * along(own**2 * sign) + mean**2 * (own**2).sum()
        return mean, np.sqrt(squares.clip(0)) / total

    lost, error = mean_and_error(np.ones(len(people), dtype=np.bool_))
    each = [mean_and_error(people.labels == label) for label in (0, 1)]
    balanced = (each[0][0] + each[1][0]) / 2
    own = np.sqrt(each[0][1] ** 2 + each[1][1] ** 2) / 2
    counted, counted_balanced = lost + error, balanced + own
    if people.likely is not None:
        was, totals = np.where(people.decisions == 1, weights, -weights), np.bincount(people.labels, weights, 2)
        of_0, of_1 = along(-was * (1 - people.likely)), along(was * people.likely)
        counted += BY_PROBABILITY * ((of_0 + of_1) / totals.sum() - counted)
        counted_balanced += BY_PROBABILITY * ((of_0 / totals[0] + of_1 / totals[1]) / 2 - counted_balanced)
    return Costs(lost, error, balanced, own, along(weights) / weights.sum(), counted, counted_balanced)


def local_probabilities(eta: Floats, cut: float, labels: IntArray, stands: Floats | None = None) -> Floats:
    """(n,) P(y = 1) by these labels for people near the threshold, where a map for everybody may be too flat.

    Logistic regression on the log odds by `eta`, people weighted by a bell curve around the cut, and by how many they
    stand for, by Newton's method.
    """
    bounded = eta.clip(1e-6, 1 - 1e-6)
    odds = np.log(bounded / (1 - bounded))
    away = odds - np.log(cut / (1 - cut))
    near = np.exp(-0.5 * (away / max(float(np.quantile(np.abs(away), LOCAL)), 1e-9)) ** 2)
    near = near if stands is None else near * stands
    columns, weights = np.column_stack([np.ones(len(away)), away]), np.zeros(2)
    for _ in range(NEWTON_STEPS):
        p = expit(odds + columns @ weights)
        slope = columns.T @ (near * (labels - p)) - weights / LOCAL_VARIANCE
        curvature = (columns * (near * p * (1 - p))[:, None]).T @ columns + np.eye(2) / LOCAL_VARIANCE
        weights = weights + np.linalg.solve(curvature, slope).clip(-1, 1)  # no further at once: labels may be separable
    return np.asarray(expit(odds + columns @ weights))
