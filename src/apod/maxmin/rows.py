"""A pool's matrix as it is stored, read in blocks by as many threads as there are cores."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from apod.data.array_files import require_matrix
from apod.data.half import as_tensor, widened
from apod.data.readahead import ReadAhead
from apod.maxmin.bounds import Float32, Float64, Int, Stored
from apod.maxmin.threads import in_parallel

BLOCK = 1 << 21  # numbers of one block, read where they lie
LARGE_BLOCK = 1 << 23  # and where there are very many: fewer turns
MANY_BLOCKS = 32
CONVERTED = 1 << 18  # numbers of one block that is copied or multiplied first: 1 MB, to stay in a core's cache
FEW_BLOCKS = 2  # up to here starting threads costs more than they save


class Rows:
    """An (n, d) matrix of float16, float32 or float64 that is never copied: an array, or a mapped file."""

    def __init__(self, matrix: Stored, threads: int | None = None) -> None:
        require_matrix(matrix)
        self._matrix = np.asarray(matrix)  # a memmap's own slicing is slow; the plain view still reads the file
        self._threads = threads
        self._half = as_tensor(self._matrix)
        self._ahead = ReadAhead(self._matrix)

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

    def block(self, start: int, stop: int) -> Float32:
        """Rows start to stop in float32; a view where they are stored so."""
        if self._half is not None:
            return widened(self._half, start, stop)
        with np.errstate(over="ignore"):  # float64 numbers too large for float32 are refused by their row's norm
            return np.asarray(self._matrix[start:stop], dtype=np.float32)

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
        plain = min(LARGE_BLOCK, max(BLOCK, self._matrix.size // MANY_BLOCKS))
        step = max(64, (CONVERTED if small or self.dtype != np.float32 else plain) // self.width)
        turns, window = -(-len(self) // step), self._ahead.turns(step)

        def block(turn: int) -> None:
            if turn % window == 0:
                self._ahead.want((turn + window) * step, (turn + 2 * window) * step)
            work(turn * step, min((turn + 1) * step, len(self)))

        self._ahead.want(0, window * step)
        begun = time.perf_counter()
        in_parallel(block, turns, self._threads if turns > FEW_BLOCKS else 1)
        self._ahead.passed(time.perf_counter() - begun)
