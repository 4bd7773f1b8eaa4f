"""Rivals for the same setting, each on the same engine, and what they make of few answers.

A *guess* here is f_a's: logistic regression on the answers in which every group counts the same, or the most probable
group would be the larger one for nearly everybody. Answered rows keep their answer.

cgl      L = mean cross-entropy + strength x penalty over guessed groups a^:
         a^ = argmax f_a where max f_a >= t, else drawn from P(a | y)
fairdsr  the same penalty over those rows alone whose f_a is least uncertain
ssa      min over heads, max over q, of  sum over cells (a^, y) of  q x mean loss of the cell;  a^ spread by f_a
dfr      last layer = argmin of  C x cross-entropy on S, every cell (a, y) of S counting the same,  + ||w||^2 / 2
jtt      L = mean of w_i l_i / mean of w_i,  w_i = up where the pre-trained head errs, else 1;  no answers at all
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.bench.arm import GroupDro, RunName, Unit
from apod.data.dataset import UNKNOWN, IntArray
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import Answers
from apod.method.pod import DrawnPenaltyRows, train_heads
from apod.method.pool import Pool
from apod.method.proxy import LogisticProxy
from apod.randomness import generator

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FOLDS, MEMBERS, PASSES = 5, 20, 3


def guesses(pool: Pool, each: Sequence[Answers], rows: Tensor) -> FloatArray:
    """(T, n, G) membership of these rows by an f_a of each of T sets of answers."""
    proxy = LogisticProxy(len(each), pool.embeddings.shape[1], pool.n_groups, pool.seed, pool.dataset)
    proxy.fit(pool.embeddings, [_balanced(answers) for answers in each])
    return proxy.probabilities(rows.double()).numpy()


def _balanced(answers: Answers) -> Answers:
    rows, groups = answers.known()
    return Answers(tuple(rows.tolist()), tuple(groups.tolist()), tuple(balanced_weights(groups).tolist()))


def held_out(pool: Pool, answers: Answers) -> tuple[FloatArray, IntArray]:
    """Membership (S, G) of the answered rows by an f_a that has not seen their answer, and the answers (S,)."""
    rows, groups = answers.known()
    order = generator(pool.seed, "folds", pool.dataset).permutation(len(rows))
    fold = np.empty(len(rows), dtype=np.int64)
    fold[order] = np.arange(len(rows)) % FOLDS
    others = [Answers(tuple(rows[fold != f].tolist()), tuple(groups[fold != f].tolist())) for f in range(FOLDS)]
    return guesses(pool, others, pool.embeddings[rows])[fold, np.arange(len(rows))], groups


def confidence_threshold(confidence: FloatArray, right: BoolArray) -> float:
    """The threshold that best tells right guesses (at or above it) from wrong ones; of equally good the highest."""
    candidates = np.append(np.unique(confidence), np.inf)
    told = (confidence[None, :] >= candidates[:, None]) == right  # (C, S)
    score = told.sum(axis=1)
    return float(candidates[len(score) - 1 - int(score[::-1].argmax())])


def group_shares(labels: IntArray, groups: IntArray, n_groups: int) -> FloatArray:
    """(2, G) share of each group among the answers of each label; all alike where a label has no answer."""
    counts = np.zeros((2, n_groups))
    np.add.at(counts, (labels, groups), 1)
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1), 1 / n_groups)


def assign_groups(
    membership: FloatArray, threshold: float, shares: FloatArray, labels: IntArray, rng: np.random.Generator
) -> IntArray:
    """CGL: the most probable group where its probability reaches the threshold, else a draw by P(group | label).

    membership (N, G) · shares (2, G) · labels (N,)
    """
    drawn = (rng.random((len(labels), 1)) > shares.cumsum(axis=1)[labels]).sum(axis=1)
    sure = membership.max(axis=1) >= threshold
    guess = np.where(sure, membership.argmax(axis=1), drawn.clip(max=membership.shape[1] - 1))
    return np.asarray(guess, dtype=np.int64)


def with_answers(groups: IntArray, answers: Answers) -> IntArray:
    """Groups of all rows, the answered ones replaced by their answer."""
    told = groups.copy()
    rows, known = answers.known()
    told[rows] = known
    return told


def ensemble(pool: Pool, answers: Answers) -> FloatArray:
    """(N, G) mean membership of f_a's fitted to resampled answers: less sure where they disagree."""
    rows, groups = answers.known()
    rng = generator(pool.seed, "ensemble", pool.dataset)
    draws = [rng.integers(len(rows), size=len(rows)) for _ in range(MEMBERS)] if len(rows) else [rows] * MEMBERS
    resampled = [Answers(tuple(rows[draw].tolist()), tuple(groups[draw].tolist())) for draw in draws]
    return np.asarray(guesses(pool, resampled, pool.embeddings).mean(axis=0))


def uncertainty(membership: FloatArray) -> FloatArray:
    """(N,) entropy of the membership by its largest value, from 0 to 1."""
    p = np.clip(membership, 1e-12, 1)
    return np.asarray(-(p * np.log(p)).sum(axis=1) / np.log(membership.shape[1]))


def least_uncertain(membership: FloatArray, labels: IntArray, share: float) -> BoolArray:
    """(N,) the least uncertain rows of each guessed group and label, this share of them; ties go to the lowest row.

    By label, because the surest members of a group are those with its most frequent label: rates of the other one
    would hang on a handful of rows.
    """
    kept = np.zeros(len(membership), dtype=bool)
    cells, doubt = subgroup(membership.argmax(axis=1).astype(np.int64), labels), uncertainty(membership)
    for cell in np.unique(cells):
        rows = np.flatnonzero(cells == cell)
        kept[rows[np.argsort(doubt[rows], kind="stable")[: int(np.ceil(share * len(rows)))]]] = True
    return kept


def spread(pool: Pool, answers: Answers) -> IntArray:
    """SSA: groups of all rows by an f_a that also learns from its own surest guesses.

    In every pass each guessed group gives the same number of its surest rows, twice as many as in the pass before: the
    smallest group sets the pace, or the larger one would teach f_a to see nothing else.
    """
    rows, groups = answers.known()
    membership = guesses(pool, [answers], pool.embeddings)[0]
    for step in range(1, PASSES + 1):
        guess = with_answers(membership.argmax(axis=1).astype(np.int64), answers)
        unasked = np.ones(len(guess), dtype=bool)
        unasked[list(answers.rows)] = False
        places = [np.flatnonzero(unasked & (guess == group)) for group in range(pool.n_groups)]
        each = min(len(rows) * 2**step, *(len(place) for place in places if len(place)), len(guess))
        surest = [p[np.argsort(-membership[p].max(axis=1), kind="stable")[:each]] for p in places]
        taught = np.concatenate([rows, *surest])
        codes = np.concatenate([groups, *(np.full(len(p), group) for group, p in enumerate(surest))])
        more = Answers(tuple(taught.tolist()), tuple(codes.tolist()))
        membership = guesses(pool, [more], pool.embeddings)[0]
    return with_answers(membership.argmax(axis=1).astype(np.int64), answers)


def balanced_weights(cells: IntArray) -> FloatArray:
    """(S,) weights under which every cell that occurs counts the same, one per row on average."""
    _, place, sizes = np.unique(cells, return_inverse=True, return_counts=True)
    return np.asarray(len(cells) / (len(sizes) * sizes[place]), dtype=np.float64)


def subgroup(groups: IntArray, labels: IntArray) -> IntArray:
    """(N,) code of the (group, label) cell of every row, UNKNOWN where the group is."""
    return np.where(groups == UNKNOWN, UNKNOWN, 2 * groups + labels).astype(np.int64)


CERTAIN_SHARE = 1 / 3
"""FairDSR: how much of each guessed group and label takes part in the penalty."""


class AnsweredArm:
    """What arms with the budget's random answers have in common; the answers are the same for all of them."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._round = runs, unit, 0
        self.heads = unit.bank(len(runs))
        self._answers = unit.random_answers()
        membership = guesses(unit.pool, [self._answers], unit.pool.validation)[0]
        self._membership = torch.from_numpy(membership).to(unit.pool.validation.dtype)
        self._values = torch.tensor([run.value for run in runs], dtype=torch.float32)

    def validation_membership(self) -> Tensor:
        """By the f_a of the answers."""
        return self._membership.expand(len(self.runs), -1, -1)

    def answers(self) -> list[Answers]:
        """The whole budget, from the first round on."""
        return [self._answers] * len(self.runs)

    def _labels(self) -> IntArray:
        return np.asarray(self._unit.pool.labels.numpy(), dtype=np.int64)


class PseudoGroupArm(AnsweredArm, ABC):
    """POD's penalty over guessed groups, taken for the true ones, of all rows or of some."""

    def advance(self) -> None:
        """One round of POD."""
        unit = self._unit
        groups, rows = self._guessed()
        member = torch.nn.functional.one_hot(torch.from_numpy(groups), unit.pool.n_groups)
        membership = member.to(unit.pool.embeddings.dtype)[None]
        behind = DrawnPenaltyRows(unit.pool, unit.training.penalty.notion, membership, torch.from_numpy(rows))
        train_heads(self.heads, unit.pool, unit.training, self._round, self._values, behind)
        self._round += 1

    @abstractmethod
    def _guessed(self) -> tuple[IntArray, IntArray]:
        """Groups (N,) of all rows in this round, and the rows the penalty may draw from."""


class CglArm(PseudoGroupArm):
    """CGL (Jung et al.): guesses where f_a is sure, by a threshold from held-out answers; random groups elsewhere."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        membership, groups = held_out(unit.pool, self._answers)
        right = membership.argmax(axis=1) == groups
        self.threshold = confidence_threshold(membership.max(axis=1), right) if len(groups) else np.inf
        rows, known = self._answers.known()
        self._shares = group_shares(self._labels()[rows], known, unit.pool.n_groups)
        self._pool_membership = guesses(unit.pool, [self._answers], unit.pool.embeddings)[0]

    def _guessed(self) -> tuple[IntArray, IntArray]:
        pool = self._unit.pool
        rng = generator(pool.seed, "cgl", pool.dataset, self._round)  # random groups are drawn anew in every round
        groups = assign_groups(self._pool_membership, self.threshold, self._shares, self._labels(), rng)
        return with_answers(groups, self._answers), np.arange(len(groups))


class FairDsrArm(PseudoGroupArm):
    """FairDSR (Kenfack et al.): only rows whose guess is least uncertain take part in the penalty, and the answered."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        membership = ensemble(unit.pool, self._answers)
        certain = least_uncertain(membership, self._labels(), CERTAIN_SHARE)
        certain[self._answers.known()[0]] = True
        self._groups = with_answers(membership.argmax(axis=1).astype(np.int64), self._answers)
        self._rows = np.flatnonzero(certain)

    def _guessed(self) -> tuple[IntArray, IntArray]:
        return self._groups, self._rows


class SsaArm(AnsweredArm):
    """SSA style (Nam et al.): spread groups, then Group DRO over the cells (group, label)."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        self.groups = spread(unit.pool, self._answers)
        self._objective = GroupDro(self._values, 2 * unit.pool.n_groups)

    def advance(self) -> None:
        """One round of min-max training."""
        labels, cells = self._unit.pool.labels, torch.from_numpy(subgroup(self.groups, self._labels()))
        objective = self._objective
        self._unit.train(
            self.heads, self._round, lambda margin, rows: objective.slope(margin, labels[rows], cells[rows])
        )
        self._round += 1


class JttArm:
    """Just train twice (Liu et al.): rows the pre-trained head gets wrong count `up` times. No answers at all."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        self.runs, self._unit, self._round = runs, unit, 0
        self.heads = unit.bank(len(runs))
        predicted = unit.bank(1).margins(unit.pool.embeddings)[0] > 0
        self.wrong = predicted != unit.pool.labels.bool()  # (N,)
        up = torch.tensor([run.value for run in runs])[:, None]
        weights = torch.where(self.wrong, up, torch.ones_like(up))  # (K, N)
        self._weights = weights / weights.mean(
            dim=1, keepdim=True
        )  # as if every wrong row stood `up` times in the data

    def advance(self) -> None:
        """One round of weighed cross-entropy."""
        labels = self._unit.pool.labels.to(self._unit.pool.embeddings.dtype)

        def slope(margin: Tensor, rows: Tensor) -> Tensor:
            return self._weights[:, rows] / len(rows) * (margin.sigmoid() - labels[rows])

        self._unit.train(self.heads, self._round, slope)
        self._round += 1

    def validation_membership(self) -> None:
        """No groups: heads are kept by validation accuracy."""

    def answers(self) -> list[Answers]:
        """Nobody was asked."""
        return [Answers()] * len(self.runs)


class DfrArm(AnsweredArm):
    """DFR (Kirichenko et al.): a vanilla head whose last layer is fitted anew to the answered rows, cells balanced."""

    def __init__(self, unit: Unit, runs: Sequence[RunName]) -> None:
        super().__init__(unit, runs)
        self._vanilla = unit.bank(1)

    def advance(self) -> None:
        """One round of the vanilla head, then its last layer once per value."""
        unit = self._unit
        train_heads(self._vanilla, unit.pool, unit.training, self._round, torch.zeros(1))
        self.heads.parameters.copy_(self._vanilla.parameters.expand(len(self.runs), -1))
        rows, groups = self._answers.known()
        labels = self._labels()[rows]
        if len(np.unique(labels)) == 2:  # else there is nothing to fit
            hidden = top_activations(self._vanilla, unit.pool.embeddings[rows])
            weights = balanced_weights(subgroup(groups, labels))
            for k, run in enumerate(self.runs):
                slope, bias = last_layer(hidden, labels, weights, run.value)
                layer, half = self.heads.layers[-1], torch.from_numpy(slope / 2).float()
                layer.weight[k] = torch.stack([-half, half], dim=1)
                layer.bias[k, 0] = torch.tensor([-bias / 2, bias / 2])
        self._round += 1


def top_activations(bank: HeadBank, rows: Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(n, H) what goes into the last layer of the first head."""
    values = rows
    for layer in bank.layers[:-1]:
        values = (values @ layer.weight[0] + layer.bias[0]).relu()
    return values.double().numpy()


def last_layer(
    hidden: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    labels: IntArray,
    weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    regularisation: float,
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], float]:
    """Weights (H,) and bias of the margin, by logistic regression on standardised activations."""
    from sklearn.linear_model import LogisticRegression

    centre, spread_ = hidden.mean(axis=0), hidden.std(axis=0)
    scale = np.where(spread_ > 1e-9, spread_, 1.0)
    model = LogisticRegression(C=regularisation, max_iter=5000)
    model.fit((hidden - centre) / scale, labels, weights)
    slope = model.coef_[0] / scale
    return slope, float(model.intercept_[0] - centre @ slope)
