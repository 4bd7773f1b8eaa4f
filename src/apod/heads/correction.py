"""A correction of a model's margin by bias scores: the head that needs a few numbers instead of thousands of weights.

Among all rules that read x alone, the most accurate one under a rate-parity notion is (Chen, Klochkov, Liu 2024; Xian,
Zhao 2024)

    predict 1   where   2 (eta(x) - cut)  >  sum over cells c, groups g of  t_cg b_cg(x),     sum over g of t_cg = 0
    b_cg(x) = P(c | x) p_g(x) / q_cg,      q_cg = mean of P(c | x) p_g(x) / mean of P(c | x)

eta(x) = P(y = 1 | x), p_g(x) = P(group g | x) by f_a, c the cells that the notion compares (equalized odds: labels).
A *direction* is t up to its length, *strength* is the length: at 0 the model decides as it always did. Along a
direction everybody's decision changes once at most, so one number per person, the strength of the change, holds the
whole path.
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

    cells: BoolArray  # (2, k) which labels a cell holds
    shares: Floats  # (k, G) q: a group's share of a cell

    def of(self, eta: Floats, members: Floats) -> Floats:
        """(n, k, G) scores of people with P(y = 1) eta (n,) and group probabilities (n, G)."""
        inside = np.stack([1 - eta, eta], axis=1) @ self.cells  # (n, k)
        return np.asarray(inside[:, :, None] * members[:, None, :] / self.shares)


def fit_bias_scores(
    notion: Notion, eta: Floats, members: Floats, least_share: float = 1e-3, weights: Floats | None = None
) -> BiasScores:
    """The constants from the pool's P(y = 1), (n,), group probabilities (n, G), and weights (n,) of the people.

    A group with hardly any member in a cell counts as `least_share` of it: its scores stay finite.
    """
    if notion.classes != 2:
        raise InputError(f"A correction of {notion.classes} labels is not available: use a head on embeddings.")
    cells = np.asarray(notion.cells(np.array([0, 1])))  # (2, k)
    inside = np.stack([1 - eta, eta], axis=1) @ cells  # (n, k)
    inside = inside if weights is None else inside * weights[:, None]
    shares = inside.T @ members / inside.sum(axis=0)[:, None]
    return BiasScores(cells, shares.clip(least_share))


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
