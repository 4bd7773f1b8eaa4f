"""fairlearn's reductions and threshold optimiser on the answered rows, in the place of a bank of heads.

Both start from the pre-trained head and use nothing but the answered rows to mitigate:

    exponentiated-gradient   a mixture of logistic regressions on the head's margin and the embedding's first principal
                             components, fitted to S so that equalized odds hold on S up to eps
    threshold-optimizer      a (randomised) threshold on the head's margin per group such that equalized odds hold on S;
                             whoever is decided about needs a group then, and gets the most probable one by f_a

Answered rows are repeated so that their labels are as frequent as in the training part.

fairlearn is imported when it is needed: `pip install 'apod-fairness[bench]'`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.bench.arm import RunName, Unit
from apod.bench.rivals import AnsweredArm, guesses
from apod.errors import InputError
from apod.heads.bank import HeadBank

FloatArray = npt.NDArray[np.float64]

FAIRLEARN = frozenset({"exponentiated-gradient", "threshold-optimizer"})
"""Trainers that need the extra `[bench]`."""

COMPONENTS = 5
"""Principal components of the embedding beside the margin: with all of it, thirty answers are told without error."""


class Decisions(HeadBank):
    """Classifiers that are no heads, in the place of a bank: margins of +1 and -1 by what they decide."""

    def __init__(self, arm: FairlearnArm, count: int) -> None:
        super().__init__(torch.zeros(count, 6), (2, 2))  # there is nothing to keep of a round: they are fitted once
        self._arm = arm
        self._asked: list[tuple[Tensor, Tensor]] = []  # decisions are random: twice the same rows, the same decisions

    def margins(self, embeddings: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """(K, N) by `FairlearnArm.decide`."""
        known = next((margins for rows, margins in self._asked if rows is embeddings), None)
        if known is None:
            decided = np.stack([self._arm.decide(k, embeddings) for k in range(len(self))])
            known = torch.from_numpy(np.where(decided, 1.0, -1.0))
            self._asked.append((embeddings, known))
        return known if heads is None else known[list(heads)]


class FairlearnArm(AnsweredArm, ABC):
    """Fitted in the first round; the other rounds change nothing."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        rows, groups = self._answers.known()
        times = repetitions(self._labels()[rows], self._labels())
        rows, groups = np.repeat(rows, times), np.repeat(groups, times)
        self._head, labels = unit.bank(1), self._labels()[rows]
        self._fitted = [self._fit(run.value, unit.pool.embeddings[rows], labels, groups) for run in runs]
        self.heads = Decisions(self, len(runs))

    def advance(self) -> None:
        """All answers were there from the start."""
        self._round += 1

    def _margin(self, embeddings: Tensor) -> FloatArray:
        return self._head.margins(embeddings)[0].double().numpy()

    @abstractmethod
    def _fit(
        self, value: float, embeddings: Tensor, labels: npt.NDArray[np.int64], groups: npt.NDArray[np.int64]
    ) -> Any:
        """fairlearn's object, fitted to the answered rows."""

    @abstractmethod
    def decide(self, run: int, embeddings: Tensor) -> npt.NDArray[np.bool_]:
        """(N,) decisions about these rows; random where fairlearn's are, by the seed."""


class ExponentiatedGradientArm(FairlearnArm):
    """Agarwal et al.: the best mixture under equalized odds up to eps, on the answered rows."""

    def _fit(
        self, value: float, embeddings: Tensor, labels: npt.NDArray[np.int64], groups: npt.NDArray[np.int64]
    ) -> Any:
        from sklearn.linear_model import LogisticRegression

        reductions = load_fairlearn("reductions")
        mixture = reductions.ExponentiatedGradient(
            LogisticRegression(max_iter=1000),
            reductions.EqualizedOdds(difference_bound=value),
            eps=value,
            max_iter=20,
            nu=1e-3,  # fairlearn's own is 0 where S is told without error, and then it never ends early
        )
        with warnings.catch_warnings():  # what pandas says of fairlearn's own code is nothing a user can act on
            warnings.simplefilter("ignore")
            return mixture.fit(self._inputs(embeddings), labels, sensitive_features=groups)

    def _inputs(self, embeddings: Tensor) -> FloatArray:
        """(n, 1 + P) margin of the head and first principal components, standardised by the training part."""
        pool = self._unit.pool.embeddings
        return np.column_stack([_standard(self._margin(pool), self._margin(embeddings)), self._principal(embeddings)])

    def _principal(self, embeddings: Tensor) -> FloatArray:
        pool = self._unit.pool.embeddings.double().numpy()
        _, directions = np.linalg.eigh(np.atleast_2d(np.cov(_standard(pool, pool).T)))
        first = directions[:, ::-1][:, :COMPONENTS]  # the largest come last
        return _standard(_standard(pool, pool) @ first, _standard(pool, embeddings.double().numpy()) @ first)

    def decide(self, run: int, embeddings: Tensor) -> npt.NDArray[np.bool_]:
        """By the mixture, drawn by the seed."""
        return np.asarray(self._fitted[run].predict(self._inputs(embeddings), random_state=self._unit.pool.seed) == 1)


class ThresholdOptimizerArm(FairlearnArm):
    """Hardt et al.: a threshold per group; the group is f_a's guess where it was not answered."""

    def _fit(
        self, value: float, embeddings: Tensor, labels: npt.NDArray[np.int64], groups: npt.NDArray[np.int64]
    ) -> Any:
        if any(len(np.unique(labels[groups == group])) < 2 for group in range(self._unit.pool.n_groups)):
            raise InputError(
                f"Not every group has both labels among the {len(self._answers)} answers: allow more answers."
            )
        optimiser = load_fairlearn("postprocessing").ThresholdOptimizer(
            estimator=_margin_as_score(), constraints="equalized_odds", prefit=True, predict_method="decision_function"
        )
        return optimiser.fit(self._margin(embeddings)[:, None], labels, sensitive_features=groups)

    def decide(self, run: int, embeddings: Tensor) -> npt.NDArray[np.bool_]:
        """By the thresholds of the guessed groups."""
        pool = self._unit.pool
        guessed = guesses(pool, [self._answers], embeddings)[0].argmax(axis=1)
        margin = self._margin(embeddings)[:, None]
        decided = self._fitted[run].predict(margin, sensitive_features=guessed, random_state=pool.seed)
        return np.asarray(decided == 1)


def repetitions(answered: npt.NDArray[np.int64], everybody: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(S,) how often each answered row stands for itself, so that labels are as frequent as in the training part.

    The answers hold as many of each label; fitted to them as they are, a classifier would expect that of everybody.
    """
    share = np.bincount(everybody, minlength=2) / len(everybody)
    weight = (share / np.maximum(np.bincount(answered, minlength=2), 1))[answered]
    return np.asarray(np.maximum(np.rint(4 * weight / weight.min()), 1), dtype=np.int64) if len(answered) else answered


def _standard(by: FloatArray, values: FloatArray) -> FloatArray:
    """Values on the scale on which `by` has mean 0 and standard deviation 1 in every column."""
    spread = by.std(axis=0)
    return np.asarray((values - by.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0))


def _margin_as_score() -> Any:
    """An estimator, fitted already, whose score is its only column."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class MarginAsScore(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def __init__(self) -> None:
            self.fitted_ = True

        def fit(self, X: FloatArray, y: FloatArray) -> MarginAsScore:
            return self

        def decision_function(self, X: FloatArray) -> FloatArray:
            return np.asarray(X)[:, 0]

    return MarginAsScore()


def load_fairlearn(module: str) -> Any:
    """A module of fairlearn; says how to install it."""
    from importlib import import_module

    try:
        return import_module(f"fairlearn.{module}")
    except ImportError as error:
        raise InputError("fairlearn is not installed: pip install 'apod-fairness[bench]'.") from error
