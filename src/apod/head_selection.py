"""Which head to keep, judged on the validation part, whose groups are only proxies. Two ways:

`score`, the paper's: the best accuracy + fairness over all rounds and strengths, groups by the proxies' largest entry.

    score = accuracy + fairness,   fairness = 1 - |Delta-EO|  or  min(EOP, 1/EOP)  by the task's metric

First the best round of every strength, then the best strength. NaN never wins. The unpenalised head is kept at its
best validation accuracy: it must not profit from answers it does without.

`posterior`: every head as it is after the last answer; among those that cost next to no accuracy, the one with the
smallest gap in expectation over the posterior of f_a, and only if it is credibly below that of the unpenalised head.
Otherwise the unpenalised head stays: thin evidence must not do harm.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.heads import HeadBank
from apod.metrics import METRICS, fairness_score, group_counts, soft_group_counts
from apod.pool import Pool

FloatArray = npt.NDArray[np.float64]

HEAD_CHOICES = ("score", "posterior")
"""How the head is chosen, by name."""

SURE = 0.6  # probability asked for before a penalised head replaces the unpenalised one
MOST_ACCURACY, MOST_BALANCED = 0.005, 0.01  # what a head may cost on the validation part


@dataclass(frozen=True, eq=False)
class RoundScores:
    """What the validation part says of every head after one round, (K,) each."""

    accuracy: FloatArray
    fairness: FloatArray  # by proxy groups; NaN where a rate is undefined
    score: FloatArray


def score_heads(pool: Pool, bank: HeadBank, strengths: Tensor, membership: Tensor | None) -> RoundScores:
    """Score all heads on the validation part.

    membership (K, V, G) by each head's f_a, of which the largest entry counts; None where there are no groups at all.
    """
    predicted = (bank.margins(pool.validation) > 0).numpy()
    labels = pool.validation_labels.numpy()
    accuracy = (predicted == labels).mean(axis=1)
    fairness = np.full(len(accuracy), np.nan)
    if membership is not None:
        counts = group_counts(labels, predicted, membership.argmax(dim=2).numpy(), pool.n_groups)
        fairness = np.asarray(fairness_score(pool.metric, counts, skip_undefined=True, warn=False))
    return RoundScores(accuracy, fairness, np.where(strengths.numpy() == 0, accuracy, accuracy + fairness))


class BestHeads:
    """Every head at its best round so far; a head that never had a defined score is kept as it is now.

    With `latest`, every head as it is after the last round: for `choose_head`, which weighs uncertainty instead.
    """

    def __init__(self, bank: HeadBank, latest: bool = False) -> None:
        self._latest = latest
        self.parameters = bank.parameters.clone()  # (K, P)
        self.score = np.full(len(bank), -np.inf)
        self.round = np.zeros(len(bank), dtype=np.int64)

    def update(self, bank: HeadBank, scores: RoundScores, round_: int) -> None:
        """Take the heads that got better in this round; a tie keeps the earlier one."""
        better = np.nan_to_num(scores.score, nan=-np.inf) > self.score
        unscored = np.isneginf(self.score)
        take = torch.from_numpy(better | unscored | self._latest)
        self.parameters[take] = bank.parameters[take]
        self.round[take.numpy()] = round_
        self.score = np.where(better | self._latest, scores.score, self.score)

    def bank(self, sizes: tuple[int, ...]) -> HeadBank:
        """The kept heads, ready to predict."""
        return HeadBank(self.parameters, sizes)

    def best(self, strengths: Tensor) -> int:
        """The head of the best penalised strength; without any defined score, the weakest penalty."""
        order = np.argsort(strengths.numpy(), kind="stable")
        penalised = order[strengths.numpy()[order] > 0]
        return int(penalised[np.argmax(self.score[penalised])])


@dataclass(frozen=True, eq=False)
class HeadChoice:
    """What the posterior says of every head, (K,) each, and the head it speaks for."""

    head: int
    gap: FloatArray  # expected |dTPR| + |dFPR|
    low: FloatArray  # 95 % credible interval of it
    high: FloatArray
    better: FloatArray  # probability that the gap is below that of the unpenalised head
    reason: str


def choose_head(pool: Pool, bank: HeadBank, strengths: Tensor, draws: Tensor) -> HeadChoice:
    """The head with the smallest expected gap that costs next to nothing, if it is credibly better than no penalty.

    draws (D, K or 1, V, G): membership of the validation rows by draws from the posterior of each head's f_a.
    """
    labels = pool.validation_labels.numpy()
    predicted = (bank.margins(pool.validation) > 0).numpy()
    counts = soft_group_counts(labels, predicted[None], draws.double().numpy().clip(0, 1))
    gaps = np.asarray(METRICS["gap"](counts))  # (D, K)
    plain = int(np.flatnonzero(strengths.numpy() == 0)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a head without any defined gap stays NaN
        expected = np.nanmean(gaps, axis=0)
        low, high = np.nanquantile(gaps, (0.025, 0.975), axis=0)
    better = (gaps < gaps[:, [plain]]).mean(axis=0)
    cheap = _costs_little(labels, predicted, plain)
    head, reason = _decide(expected, better, cheap, plain, strengths.numpy())
    return HeadChoice(head, expected, low, high, better, reason)


def _costs_little(labels: npt.NDArray[np.int64], predicted: npt.NDArray[np.bool_], plain: int) -> npt.NDArray[np.bool_]:
    """(K,) whether a head loses hardly any accuracy, and balanced accuracy: levelling down is no fairness."""
    right = predicted == labels
    accuracy = right.mean(axis=1)
    balanced = np.mean([right[:, labels == label].mean(axis=1) for label in (0, 1) if (labels == label).any()], axis=0)
    return np.asarray((accuracy >= accuracy[plain] - MOST_ACCURACY) & (balanced >= balanced[plain] - MOST_BALANCED))


def _decide(
    expected: FloatArray, better: FloatArray, cheap: npt.NDArray[np.bool_], plain: int, strengths: FloatArray
) -> tuple[int, str]:
    """The chosen head, and why in one sentence."""
    penalised = (strengths > 0) & np.isfinite(expected)
    sure = penalised & (better >= SURE)
    if not penalised.any():
        return plain, "The head stays as it was: no gap could be estimated yet."
    if not sure.any():
        most = int(np.flatnonzero(penalised)[better[penalised].argmax()])
        return plain, (
            "The head stays as it was: the evidence for a gap that a penalty would narrow is thin (probability "
            f"{better[most]:.2f} at best, {SURE:.2f} is asked for). More answers may settle it."
        )
    if not (sure & cheap).any():
        return plain, (
            "The head stays as it was: every penalty that would narrow the gap costs more than "
            f"{100 * MOST_ACCURACY:g} points of accuracy or {100 * MOST_BALANCED:g} of balanced accuracy."
        )
    head = int(np.where(sure & cheap, expected, np.inf).argmin())
    return head, (
        f"Strength {strengths[head]:g} has the smallest expected gap among the heads that cost next to no accuracy "
        f"({expected[head]:.3f}, without a penalty {expected[plain]:.3f}); it is below that of the unpenalised head "
        f"with probability {better[head]:.2f}."
    )
