"""Max-min distance over a pool, kept up to date one answer at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apod.errors import InputError
from apod.maxmin.batch import pick_batch
from apod.maxmin.bounds import Float64, Int, Mask, Stored
from apod.maxmin.checks import checked_count, checked_mask, checked_rows
from apod.maxmin.pool import Pool
from apod.maxmin.rows import Rows
from apod.maxmin.shard import Shard


@dataclass(frozen=True)
class Pick:
    """A row worth asking about, and its distance to the nearest answered row when it was picked."""

    row: int
    distance: float


class Coverage:
    """Distance of every row to its nearest answered row, kept up to date one answer at a time.

    matrix (n, d) of float16, float32 or float64, in memory or a mapped file; it is read, never copied, and must not
    change. Beside it 10 bytes a row are kept, 16 while a batch is picked.

    An answer costs one pass over the matrix. Picks are those of the float64 formula `sqrt(sum((x - c)**2))`, however
    the matrix is stored. With nothing answered every distance is infinite and every `nearest` is -1; `farthest` then
    starts at the lowest candidate row (distance inf) and goes on by max-min from there.
    """

    def __init__(self, matrix: Stored, answered: Iterable[int] = (), *, threads: int | None = None) -> None:
        rows = Rows(matrix, threads)
        self.pool = Pool([Shard(rows, rows.middle())])
        self.add(answered)

    @classmethod
    def over(cls, pool: Pool) -> Coverage:
        """The same over a pool in parts, here or elsewhere, with what it already knows of answers."""
        self = cls.__new__(cls)
        self.pool = pool
        return self

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def answered(self) -> tuple[int, ...]:
        """The answered rows, in the order they were added."""
        return tuple(self.pool.references.rows)

    @property
    def passes(self) -> int:
        """How often the matrix has been read, the first look at every row included."""
        return max(self.pool.each(lambda shard: shard.passes()))

    @property
    def nearest(self) -> Int:
        """(n,) the nearest answered row of every row; -1 while nothing is answered.

        Where two answers are equally near to within the rounding of float32, it may be either.
        """
        rows = self.pool.references.row_of_slot()
        return np.concatenate([rows[slots] for slots in self.pool.each(lambda shard: shard.slots())])

    @property
    def distances(self) -> Float64:
        """(n,) float64 distance of every row to `nearest`; inf while nothing is answered. Reads the matrix once."""
        return np.concatenate(self.pool.each(lambda shard: shard.distances()))

    def add(self, rows: Iterable[int]) -> None:
        """Count these rows as answered, in one pass for all; a row that already is changes nothing."""
        fresh = [row for row in checked_rows(rows, len(self)) if row not in self.pool.references]
        if fresh:
            self.pool.add(fresh)

    def remove(self, rows: Iterable[int]) -> None:
        """Take answers back; only rows whose nearest answer is gone are measured again."""
        gone = checked_rows(rows, len(self))
        for row in gone:
            if row not in self.pool.references:
                raise InputError(f"Row {row} is not answered: remove only rows that were added.")
        if gone:
            self.pool.remove(gone)

    def farthest(self, candidates: Mask | None = None, k: int = 1) -> list[Pick]:
        """The k candidates that max-min selection asks about next, in order; fewer when the candidates run out.

        candidates (n,) bool, None = every row. Answered rows are never picked; ties go to the lowest row. Picks
        count as answered for the picks after them, and for nothing else.
        """
        mask = checked_mask(candidates, len(self))
        if checked_count(k) == 1:
            best = self.pool.best(mask)
            found = [] if best is None else [best]
        else:
            found = pick_batch(self.pool, mask, k)
        return [Pick(one.index, one.distance) for one in found]
