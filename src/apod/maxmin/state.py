"""The state of a coverage on disk: 10 bytes a row beside the campaign, so that opening it again costs no pass.

It is a cache. What cannot be used (missing, cut off, of another matrix or version) is computed anew, never trusted.
The file holds row numbers, norms and distances; no label, no group.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.maxmin.bounds import Int, Stored
from apod.maxmin.checks import checked_rows
from apod.maxmin.coverage import Coverage
from apod.maxmin.pool import Pool
from apod.maxmin.references import References
from apod.maxmin.rows import Rows
from apod.maxmin.shard import Known, Shard

VERSION = 1
SAMPLED = 4096  # rows whose content stands for the matrix

PathLike = str | os.PathLike[str]


class _Unusable(Exception):
    """The file does not hold the state of this matrix."""


def save_coverage(coverage: Coverage, path: PathLike) -> None:
    """Write what a coverage knows; a reader sees the old file or the new one, never a part of one."""
    pool, path = coverage.pool, Path(path)
    parts = pool.each(lambda shard: shard.export())
    state = [column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*parts, strict=True)]
    arrays = [pool.geometry.shift, pool.references.row_of_slot(), *state]
    sample = pool.vectors(_sampled(len(pool)))
    note = {"version": VERSION, "matrix": _fingerprint(len(pool), sample), "digest": _digest(arrays)}
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            for array in [np.frombuffer(json.dumps(note).encode(), dtype=np.uint8), *arrays]:
                np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def restore_coverage(
    path: PathLike, matrix: Stored, answered: Iterable[int] = (), *, threads: int | None = None
) -> Coverage:
    """The coverage of this matrix with exactly these answers: from the file as far as it goes, else computed.

    Answers given since the file was written are added, answers taken back since are removed.
    """
    rows = Rows(matrix, threads)
    wanted = checked_rows(answered, len(rows))
    try:
        coverage = _load(Path(path), rows)
    except _Unusable:
        return Coverage(matrix, wanted, threads=threads)
    coverage.remove([row for row in coverage.answered if row not in set(wanted)])
    coverage.add(wanted)
    return coverage


def _load(path: Path, rows: Rows) -> Coverage:
    try:
        with path.open("rb") as file:
            note = json.loads(np.load(file, allow_pickle=False).tobytes())
            if note["version"] != VERSION or note["matrix"] != _fingerprint(len(rows), rows.take(_sampled(len(rows)))):
                raise _Unusable
            arrays = [np.load(file, allow_pickle=False) for _ in range(5)]
    except (OSError, ValueError, EOFError, KeyError, TypeError) as error:
        raise _Unusable from error
    if note["digest"] != _digest(arrays):
        raise _Unusable
    shift, row_of_slot, terms, bounds, slots = arrays
    references = References(rows.take(np.maximum(row_of_slot, 0)), row_of_slot.tolist())
    shard = Shard(rows, shift, known=Known(references.copy(), terms, bounds, slots))
    return Coverage.over(Pool([shard], references))


def _sampled(n: int) -> Int:
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.int64))


def _fingerprint(n: int, sample: Stored) -> str:
    """Of a matrix's shape, type, and some thousand rows spread evenly over it, the first and the last included."""
    digest = hashlib.blake2b(f"{n} {sample.shape} {sample.dtype.str}".encode(), digest_size=16)
    digest.update(_bytes(sample))
    return digest.hexdigest()


def _digest(arrays: list[npt.NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype.str}".encode())
        digest.update(_bytes(array))
    return digest.hexdigest()


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
