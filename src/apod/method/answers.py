"""S, the annotated set: what has been answered so far, in the order it was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.data.dataset import UNKNOWN, IntArray


@dataclass(frozen=True)
class Answers:
    """Rows asked about and the group each answer gave; UNKNOWN where the annotator could not tell.

    Every asked row counts against the budget and is never asked again; only rows with a group are in S. Where
    annotators disagree a row stands once per group, with weights that sum to one.
    """

    rows: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    weights: tuple[float, ...] = field(default=())  # trust in each answer, 1 unless an annotator model says less

    def __post_init__(self) -> None:
        if not self.weights:
            object.__setattr__(self, "weights", (1.0,) * len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def plus(self, row: int, group: int, weight: float = 1.0) -> Answers:
        """These answers and one more."""
        return Answers((*self.rows, row), (*self.groups, group), (*self.weights, weight))

    def known(self) -> tuple[IntArray, IntArray]:
        """Rows and groups of S."""
        rows, groups = np.array(self.rows, dtype=np.int64), np.array(self.groups, dtype=np.int64)
        return rows[groups != UNKNOWN], groups[groups != UNKNOWN]

    def likeliest(self) -> tuple[IntArray, IntArray]:
        """Rows and groups of S with each row once: where annotators disagree, the group with the most weight."""
        rows, groups = self.known()
        if len(np.unique(rows)) == len(rows):
            return rows, groups
        best = np.lexsort((groups, -self.trust(), rows))  # by row, the heaviest group first
        first = best[np.flatnonzero(np.r_[True, np.diff(rows[best]) != 0])]
        return rows[first], groups[first]

    def trust(self) -> npt.NDArray[np.float64]:
        """Weights of S, in the order of `known`."""
        weights, groups = np.array(self.weights), np.array(self.groups, dtype=np.int64)
        return np.asarray(weights[groups != UNKNOWN], dtype=np.float64)

    def seen(self) -> set[int]:
        """Groups that have been answered at least once."""
        return {group for group in self.groups if group != UNKNOWN}


@dataclass(frozen=True)
class AnsweredRows:
    """S of T trajectories side by side, padded to the longest: padding has no membership and target UNKNOWN."""

    rows: Tensor  # (T, S)
    targets: Tensor  # (T, S) group codes, UNKNOWN for padding
    membership: Tensor  # (T, S, G)


def stack_answers(trajectories: Sequence[Answers], n_groups: int, dtype: torch.dtype) -> AnsweredRows:
    """Lay the answers of all trajectories side by side for the batched programs."""
    known = [answers.known() for answers in trajectories]
    shape = (len(known), max(len(rows) for rows, _ in known))
    rows, targets = np.zeros(shape, dtype=np.int64), np.full(shape, UNKNOWN, dtype=np.int64)
    membership = np.zeros((*shape, n_groups))
    for number, (own, groups) in enumerate(known):
        count = len(own)
        rows[number, :count], targets[number, :count] = own, groups
        membership[number, np.arange(count), groups] = trajectories[number].trust()
    return AnsweredRows(torch.from_numpy(rows), torch.from_numpy(targets), torch.from_numpy(membership).to(dtype))
