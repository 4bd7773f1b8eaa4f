"""Ask the system for the next stretch of a mapped file while this one is being worked on."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

WINDOW = 32 << 20  # bytes asked for at a time: a page at a time, a file out of the cache reads at half the disk's speed


class ReadAhead:
    """Of a matrix in a mapped file, which rows will be needed; of any other matrix, nothing happens."""

    def __init__(self, matrix: np.ndarray[Any, Any]) -> None:
        self._file = _mapping(matrix) if matrix.flags.c_contiguous and hasattr(mmap, "MADV_WILLNEED") else None
        self._row = matrix.strides[0]
        self._first = 0
        if self._file is not None:
            whole = np.frombuffer(self._file, dtype=np.uint8)
            self._first = matrix.__array_interface__["data"][0] - whole.__array_interface__["data"][0]

    def turns(self, step: int) -> int:
        """How many blocks of so many rows make a window."""
        return max(1, WINDOW // (step * self._row))

    def want(self, start: int, stop: int) -> None:
        """Rows start to stop will be read soon."""
        if self._file is None:
            return
        first = (self._first + start * self._row) // mmap.PAGESIZE * mmap.PAGESIZE
        last = min(len(self._file), self._first + stop * self._row)
        if first < last:
            self._file.madvise(mmap.MADV_WILLNEED, first, last - first)


def _mapping(array: Any) -> mmap.mmap | None:
    """The mapped file an array is a view of, if it is one."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None
