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

ANGLES = 20
"""Directions of the coarse grid; around the one that leads there are finer ones."""
BETWEEN, LENGTHS = 3, 2
"""So many directions on either side of the leader, and so many lengths of each."""
NEAR = 0.1
"""Of the people, nearest the threshold: they say how far a direction moves margins."""
LEAST_PUSH = 0.01
"""Scores that vary less than this are not stretched further: f_a knows next to nothing."""
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


@dataclass(frozen=True, eq=False)
class DirectionGrid:
    """Directions as turns of a circle, in coordinates where every one of them moves people near the threshold as far.

    Scores of two cells are nearly multiples of each other where labels are unbalanced, and what serves best lies where
    they nearly cancel. So t = root x (cos, sin), with root that of the inverse second moments of the scores near the
    threshold: at strength 1 margins there move by 1, in the root mean square, whatever the direction.
    """

    contrasts: Floats  # (C, G) of groups, each summing to zero
    roots: Floats  # (C, k, k)

    def directions(self, turns: Turns) -> Floats:
        """(A, k, G) what these turns say."""
        circle = np.stack([np.cos(turns.angle), np.sin(turns.angle)], axis=1)[:, : self.roots.shape[1]]  # (A, k)
        own = np.einsum("ak,akc->ac", circle, self.roots[turns.contrast]) * turns.length[:, None]
        return np.asarray(own[:, :, None] * self.contrasts[turns.contrast][:, None])

    def coarse(self, angles: int = ANGLES) -> Turns:
        """The whole circle of every contrast; one cell has the two directions there are."""
        count = 2 if self.roots.shape[1] == 1 else angles
        contrast, step = np.divmod(np.arange(len(self.contrasts) * count), count)
        return Turns(contrast, 2 * np.pi * step / count, np.ones(len(step)))

    def around(self, turns: Turns, leader: int, longer: float, angles: int = ANGLES) -> Turns:
        """Directions between the leader and its neighbours on the circle, and lengths up to `longer` times its own.

        A longer direction has its path's places in between: strengths are refined with the angle.
        """
        aside = [0] if self.roots.shape[1] == 1 else range(-BETWEEN, BETWEEN + 1)
        parts = [(j, n) for j in aside for n in range(LENGTHS) if (j, n) != (0, 0)]
        step = 2 * np.pi / angles / (BETWEEN + 1)
        return Turns(
            np.full(len(parts), turns.contrast[leader]),
            np.array([turns.angle[leader] + j * step for j, _ in parts]),
            np.array([turns.length[leader] * longer ** (n / LENGTHS) for _, n in parts]),
        )


@dataclass(frozen=True, eq=False)
class Turns:
    """Places on a `DirectionGrid`, (A,) each: which contrast of groups, which angle, how long."""

    contrast: IntArray
    angle: Floats
    length: Floats


def fit_grid(scores: Floats, margins: Floats) -> DirectionGrid:
    """The grid for these people's scores (n, k, G) and the model's margins (n,)."""
    if scores.shape[1] > 2:
        raise InputError(f"A grid of directions is for one or two cells, got {scores.shape[1]}.")
    near = scores[_near_threshold(margins)]  # (m, k, G)
    contrasts = group_contrasts(scores.shape[2])
    own = np.einsum("mkg,cg->cmk", near, contrasts)
    values, vectors = np.linalg.eigh(own.transpose(0, 2, 1) @ own / len(near))  # (C, k), (C, k, k)
    vectors = vectors / np.sqrt(values.clip(LEAST_PUSH**2))[:, None] @ vectors.transpose(0, 2, 1)
    return DirectionGrid(contrasts, vectors)


def push_lengths(push: Floats, margins: Floats) -> Floats:
    """(A,) how far pushes (A, n) move the margins (n,) of people near the threshold, in the root mean square."""
    near = push[:, _near_threshold(margins)]
    return np.asarray(np.sqrt((near**2).mean(axis=1)).clip(LEAST_PUSH))


def _near_threshold(margins: Floats) -> BoolArray:
    distance = np.abs(margins)
    return np.asarray(distance <= np.quantile(distance, NEAR))


def group_contrasts(groups: int) -> Floats:
    """(C, G) two groups: the second against the first; more: each against all others together."""
    each = np.arange(groups)[::-1][: 1 if groups == 2 else groups]
    return np.where(np.arange(groups) == each[:, None], 1.0, -1 / (groups - 1))
