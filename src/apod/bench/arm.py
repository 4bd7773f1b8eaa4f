"""An *arm*: one bank of heads, one per (method, value), moved on round by round; the baselines' losses.

All arms of a seed start from the same body, split, pre-trained head and first answers, and see the same mini-batches
and dropout masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.bench.methods import Method
from apod.data.dataset import UNKNOWN, IntArray
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import Answers
from apod.method.annotators import RecordedGroups
from apod.method.pod import Training, round_schedule
from apod.method.pool import Pool, first_choices, first_choices_until_done
from apod.method.proxy import LogisticProxy
from apod.processes import training_steps


def _losses(margin: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every row and its slope in the margin, (K, R) each."""
    ones = labels.to(margin.dtype)
    return torch.nn.functional.softplus(margin * (1 - 2 * ones)), margin.sigmoid().sub_(ones)


class GroupDro:
    """Group DRO (Sagawa et al.): min over heads, max over q, of  sum_a q_a x mean loss of group a.

    q takes an exponentiated-gradient step on every mini-batch, then weighs the groups' losses.
    """

    def __init__(self, step_sizes: Tensor, n_groups: int) -> None:
        self._step_sizes = step_sizes  # (K,)
        self.q = torch.full((len(step_sizes), n_groups), 1 / n_groups)  # (K, G)
        self._groups = torch.arange(n_groups)

    def slope(self, margin: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
        """Update q on this mini-batch and give the gradient; a group without rows here keeps its weight.

        groups (R,): codes, -1 where a row belongs to no group and does not count.
        """
        losses, slope = _losses(margin, labels)
        member = (groups[:, None] == self._groups).to(losses.dtype)  # (R, G)
        sizes = member.sum(dim=0).clamp(min=1)
        group_loss = losses @ member / sizes  # (K, G)
        self.q = self.q * (self._step_sizes[:, None] * group_loss).exp()
        self.q = self.q / self.q.sum(dim=1, keepdim=True)
        return slope.mul_((self.q / sizes) @ member.T)


def learning_from_failure_slope(margin: Tensor, labels: Tensor, powers: Tensor) -> Tensor:
    """Gradient of LfF (Nam et al.) for K biased heads followed by their K debiased twins.

    Biased: generalised cross-entropy (1 - p_y^q) / q, whose gradient is p_y^q x that of cross-entropy.
    Debiased: cross-entropy weighed by l_B / (l_B + l_D); the weights are constants of the step.
    """
    heads, size = len(powers), margin.shape[1]
    losses, slope = _losses(margin, labels)
    biased, debiased = losses[:heads], losses[heads:]
    confident = (-biased).exp() ** powers[:, None]  # p_y^q
    failed = biased / (biased + debiased).clamp(min=torch.finfo(losses.dtype).tiny)
    return slope.mul_(torch.cat([confident, failed])).div_(size)


@dataclass(frozen=True)
class RunName:
    """One run: a method at one value."""

    method: Method
    value: float


@dataclass(frozen=True, eq=False)
class Unit:
    """One dataset and one seed: what all its arms start from. Only `groups` holds true groups of training rows."""

    pool: Pool
    training: Training
    pretrained: npt.NDArray[np.float64]
    budget: int
    groups: IntArray  # (N,) of the training part; read through an oracle, or by methods that know all groups

    def oracle(self) -> Callable[[int], int]:
        """Answers one row at a time; UNKNOWN where nothing is on record."""
        recorded = RecordedGroups(self.groups, [str(code) for code in range(self.pool.n_groups)])

        def answer(row: int) -> int:
            group = recorded(row)
            return int(group) if isinstance(group, str) else UNKNOWN

        return answer

    def first_answers(self) -> Answers:
        """The random answers every asking method begins with: the same for all of a seed."""
        oracle, answers = self.oracle(), Answers()

        def groups_seen() -> int:
            return len(answers.groups_seen())

        for choice in first_choices_until_done(self.pool, self.budget, groups_seen):
            answers = answers.plus(choice.row, oracle(choice.row))
        return answers

    def random_answers(self) -> Answers:
        """The whole budget at random, alternating between the labels; it begins with the first answers."""
        oracle = self.oracle()
        rows = [choice.row for choice in islice(first_choices(self.pool), self.budget)]
        return Answers(tuple(rows), tuple(oracle(row) for row in rows))

    @cached_property
    def everybody(self) -> Answers:
        """The groups of the whole training part: what methods with all groups known start from."""
        return Answers(tuple(range(len(self.groups))), tuple(self.groups.tolist()))

    @cached_property
    def membership_by_everybody(self) -> Tensor:
        """(1, V, G) proxy groups of the validation part, by an f_a learnt from everybody."""
        pool = self.pool
        proxy = LogisticProxy(1, pool.embeddings.shape[1], pool.n_groups, pool.seed, pool.dataset, regularisation=1.0)
        proxy.fit(pool.embeddings, [self.everybody])
        return proxy.probabilities(pool.validation)

    def train(self, bank: HeadBank, round_: int, slope: Callable[[Tensor, Tensor], Tensor]) -> None:
        """One round of the bank: every mini-batch's margins (K, B) and rows (B,) give the slope of its loss, (K, B)."""
        with training_steps():
            for step in round_schedule(self.pool, self.training, round_):
                bank.step_margins(
                    self.pool.embeddings.index_select(0, step.rows),
                    None,
                    step.masks,
                    lambda margin, rows=step.rows: slope(margin, rows),  # type: ignore[misc]
                    step.scale,
                )

    def bank(self, heads: int) -> HeadBank:
        """So many copies of the pre-trained head: where every run starts."""
        sizes = (self.pool.embeddings.shape[1], *self.training.hidden, 2)
        return HeadBank.replicate(self.pretrained, heads, sizes, self.pool.embeddings.dtype)

    def rounds(self) -> int:
        """Refits of an asking method: after the first answers, then after each further one. All arms train as long."""
        return self.budget - len(self.first_answers()) + 1


class Arm(Protocol):
    """A bank of heads and how it moves on by one round.

    Invariants: `heads` has one head per run, in the order of `runs`; after `advance` every head has trained
    `training.epochs` more epochs; a head's course does not depend on the other runs of the arm.
    """

    runs: Sequence[RunName]

    @property
    def heads(self) -> HeadBank:
        """The heads as they are now."""
        ...

    def advance(self) -> None:
        """Ask what is to be asked, then train one round."""
        ...

    def validation_membership(self) -> Tensor | None:
        """(K, V, G) proxy groups of the validation part for head selection; None where a method has no groups."""
        ...

    def answers(self) -> list[Answers]:
        """Per run, the answers so far."""
        ...
