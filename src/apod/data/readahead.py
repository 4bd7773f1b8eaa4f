"""Ask the system for the next stretch of a mapped file while this one is being worked on."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

WINDOW = 32 << 20  # bytes asked for at a time: a page at a time, a file out of the cache reads at half the disk's speed
CACHED = 4e9  # bytes a second: a pass that was faster came from memory, and the next needs nothing read ahead


class ReadAhead:
    """Which rows of a matrix will be needed; for one in memory, or laid out by columns, nothing happens.

    By address, because an array that went through another library no longer knows the file it is a view of.
    """

    def __init__(self, matrix: np.ndarray[Any, Any]) -> None:
        self._row = matrix.strides[0]
        self._first = matrix.__array_interface__["data"][0]
        self._end = self._first + matrix.nbytes
        useful = matrix.flags.c_contiguous and matrix.nbytes > WINDOW and hasattr(mmap, "MADV_WILLNEED")
        self._advise = _advise() if useful else None
        self._cached = False  # as far as the last pass could tell

    def turns(self, step: int) -> int:
        """How many blocks of so many rows make a window."""
        return max(1, WINDOW // (step * self._row))

    def want(self, start: int, stop: int) -> None:
        """Rows start to stop will be read soon."""
        first = (self._first + start * self._row) // mmap.PAGESIZE * mmap.PAGESIZE
        last = min(self._end, self._first + stop * self._row)
        if self._advise is not None and not self._cached and first < last:
            self._advise(first, last - first, mmap.MADV_WILLNEED)  # advice: refused, nothing is lost

    def passed(self, seconds: float) -> None:
        """All rows were read in this time."""
        self._cached = self._end - self._first > CACHED * seconds


def _advise() -> Any:
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
