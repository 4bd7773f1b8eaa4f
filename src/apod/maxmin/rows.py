"""A pool's matrix as it is stored, read in blocks by as many threads as there are cores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.data.arrays import WINDOW, FloatRows, ReadAhead, Stored, require_matrix
from apod.errors import InputError
from apod.maxmin.geometry import LARGEST_TERM, Centres, Float32, Float64, Geometry, Int
from apod.threads import in_parallel

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
