"""What rivals make of few answers: groups guessed for everybody, how sure the guess is, weights that balance cells.

A *guess* here is f_a's: logistic regression on the answers in which every group counts the same, or the most probable
group would be the larger one for nearly everybody. Answered rows keep their answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from apod.data.dataset import UNKNOWN, IntArray
from apod.method.pool import Answers, Pool
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
