"""The people Algorithm 1 works on, as heads and f_a read them, and S: what has been answered about them so far.

A pool holds no groups. Heads read embeddings. f_a may read the encoded inputs instead (`method.proxy`): an embedding
trained for other ends keeps less of what shows the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.data.blocks import moments
from apod.data.dataset import UNKNOWN, FairnessMetric, IntArray
from apod.errors import InputError

Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Pool:
    """The training part and the validation part; no groups."""

    dataset: str
    seed: int
    embeddings: Tensor  # (N, M) what the heads read
    labels: Tensor  # (N,)
    validation: Tensor  # (V, M)
    validation_labels: Tensor  # (V,)
    n_groups: int
    metric: FairnessMetric = "delta_eo"
    inputs: Tensor | None = None  # (N, D) what f_a reads; None: the embeddings
    validation_inputs: Tensor | None = None  # (V, D)

    def __post_init__(self) -> None:
        if (self.inputs is None) != (self.validation_inputs is None):
            raise InputError("f_a reads the inputs of both parts or of none: pass both, or leave both out.")

    @property
    def seen(self) -> Tensor:
        """What f_a reads of the training part."""
        return self.embeddings if self.inputs is None else self.inputs

    @property
    def validation_seen(self) -> Tensor:
        """What f_a reads of the validation part."""
        return self.validation if self.validation_inputs is None else self.validation_inputs

    @cached_property
    def likeness(self) -> Likeness:
        """By whose distances people are alike: embeddings and inputs count the same."""
        parts = [self.embeddings.numpy()]
        return Likeness(parts if self.inputs is None else [*parts, self.inputs.numpy()])

    def judged_on(self, rows: Tensor) -> Self:
        """The same pool with some of its training part in the place of the validation part."""
        inputs = None if self.inputs is None else self.inputs[rows]
        labels = self.labels[rows]
        return replace(self, validation=self.embeddings[rows], validation_inputs=inputs, validation_labels=labels)

    def every(self, step: int) -> Self:
        """The same pool with every `step`-th row of the validation part alone."""
        inputs = None if self.validation_inputs is None else self.validation_inputs[::step]
        labels = self.validation_labels[::step]
        return replace(self, validation=self.validation[::step], validation_inputs=inputs, validation_labels=labels)


class Likeness:
    """Rows of several matrices side by side, each in units of its own spread; made for those rows that are taken."""

    def __init__(self, parts: Sequence[Matrix]) -> None:
        self._parts = [(part, _spread(part) if len(parts) > 1 else 1.0) for part in parts]

    def __getitem__(self, rows: IntArray) -> Matrix:
        return np.hstack([part[rows] / spread for part, spread in self._parts])


def _spread(rows: Matrix) -> float:
    """Mean distance (root mean square) from the middle."""
    return float(np.sqrt((moments(rows)[1] ** 2).sum())) or 1.0


@dataclass(frozen=True)
class Answers:
    """Rows asked about and the group each answer gave; UNKNOWN where the annotator could not tell.

    Every asked row counts against the budget and is never asked again; only rows with a group are in S. Where
    annotators disagree a row stands once per group, with weights that sum to one. The first ones may be groups that
    were handed in: nobody was asked about them, and they cost nothing.
    """

    rows: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    weights: tuple[float, ...] = field(default=())  # trust in each answer, 1 unless an annotator model says less
    handed_in: int = field(default=0, kw_only=True)  # so many come first

    def __post_init__(self) -> None:
        if not self.weights:
            object.__setattr__(self, "weights", (1.0,) * len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def asked(self) -> int:
        """How many count against the budget."""
        return len(self.rows) - self.handed_in

    def plus(self, row: int, group: int, weight: float = 1.0) -> Answers:
        """These answers and one more."""
        return Answers((*self.rows, row), (*self.groups, group), (*self.weights, weight), handed_in=self.handed_in)

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

    def groups_seen(self) -> set[int]:
        """Groups that have been answered at least once."""
        return {group for group in self.groups if group != UNKNOWN}

    def empty_cells(self, labels: IntArray, n_groups: int) -> list[tuple[int, int]]:
        """The (group, label) cells that nobody is known of; labels (n,) of the rows that may be asked about."""
        rows, groups = self.known()
        filled = set(zip(groups.tolist(), labels[rows].tolist(), strict=True))
        return [(group, label) for group in range(n_groups) for label in (0, 1) if (group, label) not in filled]


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


def write_answers(
    membership: Tensor, rows: IntArray, groups: IntArray, weights: npt.NDArray[np.float64] | None = None
) -> None:
    """Write answers over what is guessed: membership (..., n, g), answered rows (s,), their groups and weights (s,).

    A row whose annotators disagree stands several times among the answers; its weights add up.
    """
    answered, place = np.unique(rows, return_inverse=True)
    known = torch.zeros(len(answered), membership.shape[-1], dtype=membership.dtype)
    trust = torch.ones(len(rows)) if weights is None else torch.from_numpy(weights)
    known.index_put_((torch.from_numpy(place), torch.from_numpy(groups)), trust.to(membership.dtype), accumulate=True)
    membership[..., torch.from_numpy(answered), :] = known
