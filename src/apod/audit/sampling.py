"""Whom an audit speaks about, whom to ask for it, and how many more: answers go where the differences are least known.

Everybody's label and decisions are known, so people fall into cells of label and decisions. They are drawn at random
within their cell, and every draw keeps the probability with which it was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.audit.shares import CellAnswers, Cells, FloatArray, components, cross_fitted
from apod.data.dataset import UNKNOWN, IntArray, check_group_count
from apod.errors import BudgetError, InputError
from apod.fairness.counts import binary, checked_weights
from apod.fairness.notions import EQUALIZED_ODDS, Notion, compared
from apod.randomness import generator

MOST_PLANNED = 100_000
LEAST_FOR_PROXY = 10
"""Answers below which no proxy is fitted: it would only add noise."""


@dataclass(frozen=True, eq=False)
class People:
    """Everybody, checked. An answer may be a probability of each group, where annotators disagree."""

    labels: IntArray  # (n,)
    decisions: Mapping[str, IntArray]  # name -> (n,)
    answers: FloatArray  # (n, g) rows sum to 1, or to 0 where there is no answer
    probability: FloatArray  # (n,) of having been drawn; NaN where not drawn at random
    group_names: tuple[str, ...]
    weights: FloatArray | None = None  # (n,) how many people a row stands for, 1 on average; None: all alike

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """(n,) whether there is an answer."""
        return np.asarray(self.answers.sum(axis=1) > 0)

    @property
    def drawn(self) -> IntArray:
        """Rows drawn at random, with an answer."""
        return np.flatnonzero(self.answered & ~np.isnan(self.probability))

    @property
    def known(self) -> IntArray:
        """Rows whose group is known though they were not drawn at random: they speak for themselves alone."""
        return np.flatnonzero(self.answered & np.isnan(self.probability))

    @property
    def silent(self) -> int:
        """How many were drawn and gave no answer."""
        return int((~self.answered & ~np.isnan(self.probability)).sum())


def check_people(
    labels: npt.ArrayLike,
    predictions: Mapping[str, npt.ArrayLike],
    groups: npt.ArrayLike,
    group_names: Sequence[str],
    probability: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
) -> People:
    """Everything of one length, decisions 0 or 1, every draw with a probability."""
    y = binary("labels", labels)
    decisions = {name: binary(name, values) for name, values in predictions.items()}
    if not decisions:
        raise InputError("There are no predictions to audit: pass one column at least.")
    check_group_count(len(group_names))
    answers = _one_hot(np.asarray(groups), len(group_names))
    answered = answers.sum(axis=1) > 0
    for name, values in (("groups", answers), *decisions.items()):
        if len(values) != len(y):
            raise InputError(f"{name} has {len(values)} rows and labels has {len(y)}: pass one per row.")
    if probability is None:  # everybody had the same chance
        chance = np.where(answered, answered.mean(), np.nan)
    else:
        chance = np.asarray(probability, dtype=np.float64)
        if chance.shape != y.shape:
            raise InputError(f"probability has {chance.size} rows and labels has {len(y)}: pass one per row.")
        if ((chance <= 0) | (chance > 1)).any():
            raise InputError("A probability of having been drawn is above 0 and at most 1: leave others empty.")
    counted = checked_weights("weights", weights, len(y))
    counted = None if counted is None else counted / counted.mean()
    return People(y, decisions, answers, chance, tuple(group_names), counted)


def _one_hot(groups: npt.NDArray[Any], n_groups: int) -> FloatArray:
    if n_groups < 2:
        raise InputError("An audit compares groups: name two at least.")
    if groups.ndim == 2:
        sums = groups.sum(axis=1)
        if groups.shape[1] != n_groups or not (np.isclose(sums, 0) | np.isclose(sums, 1)).all():
            raise InputError(f"groups needs {n_groups} probabilities per row that sum to 1, or to 0 without an answer.")
        return np.asarray(groups, dtype=np.float64)
    codes = groups.astype(np.int64)
    if ((codes < UNKNOWN) | (codes >= n_groups)).any():
        raise InputError(f"Groups are codes from 0 to {n_groups - 1}, or {UNKNOWN} where nobody answered.")
    return np.asarray(codes[:, None] == np.arange(n_groups), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CellPlan:
    """Everybody's cell by label and one or more decisions, and the cells as each of the decisions sees them."""

    code: IntArray  # (n,)
    views: tuple[Cells, ...]

    @property
    def sizes(self) -> FloatArray:
        """(c,) people in each cell whose group is not known for certain."""
        return self.views[0].sizes

    @property
    def labels(self) -> IntArray:
        """(c,) the label of each cell."""
        return self.views[0].labels

    def rows_per_cell(self, known: IntArray) -> IntArray:
        """(c,) rows whose group is not among the known: people, whatever they weigh."""
        count = len(self.sizes)
        return np.bincount(self.code, minlength=count) - np.bincount(self.code[known], minlength=count)


def cells_of(people: People, names: Sequence[str]) -> CellPlan:
    """The cells of label x the named decisions."""
    code, count = people.labels, 2 ** (len(names) + 1)
    for name in names:
        code = code * 2 + people.decisions[name]
    known = people.known
    certain, weights = np.zeros((count, len(people.group_names))), people.weights
    if weights is None:
        np.add.at(certain, code[known], people.answers[known])
        every_one, told = np.bincount(code, minlength=count), np.bincount(code[known], minlength=count)
    else:
        np.add.at(certain, code[known], people.answers[known] * weights[known, None])
        every_one, told = (np.bincount(code[rows], weights[rows], minlength=count) for rows in (slice(None), known))
    sizes = np.maximum(every_one - told, 0).astype(float)
    every = np.arange(count)
    decisions = [every >> (len(names) - 1 - place) & 1 for place in range(len(names))]
    return CellPlan(code, tuple(Cells(every >> len(names), decision, sizes, certain) for decision in decisions))


def sample_of(people: People, plan: CellPlan, proxies: FloatArray) -> tuple[CellAnswers, FloatArray]:
    """The answers drawn at random, and per cell the mean proxy of everybody whose group is not known for certain."""
    rows = people.drawn
    weights = people.weights
    own = None if weights is None else weights[rows]
    sample = CellAnswers(plan.code[rows], people.answers[rows], proxies[rows], people.probability[rows], own)
    open_ = np.ones(len(plan.code), dtype=bool)
    open_[people.known] = False
    others = None if weights is None else weights[open_]
    return sample, cell_means(plan.code[open_], proxies[open_], len(plan.sizes), others)


def cell_means(code: IntArray, proxies: FloatArray, count: int, weights: FloatArray | None = None) -> FloatArray:
    """(c, g) mean proxy per cell, by weight; even shares where a cell is empty."""
    counted = np.ones(len(code)) if weights is None else weights
    sums = np.stack([np.bincount(code, weights=column * counted, minlength=count) for column in proxies.T], axis=1)
    people = np.bincount(code, weights=weights, minlength=count)[:, None]
    return np.where(people > 0, sums / np.where(people > 0, people, 1), 1 / proxies.shape[1])


@dataclass(frozen=True, eq=False)
class Draw:
    """People to ask, drawn at random within cells."""

    rows: IntArray  # (m,)
    probability: FloatArray  # (m,) of each one to be among them


def leverages(shares: FloatArray, views: Sequence[Cells], notion: Notion) -> FloatArray:
    """(v, r, c): how much each compared rate's difference moves with a cell's share of the first group."""
    found = []
    for cells in views:
        people = cells.people(shares)  # (c, g)
        inside, counted = compared(notion, cells.labels, cells.decisions)  # (c, k), (c, e)
        known = np.nan_to_num(cells.rates(notion, shares))  # (k, e, g)
        for cell, event in np.ndindex(known.shape[:2]):
            mine, happened = inside[:, cell], counted[:, event]
            whole = np.maximum(people[mine].sum(axis=0), 1.0)  # (g,)
            pull = (happened[:, None] - known[cell, event]) / whole  # (c, g)
            found.append(np.where(mine, cells.sizes * (np.abs(pull).max(1) + np.abs(pull).min(1)), 0))
    return np.stack(found).reshape(len(views), -1, len(shares))


def allocate(
    shares: FloatArray,
    views: Sequence[Cells],
    n: int,
    room: IntArray | None = None,
    notion: Notion = EQUALIZED_ODDS,
) -> IntArray:
    """How many of n answers each cell gets, (c,).

    Half in equal parts, half by Neyman's rule (leverage x standard deviation): the rule rests on shares that are only
    guessed, equal parts protect against a wrong guess. `room` are people left to ask in each cell.
    """
    room = np.floor(views[0].sizes).astype(np.int64) if room is None else room
    if n < 0:
        raise BudgetError(f"{n} people cannot be drawn: ask for one at least.")
    if n > room.sum():
        raise BudgetError(f"{n} people cannot be drawn out of {int(room.sum())}: ask for fewer.")
    wanted = np.sqrt((leverages(shares, views, notion) ** 2).sum(axis=(0, 1)) * (1 - (shares**2).sum(axis=1)))
    even = (room > 0) / max(1, int((room > 0).sum()))
    ideal = (0.5 * even + 0.5 * wanted / wanted.sum() if wanted.sum() > 0 else even) * (room > 0)
    given = np.zeros(len(room), dtype=np.int64)
    for _ in range(n):  # one by one to whoever is farthest below the ideal: exact, and never above the room
        behind = np.where(given < room, (given + 0.5) / np.maximum(ideal, 1e-12), np.inf)
        given[behind.argmin()] += 1
    return given


def draw_people(cells: IntArray, counts: IntArray, available: IntArray, rng: np.random.Generator) -> Draw:
    """Draw counts[c] of the available people of every cell, each with the same chance; in random order."""
    rows, probability = [], []
    for cell, count in enumerate(counts):
        inside = available[cells[available] == cell]
        rows.append(rng.choice(inside, size=int(count), replace=False))
        probability.append(np.full(int(count), count / max(1, len(inside))))
    order = rng.permutation(int(counts.sum()))
    return Draw(np.concatenate(rows)[order].astype(np.int64), np.concatenate(probability)[order])


@dataclass(frozen=True, eq=False)
class Precision:
    """What is needed to foresee how exact an audit with more answers would be."""

    shares: FloatArray  # (c, g)
    views: Sequence[Cells]
    residual: FloatArray  # (c,) what proxies leave of the variance
    answered: IntArray  # (c,)
    notion: Notion = EQUALIZED_ODDS
    unequal: float = 1.0  # how much wider intervals came out than foreseen, by small cells and unequal weights

    @property
    def left(self) -> int:
        """How many people have not answered yet."""
        return int(np.maximum(np.floor(self.views[0].sizes) - self.answered, 0).sum())

    def half_widths(self, more: int) -> FloatArray:
        """(v, r) expected half width of the 95 % intervals of the differences after so many further answers."""
        room = np.maximum(np.floor(self.views[0].sizes) - self.answered, 0).astype(np.int64)
        total = self.answered
        if more:
            total = total + allocate(self.shares, self.views, min(more, int(room.sum())), room, self.notion)
        size = np.maximum(self.views[0].sizes, 1.0)
        variance = self.shares[:, 0] * (1 - self.shares[:, 0]) if self.shares.shape[1] == 2 else 0.25
        unknown = variance * self.residual * np.clip(1 - total / size, 0, 1) / np.maximum(total, 0.5)  # (c,)
        lever = leverages(self.shares, self.views, self.notion)
        return np.asarray(1.96 * self.unequal * np.sqrt((lever**2 * unknown).sum(axis=-1)))

    def needed(self, within: float) -> int | None:
        """How many further answers make the differences known within +- so much; None where nobody is left to ask."""
        if not within > 0:
            raise InputError(f"A difference cannot be known within +-{within:g}: give a number above 0, like 0.05.")
        most = min(self.left, MOST_PLANNED)
        if self.half_widths(0).max() <= within:
            return 0
        if self.half_widths(most).max() > within:
            return None
        low, high = 0, 1
        while self.half_widths(min(high, most)).max() > within:
            low, high = high, 2 * high
        high = min(high, most)
        while high - low > max(1, low // 50):  # two digits are more than such a forecast deserves
            middle = (low + high) // 2
            low, high = (low, middle) if self.half_widths(middle).max() <= within else (middle, high)
        return high


def group_proxies(
    people: People, proxies: npt.ArrayLike | None = None, features: npt.ArrayLike | None = None, seed: int = 0
) -> FloatArray:
    """(n, g): given, cross-fitted, or the mix of groups among the answers, which tells nobody from anybody."""
    shape = people.answers.shape
    if proxies is not None:
        given = np.asarray(proxies, dtype=np.float64)
        if given.shape != shape or not ((given >= 0) & (given <= 1)).all():
            raise InputError(f"Proxies are probabilities, one per person and group: {shape[0]} x {shape[1]} numbers.")
        return given
    rows = np.flatnonzero(people.answered)
    if features is not None and len(rows) >= LEAST_FOR_PROXY:
        inputs = components(np.asarray(features, dtype=np.float64))
        return cross_fitted(inputs, rows, people.answers[rows], generator(seed, "audit", "folds"))
    mix = people.answers[rows].mean(axis=0) if len(rows) else np.full(shape[1], 1 / shape[1])
    return np.broadcast_to(mix, shape)
