"""Probability cover: ask about the row whose ball of a given radius holds the most rows nobody covers yet.

Exact, in memory that grows with the rows and not with their pairs: pairs are counted in tiles, by float32 bounds from
both sides, and the few pairs the bounds cannot decide by the float64 formula. Rows are first gathered into cells
around pivots; two cells too far apart to share a ball are never compared (triangle inequality). Each row is covered
once, so all picks together cost at most as much again as the first count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apod.errors import InputError
from apod.maxmin.bounds import Float32, Float64, Geometry, Int, Mask, Stored, nearest_centre, squared_distances
from apod.maxmin.checks import checked_count, checked_mask, checked_rows
from apod.maxmin.foretell import greedy
from apod.maxmin.kernel import refuse_unusable
from apod.maxmin.rows import Rows
from apod.maxmin.threads import blas_on_one_thread, in_parallel

TILE_ROWS = 1024  # a tile is at most this many rows by this many
MOST_PIVOTS = 1024
SAMPLE = 8192  # rows the pivots are chosen from
BARRED = 1 << 30  # answered rows are never picked
ROUNDING = 1 + 1e-6  # float32 comparisons of squares, and a triangle inequality in floating point
LOT = 4096  # undecided pairs computed at a time


@dataclass(frozen=True)
class CoverPick:
    """A row worth asking about, and how many rows its ball covers that no answer covered before."""

    row: int
    covered: int


def probability_cover(
    matrix: Stored,
    radius: float,
    answered: Iterable[int] = (),
    candidates: Mask | None = None,
    k: int = 1,
    *,
    threads: int | None = None,
) -> list[CoverPick]:
    """The k candidates that cover the most, in order; ties to the lowest row; fewer once every candidate is covered.

    A row covers all candidates within `radius` of it, itself included. Answered rows cover too, whether or not they
    are candidates, and are never picked. candidates (n,) bool, None = every row. The time grows with the pairs of
    candidates that are not far apart: choose a subgroup, or a small radius, where the pool is large.
    """
    if not 0 <= radius < np.inf:
        raise InputError(f"radius is {radius}: pass a finite distance, zero or more.")
    rows = Rows(matrix, threads)
    known = np.array(checked_rows(answered, len(rows)), dtype=np.int64)
    mask = checked_mask(candidates, len(rows))
    population = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
    checked_count(k)
    with blas_on_one_thread:
        balls = _Balls(rows, population, radius, threads)
        balls.cover(rows.take(known))
        balls.count()
        return balls.pick(k, known)


@dataclass(frozen=True)
class _Tile:
    """Neighbouring rows of the population, all within `reach` of their pivot."""

    start: int
    stop: int
    pivot: int
    reach: float


class _Balls:
    """How many uncovered rows lie in every candidate's ball."""

    def __init__(self, rows: Rows, population: Int, radius: float, threads: int | None) -> None:
        self._rows, self._radius, self._threads = rows, radius, threads
        self._geometry = Geometry(rows.middle())
        self._population = population
        self._pivots, self._tiles = self._gather()
        self._apart = _pairwise(self._pivots)  # (p, p)
        self._gains = np.zeros(len(population), dtype=np.int32)
        self._open = np.ones(len(population), dtype=bool)  # not covered yet

    def cover(self, vectors: Stored) -> None:
        """Count what lies within the radius of these vectors as covered."""
        for tile in self._tiles:
            near = np.sqrt(squared_distances(vectors.astype(np.float64), self._pivots[tile.pivot]))
            near = near - tile.reach <= self._radius * ROUNDING
            if near.any():
                squares, _ = nearest_centre(self._vectors(tile), vectors[near])
                self._open[tile.start : tile.stop] &= np.sqrt(squares) > self._radius

    def count(self) -> None:
        """Count the uncovered rows in every ball."""
        self._change(self._open, 1)

    def pick(self, k: int, answered: Int) -> list[CoverPick]:
        """The best balls one after the other, until all rows are covered."""
        self._gains[np.isin(self._population, answered)] = -BARRED
        picks: list[CoverPick] = []
        while len(picks) < k and (most := int(self._gains.max(initial=0))) > 0:
            tied = np.flatnonzero(self._gains == most)
            best = int(tied[np.argmin(self._population[tied])])
            picks.append(CoverPick(int(self._population[best]), most))
            before = self._open.copy()
            self.cover(self._rows.take(self._population[best : best + 1]))
            self._change(before & ~self._open, -1)
        return picks

    def _change(self, among: Mask, by: int) -> None:
        """Add `by` to every row's gain for each row of `among` in its ball."""
        columns = [tile.start + np.flatnonzero(among[tile.start : tile.stop]) for tile in self._tiles]
        used = [number for number, index in enumerate(columns) if len(index)]
        pivots = np.array([self._tiles[number].pivot for number in used], dtype=np.int64)
        reach = np.array([self._tiles[number].reach for number in used])

        def work(turn: int) -> None:
            tile = self._tiles[turn]
            near = self._apart[tile.pivot, pivots] - tile.reach - reach <= self._radius * ROUNDING
            if not near.any():
                return
            index = np.concatenate([columns[number] for number, close in zip(used, near, strict=True) if close])
            vectors = self._vectors(tile)
            for first in range(0, len(index), TILE_ROWS):
                others = self._rows.take(self._population[index[first : first + TILE_ROWS]])
                self._gains[tile.start : tile.stop] += by * self._inside(vectors, others)

        in_parallel(work, len(self._tiles), self._threads)

    def _inside(self, rows: Stored, others: Stored) -> Int:
        """(a, d) and (b, d) to (a,): how many of the others lie in each row's ball."""
        block = rows.astype(np.float32, copy=False)
        terms, centres = self._geometry.row_terms(block), self._geometry.centres(others)
        table = self._geometry.table(block, terms, centres)  # (a, b)
        square = self._radius**2
        low = np.float32(square / ROUNDING)
        high = np.float32(square * ROUNDING + self._geometry.looseness(terms, centres))
        counts: Int = np.count_nonzero(table <= low, axis=1)
        unsure = np.flatnonzero(np.count_nonzero(table <= high, axis=1) > counts)
        first, second = np.nonzero((table[unsure] > low) & (table[unsure] <= high))
        for lot in range(0, len(first), LOT):
            i, j = unsure[first[lot : lot + LOT]], second[lot : lot + LOT]
            squares = squared_distances(rows[i].astype(np.float64), others[j].astype(np.float64))
            counts += np.bincount(i[np.sqrt(squares) <= self._radius], minlength=len(counts))
        return counts

    def _vectors(self, tile: _Tile) -> Stored:
        return self._rows.take(self._population[tile.start : tile.stop])

    def _gather(self) -> tuple[Float64, list[_Tile]]:
        """Sort the population by nearest pivot and distance to it, and cut it into tiles."""
        n = len(self._population)
        pivots = self._rows.take(self._population[self._spread(n)])
        centres = self._geometry.centres(pivots)
        cell, reach = np.zeros(n, dtype=np.int16), np.zeros(n, dtype=np.float32)
        for start in range(0, n, TILE_ROWS):
            part = slice(start, start + TILE_ROWS)
            block, terms = self._measured(self._population[part])
            reach[part], cell[part] = self._geometry.closest(block, terms, centres)
        order = np.lexsort((reach, cell))
        self._population, cell, reach = self._population[order], cell[order], reach[order]
        tiles = []
        for pivot in np.unique(cell):
            first, last = np.searchsorted(cell, [pivot, pivot + 1])
            for start in range(first, last, TILE_ROWS):
                stop = min(start + TILE_ROWS, last)
                tiles.append(_Tile(start, stop, int(pivot), float(np.sqrt(reach[stop - 1]))))
        return pivots.astype(np.float64), tiles

    def _spread(self, n: int) -> Int:
        """Positions of pivots far from each other, found on a sample: every cluster should have one."""
        sample = np.unique(np.linspace(0, max(0, n - 1), min(n, SAMPLE)).astype(np.int64))
        block, terms = self._measured(self._population[sample])
        count = min(MOST_PIVOTS, int(np.ceil(np.sqrt(n))))
        chosen, _ = greedy(self._geometry, block, terms, np.full(len(sample), np.inf, dtype=np.float32), count)
        return sample[chosen]

    def _measured(self, rows: Int) -> tuple[Float32, Float32]:
        """Float32 vectors and terms of these rows, none of them unusable."""
        with np.errstate(over="ignore"):
            block = self._rows.take(rows).astype(np.float32, copy=False)
        terms = self._geometry.row_terms(block)
        refuse_unusable(terms, rows, self._rows)
        return block, terms


def _pairwise(points: Float64) -> Float64:
    return np.sqrt(np.stack([squared_distances(points, point) for point in points])) if len(points) else points
