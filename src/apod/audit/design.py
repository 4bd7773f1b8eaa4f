"""Whom to ask for an audit, and how many more: answers go where the differences are least known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apod.audit.rates import Cells, rates
from apod.audit.shares import FloatArray
from apod.data.dataset import IntArray
from apod.errors import BudgetError, InputError

MOST_PLANNED = 100_000


@dataclass(frozen=True, eq=False)
class Draw:
    """People to ask, drawn at random within cells."""

    rows: IntArray  # (m,)
    probability: FloatArray  # (m,) of each one to be among them


def leverages(shares: FloatArray, views: Sequence[Cells]) -> FloatArray:
    """(v, 2, c): how much the difference in TPR and FPR of each view moves with a cell's share of the first group."""
    found = np.zeros((len(views), 2, len(shares)))
    for number, cells in enumerate(views):
        people = shares * cells.sizes[:, None] + cells.certain  # (c, g)
        known = rates(shares, cells)
        for place, (label, rate) in enumerate(((1, known.tpr), (0, known.fpr))):
            mine = cells.labels == label
            whole = np.maximum(people[mine].sum(axis=0), 1.0)  # (g,)
            pull = (cells.decisions[:, None] - np.nan_to_num(rate)) / whole  # (c, g)
            found[number, place] = np.where(mine, cells.sizes * (np.abs(pull).max(1) + np.abs(pull).min(1)), 0)
    return found


def allocate(shares: FloatArray, views: Sequence[Cells], n: int, room: IntArray | None = None) -> IntArray:
    """How many of n answers each cell gets, (c,).

    Half in equal parts, half by Neyman's rule (leverage x standard deviation): the rule rests on shares that are only
    guessed, equal parts protect against a wrong guess. `room` are people left to ask in each cell.
    """
    room = np.floor(views[0].sizes).astype(np.int64) if room is None else room
    if n < 0:
        raise BudgetError(f"{n} people cannot be drawn: ask for one at least.")
    if n > room.sum():
        raise BudgetError(f"{n} people cannot be drawn out of {int(room.sum())}: ask for fewer.")
    wanted = np.sqrt((leverages(shares, views) ** 2).sum(axis=(0, 1)) * (1 - (shares**2).sum(axis=1)))
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
    unequal: float = 1.0  # how much wider intervals came out than foreseen, by small cells and unequal weights

    @property
    def left(self) -> int:
        """How many people have not answered yet."""
        return int(np.maximum(np.floor(self.views[0].sizes) - self.answered, 0).sum())

    def half_widths(self, more: int) -> FloatArray:
        """(v, 2) expected half width of the 95 % intervals of both differences after so many further answers."""
        room = np.maximum(np.floor(self.views[0].sizes) - self.answered, 0).astype(np.int64)
        total = self.answered + (allocate(self.shares, self.views, min(more, int(room.sum())), room) if more else 0)
        size = np.maximum(self.views[0].sizes, 1.0)
        variance = self.shares[:, 0] * (1 - self.shares[:, 0]) if self.shares.shape[1] == 2 else 0.25
        unknown = variance * self.residual * np.clip(1 - total / size, 0, 1) / np.maximum(total, 0.5)  # (c,)
        lever = leverages(self.shares, self.views)
        return np.asarray(1.96 * self.unequal * np.sqrt((lever**2 * unknown).sum(axis=-1)))

    def needed(self, within: float) -> int | None:
        """How many further answers make both differences known within +- so much; None where nobody is left to ask."""
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
