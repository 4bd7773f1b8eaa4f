"""Whom to ask about: the person whose answer is expected to tell most about the gap.

For any draws of f_a and any quantity G they imply, asking person i lowers the variance of G on average by exactly

    sum over groups a of  Cov(G, p_ia)^2 / p_ia        (two groups: Cov(G, p_i)^2 / (p_i (1 - p_i)))

because E[G | answer] is linear in the answer. One matrix product scores the whole pool. Questions that are already
out count as answered in expectation: they leave

    Cov(f, g | answer of i)  =  Cov(f, g) - sum over a of Cov(f, p_ia) Cov(g, p_ia) / p_ia

on average, so that k questions are not k copies of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LEAST_PROBABILITY = 1e-3
"""Of a group, for a question to count as informative: below it, a few draws would decide what an answer tells."""


class Informativeness:
    """How much the variance of G falls by each possible question, given those already out.

    members (D, n, G) probabilities by draws; for two groups (D, n), those of either, suffice · targets (D, t) what is
    to be known · weights (D,) of the draws, summing to 1.
    """

    def __init__(self, members: npt.NDArray[np.floating], targets: Floats, weights: Floats) -> None:
        self._members = members if members.ndim == 3 else members[:, :, None]  # (D, n, a)
        self._weights = weights
        self.mean = self._product(weights[None])[0]  # (n, a)
        centred = (targets - weights @ targets) * weights[:, None]  # (D, t)
        self._covariance = np.moveaxis(self._product(centred.T), 0, 2)  # (n, a, t)
        self._past: list[tuple[Floats, Floats]] = []

    def _product(self, rows: Floats) -> Floats:
        """(r, n, a) these rows (r, D) times the members: one matrix product over the pool."""
        flat = self._members.reshape(len(self._members), -1)
        product = (rows.astype(flat.dtype) @ flat).astype(np.float64)
        return np.asarray(product.reshape(len(rows), *self._members.shape[1:]))

    @property
    def expected(self) -> int:
        """How many questions count as answered."""
        return len(self._past)

    def gains(self) -> Floats:
        """(n,) expected fall of the variance of G, summed over the targets."""
        squares = (self._covariance**2).sum(axis=2)  # (n, a)
        if squares.shape[1] == 1:
            p = self.mean[:, 0].clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
            return np.asarray(squares[:, 0] / (p * (1 - p)))
        return np.asarray((squares / self.mean.clip(LEAST_PROBABILITY)).sum(axis=1))

    def expect_answer(self, person: int) -> None:
        """Count this person's question as answered in expectation."""
        own = self._members[:, person].astype(np.float64)  # (D, a)
        mean = self.mean[person]
        centred = (own - mean) * self._weights[:, None]
        between = np.moveaxis(self._product(centred.T), 0, 2)  # (n, a, b)
        for scale, before in self._past:
            between -= np.einsum("nac,c,bc->nab", before, scale, before[person])
        p = mean.clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        scale = 1 / (p * (1 - p)) if len(p) == 1 else 1 / p
        self._covariance = self._covariance - np.einsum("nab,b,bt->nat", between, scale, self._covariance[person])
        self._past.append((scale, between))


def most_informative(
    informativeness: Informativeness, askable: BoolArray, count: int, out: Sequence[int] = ()
) -> list[int]:
    """The next `count` people to ask about, each given those before it and those already out."""
    for person in out:
        informativeness.expect_answer(person)
    left, chosen = askable.copy(), []
    for _ in range(min(count, int(askable.sum()))):
        gains = np.where(left, informativeness.gains(), -np.inf)
        person = int(gains.argmax())
        left[person] = False
        chosen.append(person)
        if len(chosen) < count:
            informativeness.expect_answer(person)
    return chosen


def random_of_stratum(strata: IntArray, turn: int, askable: BoolArray, rng: np.random.Generator) -> tuple[int, float]:
    """A person drawn at random from the stratum whose turn it is, and the probability of that draw.

    strata (n,) labels or cells, asked about in turn; one with nobody left is passed over.
    """
    present = np.unique(strata[askable])
    people = np.flatnonzero(askable & (strata == present[turn % len(present)]))
    return int(people[rng.integers(len(people))]), 1 / len(people)


def reweighted(weights: Floats, likelihood: Floats) -> Floats:
    """(D,) weights of the draws after one more answer that has this likelihood under each."""
    new = weights * likelihood
    return np.asarray(new / new.sum())


def effective_draws(weights: Floats) -> float:
    """How many equally weighted draws tell as much."""
    return float(1 / (weights**2).sum())
