"""Matrices read block by block: pools larger than memory, trained on by draws of bounded size.

A pool of more than `LARGE` rows changes three things, and a smaller one nothing:

- a round (and the pre-training of the head) is `ROUND_STEPS` mini-batches of rows drawn at random without replacement,
  anew each time, instead of `epochs` passes over everybody; the draw is read from storage in one sweep;
- group proxies and predictions of the whole pool are computed in one sweep, block by block;
- a proxy that standardises by the pool's moments sums them block by block.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from apod.data.arrays import ReadAhead, Stored
from apod.data.dataset import IntArray
from apod.data.encode import TableEncoder
from apod.errors import InputError
from apod.randomness import generator

ROUND_STEPS = 2048
"""Mini-batches of a round over a large pool: with 256 rows each, half a million rows."""

LARGE = ROUND_STEPS * 256
"""Rows above which a pool is trained on by draws."""

BLOCK = 1 << 16  # rows of one block; a multiple of the rows of one forward pass, so that no sum is cut another way
IN_MEMORY = 4 << 30  # bytes up to which a part of a matrix is copied into memory; above, into a file that has no name


def is_large(rows: int) -> bool:
    """Whether a pool of so many rows is trained on by draws."""
    return rows > LARGE


def steps_per_round(rows: int, epochs: int, batch_size: int) -> int:
    """How many mini-batches a round has."""
    return ROUND_STEPS if is_large(rows) else epochs * -(-rows // batch_size)


def drawn_rows(rows: int, batch_size: int, seed: int, dataset: str, round_: str | int) -> IntArray:
    """The rows of a large pool that one round trains on, in ascending order."""
    rng = generator(seed, "large pool", dataset, round_)
    return np.sort(rng.choice(rows, min(rows, ROUND_STEPS * batch_size), replace=False, shuffle=False))


def blocks(matrix: Stored, size: int | None = None) -> Iterator[tuple[slice, Stored]]:
    """All rows in order, `size` at a time, the next ones asked for while these are worked on."""
    ahead, size = ReadAhead(matrix), size or BLOCK
    for start in range(0, len(matrix), size):
        ahead.want(start + size, start + 3 * size)
        here = slice(start, min(start + size, len(matrix)))
        yield here, matrix[here]


def take_rows(matrix: Stored, rows: IntArray, *, size: int | None = None, in_memory: int = IN_MEMORY) -> Stored:
    """(len(rows), d) copy of these rows, given in ascending order, in one sweep."""
    result = empty_matrix(len(rows), matrix, in_memory=in_memory)
    done = 0
    for here, block in blocks(matrix, size):
        stop = int(np.searchsorted(rows, here.stop))
        result[done:stop] = block[rows[done:stop] - here.start]
        done = stop
    return result


def empty_matrix(rows: int, like: Stored, dtype: npt.DTypeLike | None = None, *, in_memory: int = IN_MEMORY) -> Stored:
    """Room for so many rows: in memory up to so many bytes, above in a temporary file."""
    shape, kind = (rows, like.shape[1]), np.dtype(dtype or like.dtype)
    if rows * like.shape[1] * kind.itemsize <= in_memory:
        return np.empty(shape, dtype=kind)
    with tempfile.TemporaryFile(prefix="apod-") as file:  # its space is freed with the last array over it
        return np.asarray(np.memmap(file, dtype=kind, mode="w+", shape=shape))


def joined(parts: Sequence[Stored]) -> Stored:
    """The rows of several matrices below one another; one alone is not copied."""
    if len(parts) == 1:
        return parts[0]
    found = empty_matrix(sum(map(len, parts)), parts[0], np.result_type(*(part.dtype for part in parts)))
    start = 0
    for part in parts:
        for here, block in blocks(part):
            found[start + here.start : start + here.stop] = block
        start += len(part)
    return found


def moments(matrix: Stored, size: int | None = None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(d,) mean and standard deviation of the columns, in float64, in two sweeps."""
    total = np.zeros(matrix.shape[1])
    for _, block in blocks(matrix, size):
        total += block.sum(axis=0, dtype=np.float64)
    mean = total / len(matrix)
    squares = np.zeros(matrix.shape[1])
    for _, block in blocks(matrix, size):
        squares += np.square(block - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(matrix))


def fit_numbers(matrix: Stored, size: int | None = None) -> TableEncoder:
    """The encoder of a matrix of numbers, as `TableEncoder.fit` makes it, in three sweeps; a bad row is named."""
    peak = np.zeros(matrix.shape[1])
    for here, block in blocks(matrix, size):
        finite = np.isfinite(block)
        if not finite.all():
            row = here.start + int(np.argmin(finite.all(axis=1)))
            what = "holds a value that is not a finite number: repair or drop it"
            raise InputError(f"Row {row} of the embeddings {what}.")
        np.maximum(peak, np.abs(block).max(axis=0), out=peak)
    mean, spread = moments(matrix, size)
    flat = spread <= 10 * np.finfo(np.float64).eps * peak  # rounding alone must not be blown up
    scale = np.where(flat, np.maximum(1.0, peak), spread)
    return TableEncoder.of_numbers([f"x{column}" for column in range(len(mean))], mean, scale)


def encode_numbers(encoder: TableEncoder, matrix: Stored, size: int | None = None) -> Stored:
    """(n, d) float32: every row scaled by the encoder, in one sweep."""
    result = empty_matrix(len(matrix), matrix, np.float32)
    for here, block in blocks(matrix, size):
        result[here] = encoder.transform(block)
    return result
