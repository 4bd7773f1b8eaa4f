"""How far annotators can be trusted: agreement, and a one-coin model of their errors.

Dawid and Skene's model with one coin: annotator j names the true group with probability p_j and any other group with
equal chances. Expectation-maximisation from the vote shares, with a weak prior that an annotator is right more often
than not, gives each row's probability of every group and each annotator's accuracy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
PRIOR_RIGHT, PRIOR_WRONG = 4.0, 1.0
"""Answers an annotator is taken to have given rightly and wrongly before any is seen."""


@dataclass(frozen=True)
class Vote:
    """Annotator said that item is of a group."""

    item: int
    annotator: str
    group: int


@dataclass(frozen=True, eq=False)
class OneCoin:
    """A fitted model: P(group) per item, accuracy per annotator, share of each group."""

    posterior: Mapping[int, FloatArray]
    accuracy: Mapping[str, float]
    prevalence: FloatArray


def fit_one_coin(
    votes: Iterable[Vote], groups: int, known: Mapping[int, int] | None = None, rounds: int = 500
) -> OneCoin:
    """Fit the one-coin model; `known` are items whose group is certain (gold questions)."""
    votes = sorted(votes, key=lambda vote: (vote.item, vote.annotator, vote.group))
    items = list(dict.fromkeys(vote.item for vote in votes))
    people = sorted({vote.annotator for vote in votes})
    at = {item: index for index, item in enumerate(items)}
    who = {name: index for index, name in enumerate(people)}
    i = np.array([at[vote.item] for vote in votes], dtype=int)  # (v,)
    j = np.array([who[vote.annotator] for vote in votes], dtype=int)  # (v,)
    g = np.array([vote.group for vote in votes], dtype=int)  # (v,)
    fixed = {at[item]: group for item, group in (known or {}).items() if item in at}

    shares = np.zeros((len(items), groups))
    np.add.at(shares, (i, g), 1.0)
    posterior = _fix(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1), fixed)  # (n, g)
    accuracy, prevalence = np.zeros(len(people)), np.full(groups, 1 / groups)
    for _ in range(rounds):
        right = np.bincount(j, weights=posterior[i, g], minlength=len(people))
        total = np.bincount(j, minlength=len(people))
        accuracy = (PRIOR_RIGHT + right) / (PRIOR_RIGHT + PRIOR_WRONG + total)
        prevalence = (1 + posterior.sum(axis=0)) / (groups + len(items))
        log = np.tile(np.log(prevalence), (len(items), 1))  # (n, g)
        wrong = np.log((1 - accuracy) / max(groups - 1, 1))
        np.add.at(log, i, wrong[j][:, None])
        np.add.at(log, (i, g), (np.log(accuracy) - wrong)[j])
        log -= log.max(axis=1, keepdims=True)
        updated = _fix(np.exp(log) / np.exp(log).sum(axis=1, keepdims=True), fixed)
        moved = float(np.abs(updated - posterior).max(initial=0.0))
        posterior = updated
        if moved < 1e-12:
            break
    return OneCoin(
        {item: posterior[index] for item, index in at.items()},
        {name: float(accuracy[index]) for name, index in who.items()},
        prevalence,
    )


def _fix(posterior: FloatArray, fixed: Mapping[int, int]) -> FloatArray:
    for index, group in fixed.items():
        posterior[index] = 0.0
        posterior[index, group] = 1.0
    return posterior


def cohen_kappa(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Cohen's kappa of two people's answers to the same items; NaN where it is undefined."""
    if len(first) != len(second) or not first:
        return float("nan")
    values = sorted(set(first) | set(second), key=str)
    a = np.array([values.index(value) for value in first])
    b = np.array([values.index(value) for value in second])
    observed = float((a == b).mean())
    expected = sum(float((a == value).mean() * (b == value).mean()) for value in range(len(values)))
    return float("nan") if expected >= 1 else (observed - expected) / (1 - expected)


def fleiss_kappa(votes: Iterable[Vote], groups: int) -> float:
    """Fleiss' kappa over items with at least two answers, however many each has; NaN where it is undefined."""
    counts: dict[int, FloatArray] = defaultdict(lambda: np.zeros(groups))
    for vote in votes:
        counts[vote.item][vote.group] += 1
    table = np.array([row for row in counts.values() if row.sum() >= 2])  # (n, g)
    if not len(table):
        return float("nan")
    n = table.sum(axis=1)
    observed = float((((table**2).sum(axis=1) - n) / (n * (n - 1))).mean())
    expected = float(((table.sum(axis=0) / n.sum()) ** 2).sum())
    return float("nan") if expected >= 1 else (observed - expected) / (1 - expected)


def pairwise_kappa(votes: Iterable[Vote]) -> dict[tuple[str, str], float]:
    """Cohen's kappa of every two people who share an item."""
    given: dict[str, dict[int, int]] = defaultdict(dict)
    for vote in votes:
        given[vote.annotator][vote.item] = vote.group
    people = sorted(given)
    found = {}
    for index, first in enumerate(people):
        for second in people[index + 1 :]:
            shared = [item for item in given[first] if item in given[second]]
            if shared:
                pair = [given[first][item] for item in shared], [given[second][item] for item in shared]
                found[first, second] = cohen_kappa(*pair)
    return found
