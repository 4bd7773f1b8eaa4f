"""Group x label x prediction: the counts every rate, metric and interval is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Weights = npt.NDArray[np.float64] | None
Counts = npt.NDArray[Any]  # int64 where rows were counted, float64 where counts are expected values


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """How many rows of each group had each label and got each prediction, for any number of classifiers.

    `cells[..., a, y, p]`: group a, label y, prediction p. The last slot along the groups, the one the code
    UNKNOWN (-1) reaches, holds the rows without a known group.
    """

    cells: Counts  # (..., g + 1, K, K); K labels, mostly two
    squares: Counts | None = None  # the same of squared weights, where rows are weighted
    rows: Counts | None = None  # and of the rows themselves

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> GroupCounts:
        """The counts of some of the classifiers: `counts[round, head]`."""
        index = index if isinstance(index, tuple) else (index,)
        own = (*index, ..., slice(None), slice(None), slice(None))
        return GroupCounts(*(None if part is None else part[own] for part in (self.cells, self.squares, self.rows)))  # type: ignore[arg-type]

    @property
    def n_groups(self) -> int:
        """Number of groups, UNKNOWN not among them."""
        return int(self.cells.shape[-3]) - 1

    @property
    def classes(self) -> int:
        """Number of labels."""
        return int(self.cells.shape[-1])

    @property
    def tp(self) -> Counts:
        """Positives predicted positive, per group: (..., g)."""
        return self.cells[..., :-1, 1, 1]

    @property
    def fp(self) -> Counts:
        """Negatives predicted positive, per group: (..., g)."""
        return self.cells[..., :-1, 0, 1]

    @property
    def tn(self) -> Counts:
        """Negatives predicted negative, per group: (..., g)."""
        return self.cells[..., :-1, 0, 0]

    @property
    def fn(self) -> Counts:
        """Positives predicted negative, per group: (..., g)."""
        return self.cells[..., :-1, 1, 0]

    @property
    def n(self) -> Counts:
        """Rows per group: (..., g)."""
        return np.asarray(self.cells[..., :-1, :, :].sum((-2, -1)))

    @property
    def excluded(self) -> Counts:
        """Rows without a known group, left out of every group's rates: (...)."""
        return np.asarray(self.cells[..., -1, :, :].sum((-2, -1)))

    @property
    def overall(self) -> Counts:
        """Label x prediction over all rows, those without a known group among them: (..., K, K)."""
        return np.asarray(self.cells.sum(-3))


def weighted_counts(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    groups: npt.ArrayLike,
    n_groups: int,
    weights: Weights,
    classes: int = 2,
) -> GroupCounts:
    """As `group_counts`, of rows that stand for so many people each, (n,); all alike without weights."""
    if weights is None:
        return group_counts(y_true, y_pred, groups, n_groups, classes)
    rows, (first, labels) = group_counts(y_true, y_pred, groups, n_groups, classes).cells, np.asarray([groups, y_true])
    predicted, size = np.asarray(y_pred), rows.shape[-1]
    found = np.zeros((2, *rows.shape))
    for index in np.ndindex(predicted.shape[:-1]):
        code = ((first + 1) * size + labels) * size + predicted[index]
        for power in (0, 1):
            counted = np.bincount(code, weights ** (1 + power), minlength=(n_groups + 1) * size**2)
            found[(power, *index)] = np.roll(counted.reshape(n_groups + 1, size, size), -1, axis=0)
    return GroupCounts(found[0], found[1], rows)


def group_counts(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, groups: npt.ArrayLike, n_groups: int, classes: int = 2
) -> GroupCounts:
    """Count rows by group, label and prediction.

    y_true (n,) 0/1 · y_pred (..., n) 0/1 · groups (n,) or (..., n), codes below n_groups or UNKNOWN (-1) · classes:
    how many labels there are; of more than two, codes from 0 on.
    The leading axes of y_pred and groups broadcast: rounds x heads against one proxy per head, say.
    """
    labels, predicted = coded("y_true", y_true, classes), coded("y_pred", y_pred, classes)
    codes = group_codes(groups, n_groups)
    n = labels.size
    if labels.ndim != 1 or predicted.shape[-1:] != (n,) or codes.shape[-1:] != (n,):
        raise InputError(
            f"y_true has shape {labels.shape}, y_pred {predicted.shape}, groups {codes.shape}: "
            "the last axis of each is the rows and must be equally long."
        )
    base = ((codes + 1) * classes + labels) * classes  # (..., n) UNKNOWN comes first here
    batch = np.broadcast_shapes(predicted.shape[:-1], codes.shape[:-1])
    predicted, base = np.broadcast_to(predicted, (*batch, n)), np.broadcast_to(base, (*batch, n))
    size = (n_groups + 1) * classes**2
    cells = np.empty((*batch, size), np.int64)
    for index in np.ndindex(batch):  # a row's codes stay in cache; one bincount of everything is no faster
        cells[index] = np.bincount(base[index] + predicted[index], minlength=size)
    return GroupCounts(np.roll(cells.reshape(*batch, n_groups + 1, classes, classes), -1, axis=-3))


class JointCounts(TypedDict):
    """People by label and two decisions in JSON, [label][before][after]."""

    groups: dict[str, list[list[list[int]]]]
    unknown: list[list[list[int]]]  # without a recorded group


def joint_counts(
    y_true: npt.NDArray[Any],
    before: npt.NDArray[Any],
    after: npt.NDArray[Any],
    groups: npt.NDArray[Any],
    group_names: Sequence[str],
    classes: int = 2,
) -> JointCounts:
    """People by label and two decisions, nested lists [label][before][after]: per group, and of those without one."""
    code = ((groups + 1) * classes + y_true) * classes**2 + classes * before + after
    shape = (len(group_names) + 1, classes, classes, classes)
    unknown, *known = np.bincount(code, minlength=int(np.prod(shape))).reshape(shape).tolist()
    return {"groups": dict(zip(group_names, known, strict=True)), "unknown": unknown}


def soft_class_counts(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, p_group: npt.ArrayLike, classes: int
) -> GroupCounts:
    """Expected counts of any number of labels, coded from 0 on: y_true, y_pred (n,) · p_group (n, g), rows sum to 1."""
    labels, predicted = coded("y_true", y_true, classes), coded("y_pred", y_pred, classes)
    member = np.asarray(p_group, np.float64)
    member = np.concatenate([member, 1 - member.sum(-1, keepdims=True)], axis=1)  # (n, g + 1)
    cells = np.zeros((member.shape[1], classes * classes))
    for group in range(member.shape[1]):
        cells[group] = np.bincount(labels * classes + predicted, member[:, group], minlength=classes * classes)
    return GroupCounts(cells.reshape(-1, classes, classes).clip(min=0))


def soft_group_counts(y_true: npt.ArrayLike, y_pred: npt.ArrayLike, p_group: npt.ArrayLike) -> GroupCounts:
    """Expected counts when membership, and perhaps the prediction, is only a probability.

    y_true (n,) 0/1 · y_pred (..., n) predictions or P(y=1) · p_group (..., n, g), rows sum to 1; what a row
    lacks of 1 counts as UNKNOWN.
    """
    labels = binary("y_true", y_true)
    positive, member = np.asarray(y_pred, np.float64), np.asarray(p_group, np.float64)
    if positive.shape[-1:] != labels.shape or member.shape[-2:-1] != labels.shape:
        raise InputError(
            f"y_true has shape {labels.shape}, y_pred {positive.shape}, p_group {member.shape}: "
            "pass (n,), (..., n) and (..., n, groups)."
        )
    member = np.concatenate([member, 1 - member.sum(-1, keepdims=True)], axis=-1)  # (..., n, g + 1)
    if not ((positive >= 0) & (positive <= 1)).all() or not (member >= -1e-6).all():
        raise InputError("y_pred or p_group holds no probabilities: pass values from 0 to 1, rows summing to 1.")
    exposed = np.stack([labels == 0, labels == 1]).astype(np.float64)  # (2, n)
    everyone = exposed @ member  # (..., 2, g + 1)
    selected = (positive[..., None, :] * exposed) @ member  # (..., 2, g + 1)
    cells = np.stack(np.broadcast_arrays(everyone - selected, selected), axis=-1)  # (..., 2, g + 1, 2)
    return GroupCounts(np.swapaxes(cells, -3, -2).clip(min=0))


def checked_weights(name: str, weights: Any, n: int) -> npt.NDArray[np.float64] | None:
    """(n,) how many people each row stands for; None where everybody counts alike. InputError where one cannot be."""
    if weights is None:
        return None
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} holds something that is no number: give every row a weight from 0 up.") from None
    if found.shape != (n,):
        raise InputError(f"{name} has shape {found.shape} for {n} rows: pass one weight per row.")
    for bad, what in ((~np.isfinite(found), "missing or infinite"), (found < 0, "negative")):
        if bad.any():
            raise InputError(f"{name} has {int(bad.sum())} {what} weights: give every row a number from 0 up.")
    if not found.any():
        raise InputError(f"{name} is zero in every row: give somebody a weight.")
    return found


def effective_number(weights: npt.NDArray[np.float64]) -> float:
    """How many equally weighted people would tell as much (Kish)."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def coded(name: str, values: npt.ArrayLike, classes: int) -> npt.NDArray[Any]:
    """The values as integers or booleans; an error unless each is a code of so many classes."""
    if classes == 2:
        return binary(name, values)
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or (array.size and (array.min() < 0 or array.max() >= classes)):
        raise InputError(f"{name} has values other than 0 to {classes - 1}: encode the {classes} classes so.")
    return array


def binary(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """The values as integers or booleans; an error unless each is 0 or 1."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise InputError(f"{name} has values other than 0 and 1: encode the two classes as 0 and 1.")
    return array.astype(np.int64) if array.dtype.kind == "f" else array


def group_codes(values: npt.ArrayLike, n_groups: int) -> npt.NDArray[np.int64]:
    """The codes as integers; an error unless each is UNKNOWN (-1) or below n_groups."""
    array = np.asarray(values)
    if n_groups < 1:
        raise InputError(f"n_groups is {n_groups}: there is nobody to compare without groups.")
    if array.dtype.kind not in "iu" or (array.size and (array.min() < -1 or array.max() >= n_groups)):
        raise InputError(f"groups has codes outside -1 to {n_groups - 1}: use -1 where a group is not known.")
    return array.astype(np.int64, copy=False)
