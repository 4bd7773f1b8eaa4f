"""POD, Algorithm 2: train the heads with a penalty on discrimination.

A step is cross-entropy on a mini-batch of all training rows plus strength x penalty on the penalty's rows, which stand
behind the mini-batch: all of S in every step, or a fresh draw from the proxy-weighted pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.data.blocks import drawn_rows, is_large, steps_per_round, take_rows
from apod.data.dataset import IntArray
from apod.fairness.notions import Notion
from apod.heads.bank import HeadBank, initial_parameters
from apod.heads.schedule import Schedule, Step
from apod.method.algorithm1 import Answers
from apod.method.penalty import CellWeights, Penalty, cell_weights, penalty_and_slope
from apod.method.pool import Pool, stack_answers
from apod.method.settings import ProxyName, Settings
from apod.processes import training_steps
from apod.randomness import generator

DRAWN_ROWS = 1024
"""Rows a penalty over the pool sees per step: enough that the gap is not mostly noise, few enough to be cheap."""


@dataclass(frozen=True)
class Training:
    """How heads are trained."""

    penalty: Penalty
    hidden: tuple[int, ...]
    epochs: int  # per round, and for pre-training the head
    batch_size: int
    dropout: float
    proxy: ProxyName
    head_steps: int  # the head is pre-trained for at least so many steps, whatever the epochs

    @classmethod
    def from_settings(cls, settings: Settings, hidden: tuple[int, ...]) -> Training:
        """What settings say of it; hidden layers are the dataset's."""
        penalty = Penalty(settings.notion, settings.relaxation, settings.over)
        return cls(
            penalty,
            hidden,
            settings.epochs,
            settings.batch_size,
            settings.dropout,
            settings.proxy,
            settings.head_steps,
        )


def pod_slope(margin: Tensor, labels: Tensor, strengths: Tensor, cells: CellWeights | None, relaxation: str) -> Tensor:
    """Gradient of the POD loss with respect to the margins, (K, R).

    Mean cross-entropy over the B rows of the mini-batch, then strength x penalty over the rows behind them.
    margin (K, R) · labels (B,) · strengths (K,)
    """
    size = len(labels)
    slope = torch.empty_like(margin)
    slope[:, :size] = (margin[:, :size].sigmoid() - labels) / size
    if cells is not None:
        slope[:, size:] = strengths[:, None] * penalty_and_slope(margin[:, size:], cells, relaxation)[1]
    return slope


@dataclass(frozen=True, eq=False)
class Round:
    """What one round trains on: the whole pool, or of a large one a draw that is gone through once."""

    pool: Pool
    training: Training
    rows: IntArray | None = None  # which rows of the pool were drawn, in ascending order; None = all

    def places(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Which of these rows are in it (positions in `rows`), and where they stand in its pool."""
        if self.rows is None:
            return np.arange(len(rows)), rows
        found = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        here = np.flatnonzero(self.rows[found] == rows)
        return here, found[here]


def draw_round(pool: Pool, training: Training, round_: str | int) -> Round:
    """The pool and the training of one round, `apod.data.blocks`."""
    if not is_large(len(pool.labels)):
        return Round(pool, training)
    rows = drawn_rows(len(pool.labels), training.batch_size, pool.seed, pool.dataset, round_)
    embeddings = torch.from_numpy(take_rows(pool.embeddings.numpy(), rows))
    inputs = None if pool.inputs is None else torch.from_numpy(take_rows(pool.inputs.numpy(), rows))
    drawn = replace(pool, embeddings=embeddings, inputs=inputs, labels=pool.labels[torch.from_numpy(rows)])
    return Round(drawn, replace(training, epochs=1), rows)


def pretrain_head(pool: Pool, training: Training) -> npt.NDArray[np.float64]:
    """(P,) parameters of a head after `epochs` epochs of cross-entropy: where every strength starts.

    Of few people there are few steps in an epoch: it goes on until there were `head_steps`. A large pool has the steps
    of one of its rounds.
    """
    sizes = (pool.embeddings.shape[1], *training.hidden, 2)
    initial = initial_parameters(sizes, generator(pool.seed, "head", pool.dataset))
    bank = HeadBank.replicate(initial, 1, sizes, pool.embeddings.dtype)
    epochs = max(training.epochs, -(-training.head_steps // steps_per_round(len(pool.labels), 1, training.batch_size)))
    drawn = draw_round(pool, replace(training, epochs=epochs), "pre-training")
    train_heads(bank, drawn.pool, drawn.training, "pre-training", torch.zeros(1))
    return bank.parameters[0].double().numpy()


def round_schedule(
    pool: Pool, training: Training, round_: str | int, own: int = 0, draw: int = 0, draw_from: int | None = None
) -> Schedule:
    """The steps of one round, with so many rows behind each mini-batch."""
    return Schedule(
        n=len(pool.labels),
        hidden=training.hidden,
        seed=pool.seed,
        dataset=pool.dataset,
        round=round_,
        epochs=training.epochs,
        batch_size=training.batch_size,
        dropout=training.dropout,
        own=own,
        draw=draw,
        draw_from=draw_from,
        dtype=pool.embeddings.dtype,
    )


def train_heads(
    bank: HeadBank,
    pool: Pool,
    training: Training,
    round_: str | int,
    strengths: Tensor,
    behind: PenaltyRows | None = None,
) -> None:
    """POD (Algorithm 2): `epochs` epochs of mini-batch cross-entropy plus the penalty on the rows behind each batch."""
    own, draw, among = behind.sizes if behind is not None else (0, 0, None)
    weights = strengths.to(pool.embeddings.dtype)
    with training_steps():
        for step in round_schedule(pool, training, round_, own, draw, among):
            _pod_step(bank, pool, step, weights, behind, training.penalty.relaxation)


def _pod_step(
    bank: HeadBank, pool: Pool, step: Step, strengths: Tensor, behind: PenaltyRows | None, relaxation: str
) -> None:
    shared = pool.embeddings.index_select(0, step.rows)
    labels = pool.labels.index_select(0, step.rows).to(shared.dtype)
    extra, own, cells = behind.at(step) if behind is not None else (None, None, None)
    if extra is not None:
        shared = torch.cat([shared, extra])

    def slope(margin: Tensor) -> Tensor:
        return pod_slope(margin, labels, strengths, cells, relaxation)

    bank.step_margins(shared, own, step.masks, slope, step.scale)


class PenaltyRows:
    """The rows the penalty looks at: S of each head, or rows drawn from a pool whose membership is a probability."""

    def __init__(self, pool: Pool, notion: Notion, trajectories: Sequence[Answers], of_head: Sequence[int]) -> None:
        """S itself, all of it in every step (a mini-batch alone would hold about one annotated row)."""
        shared = len(set(of_head)) == 1
        chosen = [trajectories[of_head[0]]] if shared else [trajectories[t] for t in of_head]
        stacked = stack_answers(chosen, pool.n_groups, pool.embeddings.dtype)
        embeddings = pool.embeddings[stacked.rows]  # (T, S, M)
        self.sizes: tuple[int, int, int | None] = (embeddings.shape[1], 0, None)
        self.cells = cell_weights(notion, pool.labels[stacked.rows], stacked.membership)
        self._shared: Tensor | None = embeddings[0] if shared else None
        self._own: Tensor | None = None if shared else embeddings

    def at(self, step: Step) -> tuple[Tensor | None, Tensor | None, CellWeights]:
        """Rows all heads share, rows of each head, and the weights of the cells, for one step."""
        return self._shared, self._own, self.cells


class DrawnPenaltyRows(PenaltyRows):
    """A fresh random draw of rows in every step, weighted by who probably belongs to which group."""

    def __init__(self, pool: Pool, notion: Notion, membership: Tensor, rows: Tensor | None = None) -> None:
        """membership (T or 1, N, G) of all rows; drawn are all of them, or these `rows`."""
        self._rows = torch.arange(len(pool.labels)) if rows is None else rows
        self.sizes = (0, min(DRAWN_ROWS, len(self._rows)), len(self._rows))
        self._pool, self._notion, self._membership = pool, notion, membership

    def at(self, step: Step) -> tuple[Tensor | None, Tensor | None, CellWeights]:
        """The rows drawn for this step."""
        assert step.penalty_rows is not None
        rows = self._rows.index_select(0, step.penalty_rows)
        labels = self._pool.labels.index_select(0, rows).expand(self._membership.shape[0], -1)
        cells = cell_weights(self._notion, labels, self._membership.index_select(1, rows))
        return self._pool.embeddings.index_select(0, rows), None, cells
