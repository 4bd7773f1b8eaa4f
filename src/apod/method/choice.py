"""Which head to keep, judged on the validation part, whose groups are only guessed.

By the paper's score, groups by the proxies' largest entry:

    score = accuracy + fairness,   fairness = 1 - |Delta-EO|  or  min(EOP, 1/EOP)  by the task's metric,
                                   or 1 - gap  of a notion that this metric does not speak of

over all rounds and strengths: first the best round of every strength, then the best strength. NaN never wins. The
unpenalised head is kept at its best validation accuracy: it must not profit from answers it does without.

By the posterior of f_a: among the heads of all rounds that lose next to no accuracy, the one with the smallest gap in
expectation over the posterior as it is now, if it is credibly below that of the unpenalised head, and if it is clear
whom that one favours (`Gate`). Otherwise the unpenalised head is kept, as it is after the last round: thin evidence
must not do harm.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.fairness.metrics import fairness_score, group_counts
from apod.fairness.notions import EQUALIZED_ODDS, Notion, member_rates
from apod.heads.bank import HeadBank
from apod.method.pool import Pool

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MOST_ROUNDS = 64
"""Of how many rounds heads are kept: more are thinned to every second, every fourth, ..."""

KEPT = "Base model kept"


@dataclass(frozen=True)
class Gate:
    """What is required of a penalised head before it replaces the unpenalised one."""

    sure: float = 0.6  # probability that its gap is smaller
    clear: float = 0.8  # probability that the unpenalised head favours the group it seems to
    accuracy: float = 0.0075  # what it may lose of it on the validation part
    balanced: float = 0.0125  # and of balanced accuracy


GATE = Gate()
"""What was found to work with few answers (docs/method.md)."""


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
    """Every head at its best round so far, by the paper's score; one without a defined score is kept as it is now."""

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

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What a checkpoint needs."""
        return {"parameters": self.parameters.numpy(), "score": self.score, "round": self.round}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a saved state."""
        self.parameters.copy_(torch.from_numpy(state["parameters"]))
        self.score, self.round = state["score"].copy(), state["round"].copy()


class RoundHeads(BestHeads):
    """Every head after every round, for a posterior to choose from; until it does, the heads of the last one count."""

    def __init__(self, bank: HeadBank, most_rounds: int = MOST_ROUNDS) -> None:
        super().__init__(bank)
        self._most_rounds = most_rounds
        self._step = 1  # every so many rounds are kept, and the last
        self._kept: dict[int, Tensor] = {}  # (K, P) by round
        self._decided: dict[int, BoolArray] = {}  # (K, V) about the rows judged last, by round
        self._judged: Tensor | None = None  # which rows these were

    def update(self, bank: HeadBank, scores: RoundScores, round_: int) -> None:
        """Take all heads as they are after this round."""
        self._thin()
        self._kept[round_] = bank.parameters.clone()
        self.parameters.copy_(bank.parameters)
        self.round[:] = round_
        self.score = scores.score

    def _thin(self) -> None:
        """Make room for one more: of too many rounds every second stays, and those that a head is chosen from."""
        while sum(round_ % self._step == 0 for round_ in self._kept) >= self._most_rounds:
            self._step *= 2
        chosen = set(self.round.tolist())
        stay = [round_ for round_ in self._kept if round_ % self._step == 0 or round_ in chosen]
        self._kept = {round_: self._kept[round_] for round_ in stay}
        self._decided = {round_: made for round_, made in self._decided.items() if round_ in self._kept}

    def decisions(self, validation: Tensor, sizes: tuple[int, ...]) -> BoolArray:
        """(R, K, V) what the heads of all rounds decide about the validation part; each round is computed once."""
        if validation is not self._judged:
            self._judged, self._decided = validation, {}
        for round_, heads in self._kept.items():
            if round_ not in self._decided:
                self._decided[round_] = (HeadBank(heads, sizes).margins(validation) > 0).numpy()
        return np.stack([self._decided[round_] for round_ in self._kept])

    def choose_rounds(self, places: IntArray) -> None:
        """Keep every head as it was at one of the rounds: (K,) places among them, in their order."""
        rounds = list(self._kept)
        for head, place in enumerate(places.tolist()):
            self.parameters[head] = self._kept[rounds[place]][head]
            self.round[head] = rounds[place]

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What a checkpoint needs, the heads of the rounds included."""
        rounds = np.array(list(self._kept), dtype=np.int64)
        heads = torch.stack(list(self._kept.values())) if self._kept else self.parameters[None][:0]
        return super().state() | {"rounds": rounds, "heads": heads.numpy(), "step": np.array(self._step)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a saved state."""
        super().restore(state)
        self._step, self._decided = int(state["step"]), {}
        kept = zip(state["rounds"].tolist(), state["heads"], strict=True)
        self._kept = {round_: torch.from_numpy(heads.copy()) for round_, heads in kept}


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
    pool: Pool,
    bank: HeadBank,
    strengths: Tensor,
    draws: Tensor,
    notion: Notion = EQUALIZED_ODDS,
    gate: Gate = GATE,
) -> HeadChoice:
    """The head with the smallest expected gap among those that the gate lets through, or else the unpenalised one.

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
    cheap = _costs_little(labels, predicted, plain, gate)
    head, reason = _decide(expected, better, clear, cheap, plain, strengths.numpy(), gate)
    return HeadChoice(head, expected, low, high, better, reason)


def choose_rounds(
    pool: Pool,
    heads: RoundHeads,
    sizes: tuple[int, ...],
    strengths: Tensor,
    draws: Tensor,
    notion: Notion = EQUALIZED_ODDS,
    gate: Gate = GATE,
) -> None:
    """Keep every penalised head as at the round with the smallest expected gap among those that may be chosen.

    Where a strength has none, and for the unpenalised head, the last round counts.
    """
    labels, plain = pool.validation_labels.numpy(), _plain(strengths)
    predicted = heads.decisions(pool.validation, sizes)  # (R, K, V)
    rounds, count = predicted.shape[:2]
    gaps = posterior_gaps(labels, predicted, draws, notion)  # (D, R, K)
    last = (rounds - 1) * count + plain
    cheap = _costs_little(labels, predicted.reshape(rounds * count, -1), last, gate).reshape(rounds, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a head without any defined gap stays NaN
        expected = np.nanmean(gaps, axis=0)
    better = (gaps < _plain_gaps(labels, predicted[-1, plain], draws, notion)[:, None]).mean(axis=0)
    allowed = cheap & (better >= gate.sure) & np.isfinite(expected)
    places = np.where(allowed, expected, np.inf).argmin(axis=0)
    places[~allowed.any(axis=0)] = rounds - 1
    places[plain] = rounds - 1
    heads.choose_rounds(places)


def posterior_gaps(
    labels: IntArray,
    predicted: BoolArray,
    draws: Tensor,
    notion: Notion = EQUALIZED_ODDS,
) -> FloatArray:
    """(D, R, K) gap of heads by every draw of the groups; NaN where a group has nobody in a cell that is compared.

    predicted (R, K, V), draws (D, K or 1, V, G).
    """
    return notion.gap(_rates(labels, predicted, draws, notion))


def clear_direction(
    labels: IntArray,
    predicted: BoolArray,
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


def _rates(labels: IntArray, predicted: BoolArray, draws: Tensor, notion: Notion) -> FloatArray:
    """(D, R, K, k, e, G) the rates that the notion compares, of every draw, round and head."""
    rounds, heads, _ = predicted.shape
    if draws.shape[1] > 1:
        each = [_rates(labels, predicted[:, [k]], draws[:, [k]], notion) for k in range(heads)]
        return np.concatenate(each, axis=2)
    member = draws[:, 0].double().numpy().clip(0, 1)  # (D, V, G)
    found = member_rates(notion, labels, predicted.reshape(rounds * heads, -1), member)
    return found.reshape(len(member), rounds, heads, *found.shape[2:])


def _plain_gaps(labels: IntArray, predicted: BoolArray, draws: Tensor, notion: Notion) -> FloatArray:
    """(D, K or 1) gap of the unpenalised head, whose decisions are (V,), by the draws that each head is judged by."""
    decisions = np.broadcast_to(predicted, (1, draws.shape[1], len(predicted)))
    return posterior_gaps(labels, decisions, draws, notion)[:, 0]


def _plain(strengths: Tensor) -> int:
    return int(np.flatnonzero(strengths.numpy() == 0)[0])


def _costs_little(labels: IntArray, predicted: BoolArray, plain: int, gate: Gate) -> BoolArray:
    """(K,) whether a head loses hardly any accuracy, and balanced accuracy: levelling down is no fairness."""
    right = predicted == labels
    accuracy = right.mean(axis=1)
    balanced = np.mean([right[:, labels == label].mean(axis=1) for label in (0, 1) if (labels == label).any()], axis=0)
    return np.asarray((accuracy >= accuracy[plain] - gate.accuracy) & (balanced >= balanced[plain] - gate.balanced))


def _decide(
    expected: FloatArray,
    better: FloatArray,
    clear: FloatArray,
    cheap: BoolArray,
    plain: int,
    strengths: FloatArray,
    gate: Gate,
) -> tuple[int, str]:
    """The chosen head, and why in one sentence."""
    penalised = (strengths > 0) & np.isfinite(expected)
    if not penalised.any():
        return plain, f"{KEPT}: no gap could be estimated yet."
    penalised &= clear >= gate.clear
    if not penalised.any():
        return plain, (
            f"{KEPT}: the answers do not say clearly enough which group is at a disadvantage (a probability of "
            f"{gate.clear:g} is required). More answers may."
        )
    sure = penalised & (better >= gate.sure)
    if not sure.any():
        return plain, (
            f"{KEPT}: there is too little evidence for a gap that a penalty would narrow (a probability of "
            f"{gate.sure:g} is required). More answers may bring it."
        )
    if not (sure & cheap).any():
        return plain, (
            f"{KEPT}: on the rows it was chosen on, every penalty that would narrow the gap loses more than "
            f"{100 * gate.accuracy:g} points of accuracy or {100 * gate.balanced:g} of balanced accuracy."
        )
    head = int(np.where(sure & cheap, expected, np.inf).argmin())
    return head, (
        f"Strength {strengths[head]:g} has the smallest gap by the proxy's posterior among the heads that lose at most "
        f"{100 * gate.accuracy:g} points of accuracy and {100 * gate.balanced:g} of balanced accuracy, on the rows it "
        "was chosen on."
    )
