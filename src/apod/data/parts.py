"""A matrix in one .npy file or in a folder of them, as parts that follow each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from apod.data.array_files import Stored, open_array, require_matrix
from apod.errors import InputError

ALIGNED = 8192
"""A file is cut at multiples of so many rows: where blocks of a forward pass end, so that no sum is cut another way."""


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
class Parts:
    """The parts of one matrix."""

    parts: tuple[Part, ...]
    width: int
    dtype: np.dtype[np.floating]

    def __len__(self) -> int:
        return self.parts[-1].start + self.parts[-1].rows


def open_parts(path: str | os.PathLike[str], pieces: int | None = None) -> Parts:
    """The parts of a .npy file (cut into so many pieces, one unless told) or of a folder of .npy files (one each).

    The files of a folder follow each other by number, where their names end in one; a number that is missing is
    an error, and so is a file whose width or type differs from the others'.
    """
    path = Path(path)
    if not path.is_dir():
        matrix = open_array(path, "embeddings")
        require_matrix(matrix)
        return Parts(tuple(_cut(path, len(matrix), pieces or 1)), matrix.shape[1], matrix.dtype)
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
    return Parts(tuple(parts), *kind)


def _cut(path: Path, rows: int, pieces: int) -> list[Part]:
    """Pieces of about equal size, fewer where there are few rows."""
    if pieces < 1:
        raise InputError(f"A pool cannot be cut into {pieces} parts: ask for one at least.")
    unit = ALIGNED if rows >= pieces * ALIGNED else 1
    edges = sorted({rows * number // pieces // unit * unit for number in range(pieces)} | {rows})
    return [Part(str(path.absolute()), at, at, end - at) for at, end in pairwise(edges)]
