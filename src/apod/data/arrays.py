"""Arrays in .npy files: mapped, not read, and refused in one line where they are damaged.

A matrix may be a folder of files that follow each other (`open_parts`), and its rows may go by ids of their owner
(`checked_ids`, `rows_of`). `ReadAhead` and `FloatRows` make passes over such a matrix as fast as the disk.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

if TYPE_CHECKING:
    import torch

Stored = npt.NDArray[np.floating]
"""Of float16, float32 or float64, as the user keeps it."""

Ids = npt.NDArray[Any]

ALIGNED = 8192
"""A file is cut at multiples of so many rows: where blocks of a forward pass end, so that no sum is cut another way."""

WINDOW = 32 << 20  # bytes asked for at a time: a page at a time, a file out of the cache reads at half the disk's speed
CACHED = 4e9  # bytes a second: a pass that was faster came from memory, and the next needs nothing read ahead
PIECE = 1 << 15  # numbers torch converts in the thread that asks; above, it would start threads of its own


def open_array(path: str | os.PathLike[str], what: str) -> npt.NDArray[Any]:
    """The array in a .npy file, which may be larger than memory; `what` names it in an error."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            shape, dtype, start = _header(file)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}: pass the {what} as a .npy file.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: pass the {what} as one .npy file.") from None
    except (ValueError, EOFError, SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError, TokenError):
        raise InputError(f"{path} is not a .npy file: write the {what} with numpy.save.") from None
    if dtype.hasobject:
        raise InputError(f"{path} holds Python objects: write the {what} as numbers or fixed-length text.")
    expected, found = start + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if found != expected:
        wrong = "is cut off" if found < expected else "is longer than its header says"
        raise InputError(f"{path} {wrong}: {shape} {dtype} takes {expected} bytes, it has {found}: write it again.")
    if not math.prod(shape):
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def require_matrix(matrix: Stored) -> None:
    """Refuse what is not a matrix of floating-point numbers with rows and columns."""
    if matrix.ndim != 2 or not matrix.shape[0] or not matrix.shape[1]:
        raise InputError(f"The embeddings have shape {matrix.shape}: pass a matrix with rows and columns.")
    if matrix.dtype.kind != "f" or matrix.dtype.itemsize > 8:
        raise InputError(f"The embeddings are {matrix.dtype}: store them as float32, float16 or float64.")


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type a file claims, and where its numbers start."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError("another version of the format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise ValueError("no shape of an array")
    return shape, dtype, file.tell()


@dataclass(frozen=True)
class Part:
    """Some rows of a file, and which rows of the pool they are."""

    path: str
    first: int  # in the file
    start: int  # in the pool
    rows: int

    def open(self) -> Stored:
        """(rows, d) of the file, mapped; refused where the file is not what it was."""
        matrix = open_array(self.path, "embeddings")
        require_matrix(matrix)
        if len(matrix) < self.first + self.rows:
            raise InputError(
                f"{self.path} has {len(matrix)} rows and {self.first + self.rows} are needed: it has changed since "
                "the pool was opened, or another machine sees another file."
            )
        return matrix[self.first : self.first + self.rows]


@dataclass(frozen=True)
class MatrixParts:
    """The parts of one matrix."""

    parts: tuple[Part, ...]
    width: int
    dtype: np.dtype[np.floating]

    def __len__(self) -> int:
        return self.parts[-1].start + self.parts[-1].rows


def open_parts(path: str | os.PathLike[str], pieces: int | None = None) -> MatrixParts:
    """The parts of a .npy file (cut into so many pieces, one by default) or of a folder of .npy files (one each).

    The files of a folder follow each other by number, where their names end in one; a number that is missing is
    an error, and so is a file whose width or type differs from the others'.
    """
    path = Path(path)
    if not path.is_dir():
        matrix = open_array(path, "embeddings")
        require_matrix(matrix)
        return MatrixParts(tuple(_cut(path, len(matrix), pieces or 1)), matrix.shape[1], matrix.dtype)
    from apod.data.files import numbered_files  # loads pandas, which a single file does without

    parts: list[Part] = []
    start, kind = 0, None
    for file in numbered_files(path, (".npy",)):
        matrix = open_array(file, "embeddings")
        require_matrix(matrix)
        if kind is not None and (matrix.shape[1], matrix.dtype) != kind:
            raise InputError(
                f"{file} has {matrix.shape[1]} columns of {matrix.dtype} and the files before it {kind[0]} of "
                f"{kind[1]}: all parts of a matrix must be alike."
            )
        kind = (matrix.shape[1], matrix.dtype)
        parts.append(Part(str(file.absolute()), 0, start, len(matrix)))
        start += len(matrix)
    assert kind is not None
    return MatrixParts(tuple(parts), *kind)


def _cut(path: Path, rows: int, pieces: int) -> list[Part]:
    """Pieces of about equal size, fewer where there are few rows."""
    if pieces < 1:
        raise InputError(f"A pool cannot be cut into {pieces} parts: ask for one at least.")
    unit = ALIGNED if rows >= pieces * ALIGNED else 1
    edges = sorted({rows * number // pieces // unit * unit for number in range(pieces)} | {rows})
    return [Part(str(path.absolute()), at, at, end - at) for at, end in pairwise(edges)]


def checked_ids(ids: Ids, n: int) -> Ids:
    """One id per row, none twice."""
    if ids.shape != (n,):
        raise InputError(f"There are ids of shape {ids.shape} and {n} rows of embeddings: pass one id per row.")
    if ids.dtype.kind not in "iuUS":
        raise InputError(f"The ids are {ids.dtype}: pass whole numbers or texts.")
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"The id {twice[0]} stands for more than one row ({len(twice)} such): ids must be unique.")
    return ids


def rows_of(ids: Ids, wanted: Ids) -> npt.NDArray[np.int64]:
    """The row of each of these ids; an id of nobody is an error."""
    if wanted.ndim != 1:
        raise InputError(f"The answered ids have shape {wanted.shape}: pass a list of them.")
    if not len(wanted):
        return np.empty(0, dtype=np.int64)
    if _kind(wanted) != _kind(ids):
        raise InputError(f"The answered ids are {wanted.dtype} and the pool's {ids.dtype}: write both alike.")
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    rows = order[place]
    strangers = wanted[ids[rows] != wanted]
    if len(strangers):
        raise InputError(
            f"{len(strangers)} answered id(s) are not among the pool's, the first is {strangers[0]}: are these the ids "
            "of this matrix?"
        )
    return np.asarray(rows, dtype=np.int64)


def _kind(ids: Ids) -> str:
    return "number" if ids.dtype.kind in "iu" else ids.dtype.kind


class ReadAhead:
    """Which rows of a matrix will be needed; for one in memory, or laid out by columns, nothing happens.

    By address, because an array that went through another library no longer knows the file it is a view of.
    """

    def __init__(self, matrix: np.ndarray[Any, Any], window: int = WINDOW) -> None:
        """`window`: bytes asked for at a time."""
        self._window = window
        self._row = matrix.strides[0]
        self._first = matrix.__array_interface__["data"][0]
        self._end = self._first + matrix.nbytes
        useful = matrix.flags.c_contiguous and matrix.nbytes > window and hasattr(mmap, "MADV_WILLNEED")
        self._advise = _advise() if useful else None
        self._cached = False  # as far as the last pass could tell

    def turns(self, step: int) -> int:
        """How many blocks of so many rows make a window."""
        return max(1, self._window // (step * self._row))

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


class FloatRows:
    """Rows of a matrix in float32: a view where they are stored so, float16 several times faster than numpy's cast."""

    def __init__(self, matrix: Stored) -> None:
        self._matrix = matrix
        self._half = _half_tensor(matrix)

    def block(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Rows start to stop."""
        if self._half is not None:
            return _widened(self._half[start:stop])
        with np.errstate(over="ignore"):  # float64 numbers too large for float32 become inf
            return np.asarray(self._matrix[start:stop], dtype=np.float32)


def _half_tensor(matrix: Stored) -> torch.Tensor | None:
    """A float16 matrix as a tensor over the same memory; None for others, and where torch cannot read it."""
    if matrix.dtype != np.float16:
        return None
    import torch  # only those who store float16 wait for it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a mapped file is not writable; nobody writes
            return torch.from_numpy(matrix)
    except (TypeError, ValueError):  # another machine's byte order, negative strides
        return None


def _widened(half: torch.Tensor) -> npt.NDArray[np.float32]:
    import torch

    result = torch.empty(half.shape, dtype=torch.float32)
    step = max(1, PIECE // half.shape[1])
    for first in range(0, len(half), step):
        result[first : first + step].copy_(half[first : first + step])
    return result.numpy()
