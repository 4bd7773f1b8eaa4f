"""A correction of a model's margin by bias scores: the head that needs a few numbers instead of thousands of weights.

Among all rules that read x alone, the most accurate one under a rate-parity notion is (Chen, Klochkov, Liu 2024; Xian,
Zhao 2024)

    predict 1   where   2 (eta(x) - cut)  >  sum over cells c, groups g of  t_cg b_cg(x),     sum over g of t_cg = 0
    b_cg(x) = P(c | x) p_g(x) / q_cg,      q_cg = mean of P(c | x) p_g(x) / mean of P(c | x)

eta(x) = P(y = 1 | x), p_g(x) = P(group g | x) by f_a, c the cells that the notion compares (equalized odds: labels).
A *direction* is t up to its length, *strength* is the length: at 0 the model decides as it always did. Along a
direction everybody's decision changes once at most, so one number per person, the strength of the change, holds the
whole path.

Of K > 2 labels it is (Xian, Zhao 2024),

    predict the k of the largest   P(k | x) - sum over cells c, groups g of  t_ckg b_cg(x)

Each label's value is linear in the strength, so the largest is their upper envelope: who has left the model's decision
never returns to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.errors import InputError
from apod.fairness.notions import Notion

Floats = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

ANGLES = 32
NEVER = np.inf


@dataclass(frozen=True, eq=False)
class BiasScores:
    """How to make a person's bias scores: constants of the population that the correction was fitted on."""

    cells: BoolArray  # (K, k) which labels a cell holds
    shares: Floats  # (k, G) q: a group's share of a cell

    def of(self, eta: Floats, members: Floats) -> Floats:
        """(n, k, G) scores of people with P(y = 1) eta (n,), of more labels (n, K), and group probabilities (n, G)."""
        inside = _label_probabilities(eta) @ self.cells  # (n, k)
        return np.asarray(inside[:, :, None] * members[:, None, :] / self.shares)


def fit_bias_scores(
    notion: Notion, eta: Floats, members: Floats, least_share: float = 1e-3, weights: Floats | None = None
) -> BiasScores:
    """The constants from the pool's P(y = 1), (n,), of more labels (n, K), group probabilities (n, G), and weights (n,)
    of the people.

    A group with hardly any member in a cell counts as `least_share` of it: its scores stay finite.
    """
    cells = np.asarray(notion.cells(np.arange(notion.classes)))  # (K, k)
    inside = _label_probabilities(eta) @ cells  # (n, k)
    inside = inside if weights is None else inside * weights[:, None]
    shares = inside.T @ members / inside.sum(axis=0)[:, None]
    return BiasScores(cells, shares.clip(least_share))


def _label_probabilities(eta: Floats) -> Floats:
    """(n, K) of P(y = 1) of two labels, or of every label."""
    return np.stack([1 - eta, eta], axis=1) if eta.ndim == 1 else eta


@dataclass(frozen=True, eq=False)
class Correction:
    """A direction of correction; every strength along it is an operating point, 0 is the model."""

    scores: BiasScores
    direction: Floats  # (k, G) t per unit of strength; groups sum to zero within each cell
    cut: float  # the probability at which the model's own decision changes

    def push(self, eta: Floats, members: Floats) -> Floats:
        """(n,) how far one unit of strength lowers a person's margin."""
        return np.asarray(np.einsum("nkg,kg->n", self.scores.of(eta, members), self.direction))

    def margins(self, eta: Floats, members: Floats, strengths: npt.ArrayLike) -> Floats:
        """(K, n) corrected margins in units of probability, positive where the decision is 1."""
        own = np.atleast_1d(np.asarray(strengths, np.float64))[:, None]
        return np.asarray(2 * (eta - self.cut) - own * self.push(eta, members))

    def changes_at(self, eta: Floats, members: Floats) -> Floats:
        """(n,) the strength from which on a decision differs from the model's; infinite where it never does."""
        return change_strengths(2 * (eta - self.cut), self.push(eta, members))

    def decisions(self, decided: IntArray, eta: Floats, members: Floats, strengths: npt.ArrayLike) -> BoolArray:
        """(K, n) corrected decisions of people the model decided so (n,); at strength 0 they are the model's own."""
        own = np.atleast_1d(np.asarray(strengths, np.float64))[:, None]
        return np.asarray((decided == 1) ^ ((own > 0) & (self.changes_at(eta, members) <= own)))

    def changed(self, decided: IntArray, eta: Floats, members: Floats, strength: float) -> BoolArray:
        """(n,) whose decision differs from the model's."""
        return np.asarray(self.changes_at(eta, members) <= strength)


@dataclass(frozen=True, eq=False)
class ClassCorrection:
    """A direction of correction of more than two labels."""

    scores: BiasScores
    direction: Floats  # (k x e, G) t per unit of strength of every pair of a cell and an event; groups sum to zero
    counted: IntArray  # (k, e) the decision that each of these counts

    def push(self, eta: Floats, members: Floats) -> Floats:
        """(n, K) how far one unit of strength lowers every label's value."""
        scores = self.scores.of(eta, members)
        return np.asarray(class_push(scores, self.direction[None], self.counted, eta.shape[1])[0])

    def decisions(self, decided: IntArray, eta: Floats, members: Floats, strengths: npt.ArrayLike) -> IntArray:
        """(K, n) corrected decisions of people the model decided so (n,); at strength 0 they are the model's own."""
        own = np.atleast_1d(np.asarray(strengths, np.float64))
        return path_decisions(decided, eta, self.push(eta, members), own)

    def changed(self, decided: IntArray, eta: Floats, members: Floats, strength: float) -> BoolArray:
        """(n,) whose decision differs from the model's."""
        return np.asarray(self.decisions(decided, eta, members, strength)[0] != decided)

    def probabilities(self, eta: Floats, members: Floats, strength: float) -> Floats:
        """(n, K) corrected probabilities: the nearest ones to the labels' values, in their order."""
        return onto_simplex(eta - strength * self.push(eta, members))


AnyCorrection = Correction | ClassCorrection


def class_push(scores: Floats, directions: Floats, counted: IntArray, classes: int) -> Floats:
    """(A, n, K) how far one unit of strength lowers every label's value, by bias scores (n, k, G) and directions
    (A, k x e, G)."""
    k, events = counted.shape
    by_cell = directions.reshape(len(directions), k, events, -1)
    found = np.zeros((len(directions), len(scores), classes))
    for cell in range(k):
        moved = np.einsum("ng,aeg->ane", scores[:, cell], by_cell[:, cell])
        for event in range(events):
            found[:, :, counted[cell, event]] += moved[:, :, event]
    return found


def path_decisions(decided: IntArray, eta: Floats, push: Floats, strengths: Floats) -> IntArray:
    """(R, n) decisions at these strengths, by the model's (n,), P(label) and pushes (n, K).

    The model's own decision stays until another label's value is above its own.
    """
    rows = np.arange(len(decided))
    found = np.empty((len(strengths), len(decided)), dtype=np.int64)
    for place, strength in enumerate(strengths):
        value = eta - strength * push
        best = value.argmax(axis=1)
        found[place] = np.where(value[rows, best] > value[rows, decided], best, decided) if strength > 0 else decided
    return found


def onto_simplex(values: Floats) -> Floats:
    """(n, K) the nearest probabilities to these values: all lowered alike, and cut at 0."""
    ordered = -np.sort(-values, axis=1)
    above = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, values.shape[1] + 1)
    count = (ordered > above).sum(axis=1)
    return np.asarray((values - above[np.arange(len(values)), count - 1][:, None]).clip(0))


def change_strengths(margin: Floats, push: Floats) -> Floats:
    """(...,) the strength at which margin - strength x push changes its sign; `NEVER` where it does not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = margin / push
    return np.where((place > 0) & np.isfinite(place), place, NEVER)


def polar_directions(cells: int, n_groups: int = 2, angles: int = ANGLES) -> Floats:
    """(A, k, G) unit directions for two groups: t of the second group on a circle over the cells, of the first its
    opposite. One cell has the two directions there are."""
    if n_groups != 2:
        raise InputError(f"A polar grid is for two groups, got {n_groups}: use `pairwise_directions`.")
    if cells == 1:
        own = np.array([[1.0], [-1.0]])
    elif cells == 2:
        turn = 2 * np.pi * np.arange(angles) / angles
        own = np.stack([np.cos(turn), np.sin(turn)], axis=1)  # (A, 2)
    else:
        raise InputError(f"A polar grid is for one or two cells, got {cells}.")
    return np.stack([-own, own], axis=2)


def pairwise_directions(cells: int, n_groups: int, angles: int = ANGLES // 2) -> Floats:
    """(A, k, G) directions for any number of groups: each group against all others together."""
    two = polar_directions(cells, 2, angles)[:, :, 1]  # (A, k)
    found = []
    for group in range(n_groups if n_groups > 2 else 1):
        against = np.full(n_groups, -1 / (n_groups - 1))
        against[n_groups - 1 - group] = 1
        found.append(two[:, :, None] * against)
    return np.concatenate(found)
