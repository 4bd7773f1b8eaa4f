"""Which head to keep, by the posterior of f_a on the validation part, and only where the evidence is good.

Among the heads of all rounds that lose at most `MOST_ACCURACY` and `MOST_BALANCED`, the one with the smallest gap in
expectation over the posterior as it is now, if it is credibly below that of the unpenalised head, and if it is clear
whom that one favours. First a round for every strength, then the strength. Otherwise the unpenalised head stays, as
it is after the last round: thin evidence must not do harm.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.fairness.notions import EQUALIZED_ODDS, Notion, member_rates
from apod.heads.bank import HeadBank
from apod.method.pool import Pool
from apod.method.score_choice import BestHeads, FloatArray, RoundScores

SURE = 0.6  # probability of a smaller gap asked for before a penalised head replaces the unpenalised one
CLEAR = 0.8  # probability asked for that the unpenalised head favours the group it seems to
MOST_ACCURACY, MOST_BALANCED = 0.0075, 0.0125  # what a head may cost on the validation part
KEPT = "Base model kept"
MOST_ROUNDS = 64  # of which heads are kept: more are thinned to every second, every fourth, ...


class RoundHeads(BestHeads):
    """Every head after every round, for a posterior to choose from; until it does, the heads of the last one count."""

    def __init__(self, bank: HeadBank) -> None:
        super().__init__(bank)
        self._step = 1  # every so many rounds are kept, and the last
        self._kept: dict[int, Tensor] = {}  # (K, P) by round
        self._predicted: dict[int, npt.NDArray[np.bool_]] = {}  # (K, V) of the rows judged last, by round
        self._judged: Tensor | None = None  # which rows these were

    def update(self, bank: HeadBank, scores: RoundScores, round_: int) -> None:
        """Take all heads as they are after this round."""
        self._thin()
        self._kept[round_] = bank.parameters.clone()
        self.parameters.copy_(bank.parameters)
        self.round[:] = round_
        self.score = scores.score

    def _thin(self) -> None:
        """Make room for one more: of too many rounds every second stays, and those a head is settled at."""
        while sum(round_ % self._step == 0 for round_ in self._kept) >= MOST_ROUNDS:
            self._step *= 2
        settled = set(self.round.tolist())
        stay = [round_ for round_ in self._kept if round_ % self._step == 0 or round_ in settled]
        self._kept = {round_: self._kept[round_] for round_ in stay}
        self._predicted = {round_: told for round_, told in self._predicted.items() if round_ in self._kept}

    def decisions(self, validation: Tensor, sizes: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """(R, K, V) what the heads of all rounds decide about the validation part; each round is asked once."""
        if validation is not self._judged:
            self._judged, self._predicted = validation, {}
        for round_, heads in self._kept.items():
            if round_ not in self._predicted:
                self._predicted[round_] = (HeadBank(heads, sizes).margins(validation) > 0).numpy()
        return np.stack([self._predicted[round_] for round_ in self._kept])

    def settle(self, places: npt.NDArray[np.int64]) -> None:
        """Keep every head as it was at one of the rounds: (K,) places among them, in their order."""
        rounds = list(self._kept)
        for head, place in enumerate(places.tolist()):
            self.parameters[head] = self._kept[rounds[place]][head]
            self.round[head] = rounds[place]

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint needs, the heads of the rounds included."""
        rounds = torch.tensor(list(self._kept), dtype=torch.int64)
        heads = torch.stack(list(self._kept.values())) if self._kept else self.parameters[None][:0]
        return super().state() | {"rounds": rounds, "heads": heads, "step": torch.tensor(self._step)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        super().restore(state)
        self._step, self._predicted = int(state["step"]), {}
        self._kept = {int(round_): heads.clone() for round_, heads in zip(state["rounds"], state["heads"], strict=True)}


@dataclass(frozen=True, eq=False)
class HeadChoice:
    """What the posterior says of every head, (K,) each, and the head it speaks for."""

    head: int
    gap: FloatArray  # expected, by the notion that is equalised
    low: FloatArray  # 95 % credible interval of it
    high: FloatArray
    better: FloatArray  # probability that the gap is below that of the unpenalised head
    reason: str


def choose_head(
    pool: Pool, bank: HeadBank, strengths: Tensor, draws: Tensor, notion: Notion = EQUALIZED_ODDS
) -> HeadChoice:
    """The head with the smallest expected gap that costs next to nothing, if it is credibly better than no penalty.

    draws (D, K or 1, V, G): membership of the validation rows by draws from the posterior of each head's f_a.
    """
    labels = pool.validation_labels.numpy()
    predicted = (bank.margins(pool.validation) > 0).numpy()
    gaps = posterior_gaps(labels, predicted[None], draws, notion)[:, 0]  # (D, K)
    plain = _plain(strengths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a head without any defined gap stays NaN
        expected = np.nanmean(gaps, axis=0)
        low, high = np.nanquantile(gaps, (0.025, 0.975), axis=0)
    better = (gaps < _plain_gaps(labels, predicted[plain], draws, notion)).mean(axis=0)
    clear = np.broadcast_to(clear_direction(labels, predicted[plain], draws, notion), len(better))
    cheap = _costs_little(labels, predicted, plain)
    head, reason = _decide(expected, better, clear, cheap, plain, strengths.numpy())
    return HeadChoice(head, expected, low, high, better, reason)


def best_rounds(
    pool: Pool,
    heads: RoundHeads,
    sizes: tuple[int, ...],
    strengths: Tensor,
    draws: Tensor,
    notion: Notion = EQUALIZED_ODDS,
) -> None:
    """Settle every penalised head at the round with the smallest expected gap among those that may be chosen.

    Where a strength has none, and for the unpenalised head, the last round counts.
    """
    labels, plain = pool.validation_labels.numpy(), _plain(strengths)
    predicted = heads.decisions(pool.validation, sizes)  # (R, K, V)
    rounds, count = predicted.shape[:2]
    gaps = posterior_gaps(labels, predicted, draws, notion)  # (D, R, K)
    last = (rounds - 1) * count + plain
    cheap = _costs_little(labels, predicted.reshape(rounds * count, -1), last).reshape(rounds, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a head without any defined gap stays NaN
        expected = np.nanmean(gaps, axis=0)
    better = (gaps < _plain_gaps(labels, predicted[-1, plain], draws, notion)[:, None]).mean(axis=0)
    allowed = cheap & (better >= SURE) & np.isfinite(expected)
    places = np.where(allowed, expected, np.inf).argmin(axis=0)
    places[~allowed.any(axis=0)] = rounds - 1
    places[plain] = rounds - 1
    heads.settle(places)


def posterior_gaps(
    labels: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.bool_],
    draws: Tensor,
    notion: Notion = EQUALIZED_ODDS,
) -> FloatArray:
    """(D, R, K) gap of heads by every draw of the groups; NaN where a group has nobody in a cell that is compared.

    predicted (R, K, V), draws (D, K or 1, V, G).
    """
    return notion.gap(_rates(labels, predicted, draws, notion))


def clear_direction(
    labels: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.bool_],
    draws: Tensor,
    notion: Notion = EQUALIZED_ODDS,
) -> FloatArray:
    """(K or 1,) how probable it is that a head, deciding (V,), favours the group it seems to, where that is surest.

    The two groups whose rates differ most on average, in any of the cells: in how many of the draws do they differ so?
    """
    decisions = np.broadcast_to(predicted, (1, draws.shape[1], len(predicted)))
    rates = _rates(labels, decisions, draws, notion)[:, 0]  # (D, K or 1, k, e, G)
    rates = rates.reshape(*rates.shape[:2], -1, rates.shape[-1])  # (D, K or 1, k x e, G)
    mean = rates.mean(axis=0)
    high, low = (
        np.take_along_axis(rates, place(mean, axis=2)[None, ..., None], axis=3)[..., 0]
        for place in (np.argmax, np.argmin)
    )
    return np.asarray((high > low).mean(axis=0).max(axis=1))


def _rates(
    labels: npt.NDArray[np.int64], predicted: npt.NDArray[np.bool_], draws: Tensor, notion: Notion
) -> FloatArray:
    """(D, R, K, k, e, G) the rates that the notion compares, of every draw, round and head."""
    rounds, heads, _ = predicted.shape
    if draws.shape[1] > 1:
        each = [_rates(labels, predicted[:, [k]], draws[:, [k]], notion) for k in range(heads)]
        return np.concatenate(each, axis=2)
    member = draws[:, 0].double().numpy().clip(0, 1)  # (D, V, G)
    found = member_rates(notion, labels, predicted.reshape(rounds * heads, -1), member)
    return found.reshape(len(member), rounds, heads, *found.shape[2:])


def _plain_gaps(
    labels: npt.NDArray[np.int64], predicted: npt.NDArray[np.bool_], draws: Tensor, notion: Notion
) -> FloatArray:
    """(D, K or 1) gap of the unpenalised head, whose decisions are (V,), by the draws that each head is judged by."""
    decisions = np.broadcast_to(predicted, (1, draws.shape[1], len(predicted)))
    return posterior_gaps(labels, decisions, draws, notion)[:, 0]


def _plain(strengths: Tensor) -> int:
    return int(np.flatnonzero(strengths.numpy() == 0)[0])


def _costs_little(labels: npt.NDArray[np.int64], predicted: npt.NDArray[np.bool_], plain: int) -> npt.NDArray[np.bool_]:
    """(K,) whether a head loses hardly any accuracy, and balanced accuracy: levelling down is no fairness."""
    right = predicted == labels
    accuracy = right.mean(axis=1)
    balanced = np.mean([right[:, labels == label].mean(axis=1) for label in (0, 1) if (labels == label).any()], axis=0)
    return np.asarray((accuracy >= accuracy[plain] - MOST_ACCURACY) & (balanced >= balanced[plain] - MOST_BALANCED))


def _decide(
    expected: FloatArray,
    better: FloatArray,
    clear: FloatArray,
    cheap: npt.NDArray[np.bool_],
    plain: int,
    strengths: FloatArray,
) -> tuple[int, str]:
    """The chosen head, and why in one sentence."""
    penalised = (strengths > 0) & np.isfinite(expected)
    if not penalised.any():
        return plain, f"{KEPT}: no gap could be estimated yet."
    penalised &= clear >= CLEAR
    if not penalised.any():
        return plain, (
            f"{KEPT}: the answers do not say clearly enough which group is at a disadvantage (a probability of "
            f"{CLEAR:g} is required). More answers may."
        )
    sure = penalised & (better >= SURE)
    if not sure.any():
        return plain, (
            f"{KEPT}: there is too little evidence for a gap that a penalty would narrow (a probability of {SURE:g} is "
            "required). More answers may bring it."
        )
    if not (sure & cheap).any():
        return plain, (
            f"{KEPT}: on the rows it was chosen on, every penalty that would narrow the gap loses more than "
            f"{100 * MOST_ACCURACY:g} points of accuracy or {100 * MOST_BALANCED:g} of balanced accuracy."
        )
    head = int(np.where(sure & cheap, expected, np.inf).argmin())
    return head, (
        f"Strength {strengths[head]:g} has the smallest gap by the proxy's posterior among the heads that lose at most "
        f"{100 * MOST_ACCURACY:g} points of accuracy and {100 * MOST_BALANCED:g} of balanced accuracy, on the rows it "
        "was chosen on."
    )
