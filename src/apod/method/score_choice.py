"""Which head to keep by the paper's score, on the validation part, whose groups are only proxies.

    score = accuracy + fairness,   fairness = 1 - |Delta-EO|  or  min(EOP, 1/EOP)  by the task's metric,
                                   or 1 - gap  of a notion that this metric does not speak of

over all rounds and strengths, groups by the proxies' largest entry: first the best round of every strength, then the
best strength. NaN never wins. The unpenalised head is kept at its best validation accuracy: it must not profit from
answers it does without. `apod.method.posterior_choice` weighs uncertainty instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.fairness.metrics import fairness_score, group_counts
from apod.fairness.notions import EQUALIZED_ODDS, Notion
from apod.heads.bank import HeadBank
from apod.method.pool import Pool

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RoundScores:
    """What the validation part says of every head after one round, (K,) each."""

    accuracy: FloatArray
    fairness: FloatArray  # by proxy groups; NaN where a rate is undefined
    score: FloatArray


def score_heads(
    pool: Pool,
    bank: HeadBank,
    strengths: Tensor,
    membership: Tensor | None,
    notion: Notion = EQUALIZED_ODDS,
) -> RoundScores:
    """Score all heads on the validation part.

    membership (K, V, G) by each head's f_a, of which the largest entry counts; None where there are no groups at all.
    """
    predicted = (bank.margins(pool.validation) > 0).numpy()
    labels = pool.validation_labels.numpy()
    accuracy = (predicted == labels).mean(axis=1)
    fairness = np.full(len(accuracy), np.nan)
    if membership is not None:
        counts = group_counts(labels, predicted, membership.argmax(dim=2).numpy(), pool.n_groups)
        fairness = np.asarray(fairness_score(pool.metric, counts, notion, skip_undefined=True, warn=False))
    return RoundScores(accuracy, fairness, np.where(strengths.numpy() == 0, accuracy, accuracy + fairness))


class BestHeads:
    """Every head at its best round so far; a head that never had a defined score is kept as it is now."""

    def __init__(self, bank: HeadBank) -> None:
        self.parameters = bank.parameters.clone()  # (K, P)
        self.score = np.full(len(bank), -np.inf)
        self.round = np.zeros(len(bank), dtype=np.int64)

    def update(self, bank: HeadBank, scores: RoundScores, round_: int) -> None:
        """Take the heads that got better in this round; a tie keeps the earlier one."""
        better = np.nan_to_num(scores.score, nan=-np.inf) > self.score
        unscored = np.isneginf(self.score)
        take = torch.from_numpy(better | unscored)
        self.parameters[take] = bank.parameters[take]
        self.round[take.numpy()] = round_
        self.score = np.where(better, scores.score, self.score)

    def bank(self, sizes: tuple[int, ...]) -> HeadBank:
        """The kept heads, ready to predict."""
        return HeadBank(self.parameters, sizes)

    def best(self, strengths: Tensor) -> int:
        """The head of the best penalised strength; without any defined score, the weakest penalty."""
        order = np.argsort(strengths.numpy(), kind="stable")
        penalised = order[strengths.numpy()[order] > 0]
        return int(penalised[np.argmax(self.score[penalised])])

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint needs."""
        return {
            "parameters": self.parameters,
            "score": torch.from_numpy(self.score),
            "round": torch.from_numpy(self.round),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.parameters.copy_(state["parameters"])
        self.score, self.round = state["score"].numpy().copy(), state["round"].numpy().copy()
