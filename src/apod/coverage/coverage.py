"""Max-min distance over a pool, kept up to date one answer at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pick:
    """A row worth asking about, and its distance to the nearest answered row when it was picked."""

    row: int
    distance: float


class Coverage:
    """Distance of every row to its nearest answered row, kept up to date one answer at a time.

    With nothing answered every distance is infinite and every `nearest` is -1; `farthest` then starts at the lowest
    candidate row (distance inf) and goes on by max-min from there.
    """

    def __init__(self, matrix: npt.NDArray[np.floating], answered: Sequence[int] = ()) -> None:
        if matrix.ndim != 2:
            raise InputError(f"The matrix has {matrix.ndim} dimensions: pass rows x columns.")
        self._matrix = matrix
        self._answered: list[int] = []
        self._distances: Float = np.full(len(matrix), np.inf)
        self._nearest: Int = np.full(len(matrix), -1, dtype=np.int64)
        self.add(answered)

    @property
    def answered(self) -> tuple[int, ...]:
        """The answered rows, in the order they were added."""
        return tuple(self._answered)

    @property
    def distances(self) -> Float:
        """(n,) distance of every row to its nearest answered row; inf while nothing is answered."""
        return self._distances.copy()

    @property
    def nearest(self) -> Int:
        """(n,) the nearest answered row of every row; -1 while nothing is answered."""
        return self._nearest.copy()

    def add(self, rows: Iterable[int]) -> None:
        """Count these rows as answered; a row that already is changes nothing."""
        for row in self._checked(rows):
            if row not in self._answered:
                self._answered.append(row)
                _relax(self._matrix, row, self._distances, self._nearest, np.arange(len(self._matrix)))

    def remove(self, rows: Iterable[int]) -> None:
        """Take answers back; only rows whose nearest answer is gone are computed again."""
        gone = self._checked(rows)
        for row in gone:
            if row not in self._answered:
                raise InputError(f"Row {row} is not answered: remove only rows that were added.")
        self._answered = [row for row in self._answered if row not in gone]
        orphans = np.flatnonzero(np.isin(self._nearest, gone))
        self._distances[orphans], self._nearest[orphans] = np.inf, -1
        for row in self._answered:
            _relax(self._matrix, row, self._distances, self._nearest, orphans)

    def farthest(self, candidates: Mask | None = None, k: int = 1) -> list[Pick]:
        """The k candidates that max-min selection asks about next, in order; fewer when the candidates run out.

        candidates (n,) bool, None = every row. Answered rows are never picked; ties go to the lowest row.
        """
        if candidates is not None and candidates.shape != (len(self._matrix),):
            raise InputError(
                f"candidates has shape {candidates.shape}: pass one bool per row, ({len(self._matrix)},)."
            )
        left = np.ones(len(self._matrix), dtype=bool) if candidates is None else candidates.astype(bool)
        left[self._answered] = False
        distances, nearest, every = self._distances.copy(), self._nearest.copy(), np.arange(len(self._matrix))
        picks: list[Pick] = []
        while len(picks) < k and left.any():
            row = int(np.argmax(np.where(left, distances, -1.0)))
            picks.append(Pick(row, float(distances[row])))
            left[row] = False
            if len(picks) < k:
                _relax(self._matrix, row, distances, nearest, every)
        return picks

    def _checked(self, rows: Iterable[int]) -> list[int]:
        checked = [int(row) for row in rows]
        for row in checked:
            if not 0 <= row < len(self._matrix):
                raise InputError(
                    f"Row {row} is not in the matrix: rows go from 0 to {len(self._matrix) - 1}."
                )
        return checked


def _relax(matrix: npt.NDArray[np.floating], row: int, distances: Float, nearest: Int, among: Int) -> None:
    """Lower `distances` (and set `nearest`) of the rows in `among` that `row` is closer to."""
    difference = matrix[among].astype(np.float64) - matrix[row].astype(np.float64)
    fresh = np.sqrt((difference**2).sum(axis=1))
    closer = fresh < distances[among]
    distances[among[closer]], nearest[among[closer]] = fresh[closer], row
