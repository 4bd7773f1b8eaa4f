"""Corrections of more than two labels: what they do along their paths, and which directions are worth a look.

A person may be decided for several labels in turn as the strength grows, but never again for the model's own
(`heads.correction`). So a path is the list of its moves: who, at which strength, from which decision to which. A rate
is of a pair: a cell and a decision that is counted in it. As with two labels every move enters one place of the path,
and places are added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from apod.fairness.many_labels import counted_decisions, pair_events, pair_gap
from apod.fairness.notions import Notion, ratio
from apod.heads.correction import class_push, path_decisions
from apod.method.correction_choice import Limits, Paths, added_up
from apod.method.correction_costs import Costs, Judged

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Block = tuple[slice, npt.NDArray[np.floating]]

SEARCH_ROWS = 4000
"""So many people say how good a direction is while directions are searched for."""
SEARCH_DRAWS = 4
"""Directions are searched for at the posterior's mean, and at so many of its draws."""
GENERATIONS, CHILDREN = 12, 16
MOST_DIRECTIONS = 40
START_STRENGTHS = (0.05, 0.15, 0.4)
FARTHEST = 1.5
"""The length of directions: where their paths end."""
OVERSPENT = 20.0
"""Points of gap that a point of accuracy beyond the limit counts as, in the search alone."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Every change of a decision along A directions at R strengths."""

    direction: IntArray  # (m,)
    row: IntArray  # (m,) ascending
    place: IntArray  # (m,) on the grid of strengths
    before: IntArray  # (m,) decision at the place before
    after: IntArray  # (m,)
    band: IntArray  # (A, n) the first place at which a decision differs from the model's; R where none

    def of_rows(self, rows: slice) -> Moves:
        """Those of a block of people, who count from 0 there."""
        some = slice(*np.searchsorted(self.row, (rows.start, rows.stop)))
        own = (self.row[some] - rows.start, self.place[some], self.before[some], self.after[some])
        return Moves(self.direction[some], *own, self.band[:, rows])


def make_moves(decided: IntArray, eta: Floats, scores: Floats, directions: Floats, notion: Notion, at: Floats) -> Moves:
    """The moves of people by the model's decisions (n,), P(label) (n, K) and bias scores (n, k, G), along directions
    (A, k x e, G) at these strengths."""
    counted, classes, everybody = counted_decisions(notion), eta.shape[1], np.arange(len(eta))
    found: list[tuple[IntArray, ...]] = []
    band = np.full((len(directions), len(eta)), len(at), dtype=np.int64)
    short = eta[everybody, decided][:, None] - eta  # (n, K) how far a label is behind
    for direction in range(len(directions)):
        push = class_push(scores, directions[direction : direction + 1], counted, classes)[0]
        gained = push[everybody, decided][:, None] - push
        rows = np.flatnonzero((short < at[-1] * gained).any(axis=1))
        along = path_decisions(decided[rows], eta[rows], push[rows], at)  # (R, rows)
        earlier = np.concatenate([decided[None, rows], along[:-1]])
        at_place, who = np.nonzero(along != earlier)
        own = (rows[who], at_place, earlier[at_place, who], along[at_place, who])
        found.append((np.full(len(who), direction), *own))
        away = along != decided[rows]
        band[direction, rows] = np.where(away.any(axis=0), away.argmax(axis=0), len(at))
    which, who, place, before, after = (np.concatenate(each).astype(np.int64) for each in zip(*found, strict=True))
    order = np.argsort(who, kind="stable")
    return Moves(which[order], who[order], place[order], before[order], after[order], band)


def trace_class_paths(
    notion: Notion,
    people: Judged,
    moves: Moves,
    count: int,
    versions: tuple[int, int],
    blocks: Iterable[Block],
) -> Paths:
    """Rates of every pair along all directions, block by block of people; arguments as of `trace_paths`."""
    inside, happened = pair_events(notion, people.labels, people.decisions)  # (n, k x e)
    pairs, width = inside.shape[1], versions[0] * versions[1]
    total, squares, base = (np.zeros((pairs, width)) for _ in range(3))
    moved = np.zeros((2 * len(moves.band) * count * pairs, width))
    for rows, members in blocks:
        flat = members.reshape(len(members), width)
        here = inside[rows].T.astype(flat.dtype)  # (pairs, rows)
        total += here @ flat
        squares += here @ flat**2
        base += happened[rows].T.astype(flat.dtype) @ flat
        part = people.take(rows)
        moved += _placement(notion, part, inside[rows], moves.of_rows(rows), count) @ flat
    return added_up(moved, base, total, squares, (len(moves.band), count, pairs), versions)


def _placement(
    notion: Notion, people: Judged, inside: npt.NDArray[np.bool_], moves: Moves, count: int
) -> sparse.csr_matrix:
    """(2 x A x R x pairs, rows) who moves where: into a pair (and out of it again) or out of the model's own pair."""
    counted, own = counted_decisions(notion).ravel(), people.decisions[moves.row]
    directions, pairs = len(moves.band), inside.shape[1]
    at = (moves.direction * count + moves.place) * pairs
    down, entries = directions * count * pairs, []
    for pair, decision in enumerate(counted.tolist()):
        here = inside[moves.row, pair]
        first, into = moves.before == own, moves.after == decision
        left, again = first & (own == decision), ~first & (moves.before == decision)
        for which, start, sign in ((here & into, 0, 1), (here & again, 0, -1), (here & left, down, 1)):
            some = np.flatnonzero(which)
            entries.append((at[some] + pair + start, moves.row[some], np.full(len(some), sign, np.float32)))
    place, row, value = (np.concatenate(each) for each in zip(*entries, strict=True))
    return sparse.csr_matrix((value, (place, row)), shape=(2 * down, len(people)))


def class_costs(people: Judged, moves: Moves, count: int, classes: int) -> Costs:
    """Accuracy and balanced accuracy lost along all directions, with standard errors; labels alone decide it.

    Weighted people count by their weight, and errors by the squares, as with two labels.
    """
    weights = np.ones(len(people)) if people.weights is None else people.weights
    labels, own = people.labels[moves.row], people.decisions[moves.row]
    was, before, after = (decided == labels for decided in (own, moves.before, moves.after))
    size = (classes, len(moves.band), count)
    place = (labels * len(moves.band) + moves.direction) * count + moves.place

    def along(change: npt.NDArray[np.bool_ | np.int64], each: Floats) -> Floats:
        """(K, A, R) weighted sums of what changes, added up along the path."""
        found = np.bincount(place, change * each[moves.row], minlength=int(np.prod(size)))
        return np.asarray(found.reshape(size).cumsum(axis=2))

    gone = before.astype(np.int64) - after
    lost, squares = along(gone, weights), along(gone, weights**2)
    touched = along((after != was).astype(np.int64) - (before != was), weights**2)
    of_label, of_squares = (np.bincount(people.labels, each, minlength=classes) for each in (weights, weights**2))

    def mean_and_error(inside: IntArray) -> tuple[Floats, Floats]:
        total = max(float(of_label[inside].sum()), 1e-9)
        mean = lost[inside].sum(axis=0) / total
        spread = touched[inside].sum(axis=0) - 2 * mean * squares[inside].sum(axis=0)
        return mean, np.sqrt((spread + mean**2 * of_squares[inside].sum()).clip(0)) / total

    accuracy, error = mean_and_error(np.arange(classes))
    each = [mean_and_error(np.array([label])) for label in range(classes)]
    balanced = np.mean([mean for mean, _ in each], axis=0)
    own_error = np.sqrt(np.sum([error**2 for _, error in each], axis=0)) / classes
    changed = along(moves.before == own, weights).sum(axis=0) / weights.sum()
    return Costs(accuracy, error, balanced, own_error, changed, accuracy + error, balanced + own_error)


@dataclass(frozen=True, eq=False)
class Guessed:
    """What the draws say of the groups of some people, times their weights, and of the model's rates."""

    rows: IntArray  # (m,)
    members: Floats  # (1 + SEARCH_DRAWS, m, G) the mean of all draws, then some of them
    rates: Floats  # (1 + SEARCH_DRAWS, k x e, G)


def guessed(notion: Notion, people: Judged, versions: tuple[int, int], blocks: Iterable[Block]) -> Guessed:
    """The mean of the draws and some of them, of people who stand for all."""
    rows = np.unique(np.linspace(0, len(people) - 1, min(len(people), SEARCH_ROWS)).astype(np.int64))
    draws = np.linspace(0, versions[0] - 1, SEARCH_DRAWS).astype(np.int64)
    found: list[Floats] = []
    for block, members in blocks:
        own = members[rows[(rows >= block.start) & (rows < block.stop)] - block.start].astype(np.float64)
        found.append(np.concatenate([own.mean(axis=1, keepdims=True), own[:, draws]], axis=1))
    kept: Floats = np.concatenate(found).transpose(1, 0, 2)
    inside, happened = pair_events(notion, people.labels[rows], people.decisions[rows])
    rates = np.stack([(happened.T @ own) / (inside.T @ own).clip(1e-9) for own in kept])
    return Guessed(rows, kept, rates)


def class_directions(
    notion: Notion,
    people: Judged,
    eta: Floats,
    scores: Floats,
    known: Guessed,
    limits: Limits,
    rng: np.random.Generator,
) -> Floats:
    """(A, k x e, G) directions worth a look: against the differences of the rates, and what a search finds.

    eta (n, K), scores (n, k, G) of everybody. The search looks for the smallest gap within the limits, once by the mean
    of the draws and once by each of some draws.
    """
    simple = _against(known.rates[0])
    rows = known.rows
    part, found = people.take(rows), []
    for members, rates in zip(known.members, known.rates, strict=True):
        objective = Objective(notion, part, eta[rows], scores[rows], members, limits)
        found.append(objective.search(_against(rates), rng))
    return FARTHEST * _unit(np.concatenate([np.stack(found), simple])[:MOST_DIRECTIONS])


def _against(rates: Floats) -> Floats:
    """(A, k x e, G) directions that lower the groups above the mean in every pair, in some of them, and in one."""
    away = rates - rates.mean(axis=1, keepdims=True)
    size = np.linalg.norm(away, axis=1, keepdims=True)
    signs = away / size.clip(1e-9)
    alone = np.eye(len(rates))[:, :, None] * signs
    return _unit(np.concatenate([np.stack([signs, away, signs * np.sqrt(size)]), alone, (signs - alone)]))


def _unit(directions: Floats) -> Floats:
    """Of the length that directions of two labels have."""
    size = np.sqrt((directions**2).sum(axis=(1, 2), keepdims=True) / 2)
    return np.asarray(directions / size.clip(1e-12))


@dataclass(frozen=True, eq=False)
class Objective:
    """The gap that a correction leaves, if groups are as guessed, and what it costs beyond the limits."""

    notion: Notion
    people: Judged
    eta: Floats
    scores: Floats
    members: Floats
    limits: Limits

    def __call__(self, directions: Floats) -> Floats:
        """(A,) of corrections (A, k x e, G) at strength 1: the smaller the better."""
        labels, decided = self.people.labels, self.people.decisions
        classes, everybody = self.eta.shape[1], np.arange(len(labels))
        pushes = class_push(self.scores, directions, counted_decisions(self.notion), classes)
        weights = np.ones(len(labels)) if self.people.weights is None else self.people.weights
        right = np.bincount(labels, weights * (decided == labels), minlength=classes)
        each = np.bincount(labels, weights, minlength=classes).clip(1e-9)
        found = np.empty(len(directions))
        for place, push in enumerate(pushes):
            value = self.eta - push
            best = value.argmax(axis=1)
            now = np.where(value[everybody, best] > value[everybody, decided], best, decided)
            inside, happened = pair_events(self.notion, labels, now)
            rates = ratio(happened.T @ self.members, inside.T @ self.members)
            lost = right - np.bincount(labels, weights * (now == labels), minlength=classes)
            beyond = max(0.0, float(lost.sum() / each.sum()) - self.limits.accuracy / 2)
            beyond += max(0.0, float((lost / each).mean()) - self.limits.balanced / 2)
            found[place] = float(pair_gap(self.notion, rates)) + OVERSPENT * beyond
        return np.where(np.isfinite(found), found, np.inf)

    def search(self, starts: Floats, rng: np.random.Generator) -> Floats:
        """(k x e, G) the best correction that small random steps find from these directions."""
        tried = np.concatenate([strength * starts for strength in START_STRENGTHS])
        worth = self(tried)
        best, least = tried[worth.argmin()], float(worth.min())
        step = 0.5 * float(np.linalg.norm(best))
        for _ in range(GENERATIONS):
            noise = rng.standard_normal((CHILDREN, *best.shape))
            noise -= noise.mean(axis=2, keepdims=True)
            children = best + step * noise / np.sqrt(best.size)
            worth = self(children)
            better = worth.min() < least
            if better:
                best, least = children[worth.argmin()], float(worth.min())
            step *= 1.1 if better else 0.7
        return np.asarray(best)
