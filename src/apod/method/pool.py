"""The people Algorithm 1 works on: training and validation part, as heads and f_a read them. No groups in it.

Heads read embeddings. f_a may read the encoded inputs instead (`method.proxy`): an embedding trained for other ends
keeps less of what shows the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from apod.data.blocks import moments
from apod.data.dataset import FairnessMetric, IntArray
from apod.errors import InputError
from apod.method.laplace import free_groups

Matrix = npt.NDArray[np.floating]

MOST_WEIGHTS = 1024
"""Weights f_a may have to read the inputs: its posterior grows with their square, and 30 answers cannot tell more."""

MOST_CELLS = 1 << 26
"""Rows x columns up to which it does: they are held in memory, in double precision while f_a looks at them."""


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


def inputs_for(reads: str, encoded: Matrix, n_groups: int) -> Matrix | None:
    """The encoded rows where f_a is to read them; None where it reads the embeddings."""
    weights = (encoded.shape[1] + 1) * len(free_groups(n_groups))
    fits = weights <= MOST_WEIGHTS and encoded.size <= MOST_CELLS
    return encoded if reads == "inputs" and fits else None
