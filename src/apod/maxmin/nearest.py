"""A pool's matrix as it is stored, read in blocks, and how far each row is from its nearest answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from apod.data.arrays import WINDOW, FloatRows, ReadAhead, Stored, require_matrix
from apod.errors import InputError
from apod.maxmin.geometry import (
    LARGEST_TERM,
    Centres,
    Float32,
    Float64,
    Geometry,
    Int,
    Mask,
    exact_farthest,
    nearest_centre,
    squared_distances,
)
from apod.processes import in_parallel

WATCHED_BYTES = 10 << 20  # of vectors under watch
SAMPLED_BYTES = 6 << 20  # of vectors to predict picks on, and of watched ones that join them
MANY_BLOCKS = 32
FEW_BLOCKS = 2  # up to here starting threads costs more than they save

Slots = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Sizes:
    """How much is read, watched and sampled at a time: it decides time and memory, never a pick."""

    block: int = 1 << 21  # numbers of one block, read where they lie
    large_block: int = 1 << 23  # and where there are very many: fewer turns
    converted: int = 1 << 18  # numbers of one block that is copied or multiplied first: 1 MB, a core's cache holds it
    read_ahead: int = WINDOW  # bytes of a file asked for before they are needed
    watched: int | None = None  # rows a batch watches; by default as many as fit in WATCHED_BYTES
    sampled: int | None = None  # rows a batch predicts its picks on; by default as many as fit in SAMPLED_BYTES

    def of_batch(self, width: int, itemsize: int) -> tuple[int, int]:
        """How many rows to watch, and how many to sample."""
        row = width * max(4, itemsize)
        return self.watched or max(256, WATCHED_BYTES // row), self.sampled or max(256, SAMPLED_BYTES // row)


DEFAULT_SIZES = Sizes()


class StoredRows:
    """An (n, d) matrix of float16, float32 or float64 that is never copied: an array, or a mapped file."""

    def __init__(self, matrix: Stored, threads: int | None = None, sizes: Sizes = DEFAULT_SIZES) -> None:
        require_matrix(matrix)
        self._matrix = np.asarray(matrix)  # a memmap's own slicing is slow; the plain view still reads the file
        self._threads = threads
        self.sizes = sizes
        self.block = FloatRows(self._matrix).block  # float64 numbers too large for float32 are refused by their norm
        self._ahead = ReadAhead(self._matrix, sizes.read_ahead)

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def width(self) -> int:
        """Columns."""
        return int(self._matrix.shape[1])

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """How the numbers are stored."""
        return self._matrix.dtype

    def take(self, rows: Int) -> Stored:
        """(len(rows), d) copy of these rows as they are stored."""
        return np.ascontiguousarray(self._matrix[rows])

    def middle(self) -> Float64:
        """(d,) about the mean row: of some thousand evenly spaced rows, unusable numbers left out."""
        rows = self._matrix[:: max(1, len(self) // 2048)].astype(np.float64)
        usable = np.isfinite(rows) & (np.abs(rows) < 1e18)
        return np.asarray(np.where(usable, rows, 0.0).mean(axis=0))

    def stream(self, work: Callable[[int, int], None], *, small: bool = False) -> None:
        """Call work(start, stop) for blocks that cover all rows, from several threads at once.

        numpy releases the interpreter in a product over a block, so threads overlap; each block is read once.
        `small` blocks keep the memory of work that needs much of it down.
        """
        sizes = self.sizes
        plain = min(sizes.large_block, max(sizes.block, self._matrix.size // MANY_BLOCKS))
        step = max(64, (sizes.converted if small or self.dtype != np.float32 else plain) // self.width)
        turns, window = -(-len(self) // step), self._ahead.turns(step)

        def block(turn: int) -> None:
            if turn % window == 0:
                self._ahead.want((turn + window) * step, (turn + 2 * window) * step)
            work(turn * step, min((turn + 1) * step, len(self)))

        self._ahead.want(0, window * step)
        begun = time.perf_counter()
        in_parallel(block, turns, self._threads if turns > FEW_BLOCKS else 1)
        self._ahead.passed(time.perf_counter() - begun)


class NormedRows:
    """Stored rows with the cached term of each (4 bytes), relative to one shift; row numbers begin at `start`."""

    def __init__(self, rows: StoredRows, shift: Float64, start: int, terms: Float32 | None = None) -> None:
        """Reads every row once, unless the terms are known."""
        self.stored, self.start = rows, start
        self.geometry = Geometry(shift)
        self.passes = 0
        self.terms = self._computed_terms() if terms is None else terms

    def sweep(self, work: Callable[[int, int], None], *, small: bool = False) -> None:
        """One pass: work(start, stop) for blocks that cover all rows, from several threads."""
        self.passes += 1
        self.stored.stream(work, small=small)

    def relax(
        self, block: Float32, terms: Float32, bounds: Float32, slots: Slots, centres: Centres, names: Int
    ) -> None:
        """Lower the bounds of the rows some centre is closer to, and write that centre's name in their slots."""
        if not len(centres):
            return
        if len(centres) == 1:  # an answer at a time: nothing here may cost more than the product
            values = self.geometry.to_one(block, terms, centres)
            slots[np.flatnonzero(values < bounds)] = names[0]
        else:
            values, which = self.geometry.closest(block, terms, centres)
            closer = np.flatnonzero(values < bounds)
            slots[closer] = names[which[closer]]
        np.minimum(bounds, values, out=bounds)

    def _computed_terms(self) -> Float32:
        terms: Float32 = np.empty(len(self.stored), dtype=np.float32)

        def work(first: int, last: int) -> None:
            terms[first:last] = self.geometry.row_terms(self.stored.block(first, last))
            self._refuse_unusable(terms[first:last], first)

        self.sweep(work, small=True)
        return terms

    def _refuse_unusable(self, terms: Float32, first: int) -> None:
        """Raise for the first row that cannot be measured, naming it; `first` is the position of these terms."""
        usable = terms < LARGEST_TERM  # false for NaN too
        if usable.all():
            return
        bad = first + int(np.argmin(usable))
        what = f"Row {self.start + bad} of the embeddings"
        if np.isfinite(self.stored.take(np.array([bad]))).all():
            raise InputError(f"{what} is too large to measure: scale them to norms below 1e17.")
        raise InputError(f"{what} holds a value that is not a finite number: repair or drop it.")


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
