"""FAL, the improved version of the appendix: the classifier learns from S alone, and S grows by what helps fairness.

    x* = argmax over candidates of  alpha ACC(f_t) + (1 - alpha) [ F(f_t) - F(f_{t-1}) ],    F = -|Delta-EO|

f_t is the classifier after the candidate joined S. ACC and F are measured on the validation part with proxy groups;
the candidate's own group is not known before it is asked for, so F is its expectation over f_a's guess. Trying every
row of the pool would need a classifier each, so candidates come from a bounded random buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from apod.bench.arm import RunName, Unit
from apod.fairness.metrics import METRICS, group_counts
from apod.heads.bank import HeadBank
from apod.method.pool import Answers, stack_answers
from apod.method.proxy import PerceptronProxy
from apod.randomness import generator
from apod.threads import training_steps

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
