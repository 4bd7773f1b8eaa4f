"""How each method trains: the arms by trainer, FAL among them. They differ in whom they ask and in the gradient.

x* = argmax over candidates of  alpha ACC(f_t) + (1 - alpha) [ F(f_t) - F(f_{t-1}) ],    F = -|Delta-EO|

f_t is the classifier after the candidate joined S. ACC and F are measured on the validation part with proxy groups;
the candidate's own group is not known before it is asked for, so F is its expectation over f_a's guess. Trying every
row of the pool would need a classifier each, so candidates come from a bounded random buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from apod.bench.arm import Arm, GroupDro, RunName, Unit, learning_from_failure_slope
from apod.bench.fairlearn_arms import ExponentiatedGradientArm, ThresholdOptimizerArm
from apod.bench.rivals import CglArm, DfrArm, FairDsrArm, JttArm, SsaArm
from apod.fairness.metrics import METRICS, group_counts
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import Answers, Question, next_answers
from apod.method.head_mitigation import HeadPlan, Mitigation, Plan, TrajectoryPlan, first_answers
from apod.method.pod import DrawnPenaltyRows, train_heads
from apod.method.pool import stack_answers
from apod.method.proxy import PerceptronProxy
from apod.processes import training_steps
from apod.randomness import generator

BUFFER = 16
"""Candidates per question."""


class FalArm:
    """One trajectory per alpha; heads are trained on S alone."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._oracle, self._round = runs, unit, unit.oracle(), 0
        pool = unit.pool
        sizes = (pool.embeddings.shape[1], *unit.training.hidden, 2)
        dtype = pool.embeddings.dtype
        self.heads = HeadBank.replicate(unit.pretrained, len(runs), sizes, dtype)
        self._proxy = PerceptronProxy(len(runs), sizes[0], pool.n_groups, pool.seed, pool.dataset, dtype)
        self._answers = [Answers() for _ in runs]

    def advance(self) -> None:
        """Ask the best candidate of the buffer, then train head and f_a on S."""
        if self._round == 0:
            self._answers = [self._unit.first_answers() for _ in self.runs]
        elif len(self._answers[0]) < self._unit.budget:
            for number, row in enumerate(self._best_candidates()):
                self._answers[number] = self._answers[number].plus(row, self._oracle(row))
        self._proxy.fit(self._unit.pool.embeddings, self._answers)
        self._train(self.heads, self._answers)
        self._round += 1

    def validation_membership(self) -> Tensor:
        """By each run's own f_a."""
        return self._proxy.probabilities(self._unit.pool.validation)

    def answers(self) -> list[Answers]:
        """Per run."""
        return self._answers

    def _train(self, bank: HeadBank, answers: Sequence[Answers]) -> None:
        """`epochs` full-batch epochs of cross-entropy on S."""
        pool, training = self._unit.pool, self._unit.training
        rows = stack_answers(answers, pool.n_groups, pool.embeddings.dtype)
        own = pool.embeddings[rows.rows]  # (K, S, M)
        targets = torch.where(rows.targets >= 0, pool.labels[rows.rows], -1)
        keep = generator(pool.seed, "fal-dropout", pool.dataset, self._round)
        counted = (targets >= 0).to(own.dtype)
        weights = counted / counted.sum(dim=1, keepdim=True).clamp(min=1)  # (K, S)

        def slope(margin: Tensor) -> Tensor:
            return weights * (margin.sigmoid() - targets)

        with training_steps():
            for _ in range(training.epochs):
                masks = [_mask(keep, own.shape[1], width, training.dropout) for width in training.hidden]
                bank.step_margins(None, own, masks, slope, 1 / (1 - training.dropout))

    def _best_candidates(self) -> list[int]:
        """Per run, the row of the buffer with the best expected objective; ties to the first of the buffer."""
        pool, runs = self._unit.pool, len(self.runs)
        buffers = np.stack([self._buffer(answers) for answers in self._answers])  # (K, C)
        size = buffers.shape[1]
        tried, place = np.unique(buffers, return_inverse=True)
        now = self._proxy.probabilities(pool.embeddings[tried])  # (K, rows of any buffer, G)
        guess = now[torch.arange(runs)[:, None], torch.from_numpy(place.reshape(buffers.shape))].double()  # (K, C, G)
        guess /= guess.sum(dim=2, keepdim=True)  # single precision sums to one only nearly
        trial = _repeat(self.heads, size)
        self._train(
            trial, [a.plus(int(row), 0) for a, buffer in zip(self._answers, buffers, strict=True) for row in buffer]
        )
        predicted = (trial.margins(pool.validation) > 0).numpy()  # (K * C, V)
        accuracy = (predicted == pool.validation_labels.numpy()).mean(axis=1).reshape(runs, size)
        fairness = self._expected_fairness(buffers, predicted, guess)  # (K, C)
        predicted_before = (self.heads.margins(pool.validation) > 0).numpy()
        before = self._fairness(predicted_before, _guessed(self._proxy, pool.validation))
        alpha = np.array([run.value for run in self.runs])[:, None]
        value = alpha * accuracy + (1 - alpha) * (fairness - before[:, None])
        best = value.round(9).argmax(axis=1)  # a tie stays a tie whatever the rounding of f_a's guesses
        return [int(buffers[k, best[k]]) for k in range(runs)]

    def _buffer(self, answers: Answers) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        pool = self._unit.pool
        order = generator(pool.seed, "select", "fal", pool.dataset, self._round).permutation(len(pool.labels))
        return np.array([row for row in order[: BUFFER + len(answers)] if row not in answers.rows][:BUFFER])

    def _expected_fairness(
        self, buffers: np.ndarray[tuple[int, ...], np.dtype[np.int64]], predicted: np.ndarray, guess: Tensor
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """E over the candidate's group of -|Delta-EO|, with f_a retrained on each possible answer."""
        pool, expected = self._unit.pool, np.zeros(buffers.shape)
        for group in range(pool.n_groups):
            trial = PerceptronProxy(buffers.size, pool.embeddings.shape[1], pool.n_groups, pool.seed, pool.dataset)
            trial.bank = _repeat(self._proxy.bank, buffers.shape[1])
            pairs = zip(self._answers, buffers, strict=True)
            trial.fit(pool.embeddings, [a.plus(int(row), group) for a, buffer in pairs for row in buffer])
            fairness = self._fairness(predicted, _guessed(trial, pool.validation)).reshape(buffers.shape)
            expected += guess[:, :, group].numpy() * fairness
        return expected

    def _fairness(self, predicted: np.ndarray, groups: np.ndarray) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        pool = self._unit.pool
        counts = group_counts(pool.validation_labels.numpy(), predicted, groups, pool.n_groups)
        name = "delta_eo" if pool.n_groups == 2 else "gap"
        return np.nan_to_num(-np.abs(METRICS[name](counts)), nan=-2.0)  # undefined is as bad as it gets


def _guessed(proxy: PerceptronProxy, rows: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(K, N) the most probable group of every row."""
    if proxy.n_groups == 2:
        return (proxy.bank.margins(rows) > 0).numpy().astype(np.int64)
    return proxy.bank.logits(rows).argmax(dim=2).numpy()


def _repeat(bank: HeadBank, times: int) -> HeadBank:
    """Every head `times` times, side by side, with its Adam state."""
    copy = HeadBank(bank.parameters.repeat_interleave(times, dim=0), bank.sizes)
    copy.adam.mean = bank.adam.mean.repeat_interleave(times, dim=0)
    copy.adam.square = bank.adam.square.repeat_interleave(times, dim=0)
    copy.adam.steps = bank.adam.steps
    return copy


def _mask(rng: np.random.Generator, rows: int, width: int, dropout: float) -> Tensor:
    keep = torch.from_numpy(rng.random((rows, width), dtype=np.float32)) >= dropout
    return keep.float().div_(1 - dropout)


class PodArm:
    """POD with any selector: one trajectory and S per run; strength 0 is the vanilla head."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._oracle = runs, unit, unit.oracle()
        asking = [k for k, run in enumerate(runs) if run.method.selector is not None]
        trajectories = tuple(TrajectoryPlan(runs[k].method.selector or "random", k) for k in asking)
        place = {k: t for t, k in enumerate(asking)}
        heads = tuple(HeadPlan(run.value, place.get(k, 0)) for k, run in enumerate(runs))
        self.engine = Mitigation(
            unit.pool, Plan(heads, trajectories or (TrajectoryPlan("random", 0),)), unit.training, unit.pretrained
        )
        self._of_run, self._asking = place, asking
        self.heads = self.engine.heads

    def advance(self) -> None:
        """First answers in the first round, then one question per trajectory and round."""
        if self.engine.round == 0:
            self._begin()
        elif self._asking:  # an arm of vanilla heads alone asks nobody
            next_answers(self.engine, self._answer, self._unit.budget, 1)
        self.engine.refit()

    def _begin(self) -> None:
        upfront = [trajectory for trajectory, run in enumerate(self._asking) if self.runs[run].method.upfront]
        for trajectory in upfront:
            for row in self._at_random():
                self.engine.add_answer(trajectory, row, self._oracle(row))
        others = [trajectory for trajectory in range(len(self._asking)) if trajectory not in upfront]
        first_answers(self.engine, self._answer, self._unit.budget, others)

    def _answer(self, question: Question) -> int:
        return self._oracle(question.row)

    def _at_random(self) -> list[int]:
        """The whole budget in one random draw."""
        pool = self._unit.pool
        rng = generator(pool.seed, "select", "upfront", pool.dataset)
        return [int(row) for row in rng.choice(len(pool.labels), self._unit.budget, replace=False)]

    def validation_membership(self) -> Tensor:
        """By each run's own f_a."""
        of_head = [head.trajectory for head in self.engine.plan.heads]
        return self.engine.membership(self._unit.pool.validation)[of_head]

    def answers(self) -> list[Answers]:
        """Per run; the vanilla head uses none."""
        return [self.engine.answers[self._of_run[k]] if k in self._of_run else Answers() for k in range(len(self.runs))]


class AllKnownArm:
    """What arms with everybody's group in common have: an f_a learnt from all of the training part.

    Rows whose group is not on record take no part in the penalty (POD) or in the groups' losses (Group DRO).
    """

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._round = runs, unit, 0
        self.heads = unit.bank(len(runs))
        self._membership = unit.membership_by_everybody.expand(len(runs), -1, -1)

    def validation_membership(self) -> Tensor:
        """The validation part has no true groups here either."""
        return self._membership

    def answers(self) -> list[Answers]:
        """Everybody."""
        return [self._unit.everybody] * len(self.runs)


class PodAllArm(AllKnownArm):
    """POD with all groups known: the upper bound. The penalty is over a fresh draw of rows in every step."""

    def advance(self) -> None:
        """One round of POD over everybody."""
        unit = self._unit
        groups = torch.from_numpy(unit.groups)
        known = torch.nn.functional.one_hot(groups.clamp(min=0), unit.pool.n_groups)
        membership = known.to(unit.pool.embeddings.dtype)[None]
        recorded = torch.nonzero(groups >= 0).squeeze(1)
        rows = DrawnPenaltyRows(unit.pool, unit.training.penalty.notion, membership, recorded)
        strengths = torch.tensor([run.value for run in self.runs])
        train_heads(self.heads, unit.pool, unit.training, self._round, strengths, rows)
        self._round += 1


class GroupDroArm(AllKnownArm):
    """Group DRO: the groups' weights q follow their losses; the step size of q draws the curve."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        self._objective = GroupDro(torch.tensor([run.value for run in runs]), unit.pool.n_groups)

    def advance(self) -> None:
        """One round of min-max training."""
        labels, groups = self._unit.pool.labels, torch.from_numpy(self._unit.groups)
        objective = self._objective
        self._unit.train(
            self.heads,
            self._round,
            lambda margin, rows: objective.slope(margin, labels.index_select(0, rows), groups.index_select(0, rows)),
        )
        self._round += 1


class LffArm:
    """Learning from failure: a biased twin of every head tells it which rows to weigh more. No groups at all."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._round = runs, unit, 0
        self._twins = unit.bank(2 * len(runs))  # biased heads first, then the debiased ones
        self._powers = torch.tensor([run.value for run in runs])

    @property
    def heads(self) -> HeadBank:
        """The debiased heads."""
        return HeadBank(self._twins.parameters[len(self.runs) :], self._twins.sizes)

    def advance(self) -> None:
        """One round of both twins."""
        labels, powers = self._unit.pool.labels, self._powers
        self._unit.train(
            self._twins,
            self._round,
            lambda margin, rows: learning_from_failure_slope(margin, labels.index_select(0, rows), powers),
        )
        self._round += 1

    def validation_membership(self) -> None:
        """No groups: heads are kept by validation accuracy."""

    def answers(self) -> list[Answers]:
        """Nobody was asked."""
        return [Answers()] * len(self.runs)


ARMS: Mapping[str, Callable[[Unit, Sequence[RunName]], Arm]] = MappingProxyType(
    {
        "pod": PodArm,
        "pod-all": PodAllArm,
        "group-dro": GroupDroArm,
        "lff": LffArm,
        "fal": FalArm,
        "cgl": CglArm,
        "fairdsr": FairDsrArm,
        "ssa": SsaArm,
        "dfr": DfrArm,
        "jtt": JttArm,
        "exponentiated-gradient": ExponentiatedGradientArm,
        "threshold-optimizer": ThresholdOptimizerArm,
    }
)
"""Trainers by name."""
