"""The people that heads are trained on, as heads and f_a read them, and S laid out for batched training.

A pool holds no groups. Heads read embeddings. f_a may read the encoded inputs instead (`method.proxy`): an embedding
trained for other ends keeps less of what shows the group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.data.arrays import Stored
from apod.data.blocks import blocks
from apod.data.dataset import UNKNOWN, FairnessMetric, IntArray
from apod.errors import InputError
from apod.method.algorithm1 import Answers
from apod.method.selection import Choice, Likeness, first_answers_done, first_rows
from apod.randomness import generator


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


def first_choices(pool: Pool, closed: Collection[int] = ()) -> Iterator[Choice]:
    """Everybody who may be asked about, in the order of the first answers: random, alternating between the labels."""
    yield from first_rows(pool.labels.numpy(), generator(pool.seed, "first", pool.dataset), closed)


def first_choices_until_done(
    pool: Pool, budget: int, groups_seen: Callable[[], int], closed: Collection[int] = ()
) -> Iterator[Choice]:
    """The people to ask first, until every group has been seen; the caller takes each answer before the next."""
    for asked, choice in enumerate(first_choices(pool, closed)):
        if first_answers_done(asked, groups_seen(), pool.n_groups, budget):
            return
        yield choice


def mapped_tensor(matrix: Stored) -> Tensor:
    """A tensor over the same memory, mapped or not; nobody may write to it."""
    matrix = np.asarray(matrix)
    if matrix.flags.writeable:
        return torch.from_numpy(matrix)
    # torch warns of arrays it could write to although it must not; nothing here writes to embeddings
    address = matrix.__array_interface__ | {"data": (matrix.__array_interface__["data"][0], False)}
    return torch.from_numpy(np.asarray(_Exposed(address, matrix)))


class _Exposed:
    """Memory under another description; keeps its owner alive."""

    def __init__(self, interface: dict[str, object], owner: Stored) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def in_blocks(compute: Callable[[Tensor], Tensor], embeddings: Tensor, size: int | None = None) -> Tensor:
    """What `compute` gives for blocks of rows (dimension 1 of its result), put together in one sweep."""
    result: Tensor | None = None
    for here, block in blocks(embeddings.numpy(), size):
        part = compute(mapped_tensor(block))  # (T, b, ...)
        if result is None:
            result = torch.empty((part.shape[0], len(embeddings), *part.shape[2:]), dtype=part.dtype)
        result[:, here] = part
    assert result is not None
    return result
