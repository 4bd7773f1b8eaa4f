"""How far every row of a part is from its nearest answer, at most, and which answer that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from apod.data.arrays import Stored
from apod.maxmin.geometry import Float32, Float64, Int, Mask, exact_farthest, nearest_centre, squared_distances
from apod.maxmin.rows import NormedRows, Slots

LOT = 1024
NOBODY = 0
"""Slot of a row that nothing answered is near to."""


class AnswerSlots:
    """Rows and their vectors in numbered slots; a freed slot is used again, the lowest first.

    The same sequence of `put` and `drop` numbers the slots the same way everywhere, so that parts of a pool on
    different machines agree on them without talking.
    """

    def __init__(self, vectors: Stored, rows: Sequence[int] = (-1,)) -> None:
        """Slots that hold these rows (-1: free; slot 0 always) and vectors (slots, d)."""
        self._vectors = vectors
        self._rows = [int(row) for row in rows]
        self._slots = {row: slot for slot, row in enumerate(self._rows) if row >= 0}
        self._free = [slot for slot, row in enumerate(self._rows) if slot != NOBODY and row < 0]  # a heap

    @staticmethod
    def empty(width: int, dtype: np.dtype[np.floating]) -> AnswerSlots:
        """Nothing is answered."""
        return AnswerSlots(np.zeros((8, width), dtype=dtype))

    def copy(self) -> AnswerSlots:
        """The same slots, to go its own way."""
        return AnswerSlots(self._vectors.copy(), self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def rows(self) -> list[int]:
        """The rows in the order they came."""
        return list(self._slots)

    @property
    def slots(self) -> Int:
        """The slots in use, lowest first."""
        return np.array(sorted(self._slots.values()), dtype=np.int64)

    @property
    def capacity(self) -> int:
        """One above the highest slot ever used."""
        return len(self._rows)

    def row_of_slot(self) -> Int:
        """(capacity,) row of each slot, -1 where it is free."""
        return np.array(self._rows, dtype=np.int64)

    def vectors(self, slots: Int) -> Stored:
        """(len(slots), d) vectors in these slots."""
        return self._vectors[slots]

    def slots_of(self, rows: Sequence[int]) -> Int:
        """The slots of these rows."""
        return np.array([self._slots[row] for row in rows], dtype=np.int64)

    def find(self, row: int) -> tuple[Stored, int]:
        """The vector and the slot of this row."""
        return self._vectors[self._slots[row]], self._slots[row]

    def put(self, rows: Sequence[int], vectors: Stored) -> Int:
        """Give each new row a slot."""
        return np.array([self._place(row, vector) for row, vector in zip(rows, vectors, strict=True)], np.int64)

    def drop(self, rows: Sequence[int]) -> Int:
        """Free the slots of these rows."""
        slots = [self._slots.pop(row) for row in rows]
        for slot in slots:
            self._rows[slot] = -1
            heappush(self._free, slot)
        return np.array(slots, dtype=np.int64)

    def _place(self, row: int, vector: Stored) -> int:
        slot = heappop(self._free) if self._free else len(self._rows)
        if slot == len(self._rows):
            self._rows.append(-1)
        if slot == len(self._vectors):
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
        self._rows[slot], self._vectors[slot], self._slots[row] = row, vector, slot
        return slot

    def squares(self, take: Callable[[Int], Stored], positions: Int, slots: Slots) -> Float64:
        """Float64 squared distance of each row to the answer in its slot, inf for NOBODY; slots (n,) are everyone's.

        `take(positions)` gives vectors; it is asked for a lot at a time, because where rows tie there may be many.
        """
        result = np.empty(len(positions))
        for first in range(0, len(positions), LOT):
            lot = positions[first : first + LOT]
            own = slots[lot].astype(np.int64)
            values = squared_distances(take(lot).astype(np.float64), self._vectors[own].astype(np.float64))
            result[first : first + LOT] = np.where(own == NOBODY, np.inf, values)
        return result


class NearestAnswers:
    """6 bytes a row while fewer than 65,535 rows are answered, then 8.

    bounds (n,): upper bound on the squared distance to the nearest answer; -1 = answered, or not a candidate
    slots (n,): slot of that answer. A bound and its slot always speak of the same answer, so that rows whose answer
    is taken back are known.
    """

    def __init__(self, rows: NormedRows, answers: AnswerSlots, bounds: Float32, slots: Slots) -> None:
        self.bounds, self.slots = bounds, slots
        self._rows, self._answers = rows, answers

    @staticmethod
    def blank(rows: NormedRows, answers: AnswerSlots) -> NearestAnswers:
        """Nothing is answered."""
        n = len(rows.stored)
        bounds = np.full(n, np.inf, dtype=np.float32)
        return NearestAnswers(rows, answers, bounds, np.full(n, NOBODY, dtype=np.uint16))

    def copy(self) -> NearestAnswers:
        """One to try things on."""
        return NearestAnswers(self._rows, self._answers, self.bounds.copy(), self.slots.copy())

    def mark_answered(self, rows: Sequence[int], slots: Int) -> None:
        """Mark rows of this part as answered, and make room for the slots of all."""
        if self._answers.capacity > np.iinfo(self.slots.dtype).max:
            self.slots = self.slots.astype(np.uint32)
        own = np.asarray(rows, dtype=np.int64) - self._rows.start
        here = (own >= 0) & (own < len(self.bounds))
        self.bounds[own[here]], self.slots[own[here]] = -1, slots[here]

    def squares(self, positions: Int) -> Float64:
        """Float64 squared distance of these rows to the answer in their slot."""
        return self._answers.squares(self._rows.stored.take, positions, self.slots)

    def best(self, mask: Mask | None = None) -> tuple[int, float] | None:
        """Row and squared distance of the exact max-min pick among the candidates."""
        known = self._answers.slots
        vectors = self._answers.vectors(known)

        def exact(positions: Int) -> Float64:
            squares, which = nearest_centre(self._rows.stored.take(positions), vectors)
            if len(known):
                self.slots[positions] = known[which]
            return squares

        best = exact_farthest(self.bounds, exact, self.squares, mask)
        return None if best is None else (best.index + self._rows.start, best.squared)
