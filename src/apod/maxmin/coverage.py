"""Max-min distance over a pool, kept up to date one answer at a time, and on disk between two processes."""

from __future__ import annotations

import json
import operator
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.data.arrays import Stored
from apod.errors import InputError
from apod.files import digest, replacing
from apod.maxmin.batch import pick_batch
from apod.maxmin.geometry import Float64, Int, Mask
from apod.maxmin.nearest import DEFAULT_SIZES, AnswerSlots, Sizes, StoredRows
from apod.maxmin.shard import SavedShard, Shard, Shards

STATE_VERSION = 1
SAMPLED = 4096  # rows whose content stands for the matrix

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Pick:
    """A row worth asking about, and its distance to the nearest answered row when it was picked."""

    row: int
    distance: float


class Coverage:
    """Distance of every row to its nearest answered row, kept up to date one answer at a time.

    matrix (n, d) of float16, float32 or float64, in memory or a mapped file; it is read, never copied, and must not
    change. Beside it 10 bytes a row are kept, 16 while a batch is picked.

    An answer costs one pass over the matrix. Picks are those of the float64 formula `sqrt(sum((x - c)**2))`, however
    the matrix is stored. With nothing answered every distance is infinite and every `nearest` is -1; `farthest` then
    starts at the lowest candidate row (distance inf) and continues by max-min from there.
    """

    def __init__(
        self,
        matrix: Stored,
        answered: Iterable[int] = (),
        *,
        threads: int | None = None,
        sizes: Sizes = DEFAULT_SIZES,
    ) -> None:
        rows = StoredRows(matrix, threads, sizes)
        self.shards = Shards([Shard(rows, rows.middle())], sizes=sizes)
        self.add(answered)

    @classmethod
    def over(cls, shards: Shards) -> Coverage:
        """The same over a pool in parts, here or elsewhere, with the answers it already has."""
        self = cls.__new__(cls)
        self.shards = shards
        return self

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def answered(self) -> tuple[int, ...]:
        """The answered rows, in the order they were added."""
        return tuple(self.shards.answers.rows)

    @property
    def passes(self) -> int:
        """How often the matrix has been read, the first look at every row included."""
        return max(self.shards.each(lambda shard: shard.passes()))

    @property
    def nearest(self) -> Int:
        """(n,) the nearest answered row of every row; -1 while nothing is answered.

        Where two answers are equally near to within the rounding of float32, it may be either.
        """
        rows = self.shards.answers.row_of_slot()
        return np.concatenate([rows[slots] for slots in self.shards.each(lambda shard: shard.slots())])

    @property
    def distances(self) -> Float64:
        """(n,) float64 distance of every row to `nearest`; inf while nothing is answered. Reads the matrix once."""
        return np.concatenate(self.shards.each(lambda shard: shard.distances()))

    def add(self, rows: Iterable[int]) -> None:
        """Count these rows as answered, in one pass for all; a row that already is changes nothing."""
        fresh = [row for row in checked_rows(rows, len(self)) if row not in self.shards.answers]
        if fresh:
            self.shards.add(fresh)

    def remove(self, rows: Iterable[int]) -> None:
        """Take answers back; only rows whose nearest answer is gone are measured again."""
        gone = checked_rows(rows, len(self))
        for row in gone:
            if row not in self.shards.answers:
                raise InputError(f"Row {row} is not answered: remove only rows that were added.")
        if gone:
            self.shards.remove(gone)

    def set_answered(self, rows: Iterable[int]) -> None:
        """Count exactly these rows as answered: one pass for those to add, at most one for those to take back."""
        wanted = checked_rows(rows, len(self))
        kept = set(wanted)
        self.remove([row for row in self.answered if row not in kept])
        self.add(wanted)

    def farthest(self, candidates: Mask | None = None, k: int = 1) -> list[Pick]:
        """The k candidates that max-min selection asks about next, in order; fewer when the candidates run out.

        candidates (n,) bool, None = every row. Answered rows are never picked; ties go to the lowest row. Picks
        count as answered for the picks after them, and for nothing else.
        """
        mask = checked_mask(candidates, len(self))
        if checked_count(k) == 1:
            best = self.shards.best(mask)
            found = [] if best is None else [best]
        else:
            found = pick_batch(self.shards, mask, k)
        return [Pick(one.index, one.distance) for one in found]


def checked_rows(rows: Iterable[Any], n: int) -> list[int]:
    """These rows without repeats, in order; each must be a whole number from 0 to n - 1."""
    checked: dict[int, None] = {}
    for value in rows:
        try:
            row = operator.index(value)
        except TypeError:
            raise InputError(f"{value!r} is not a row number: pass whole numbers from 0 to {n - 1}.") from None
        if not 0 <= row < n:
            raise InputError(f"Row {row} is not in the matrix: rows go from 0 to {n - 1}.")
        checked[row] = None
    return list(checked)


def checked_mask(candidates: Any, n: int) -> Mask | None:
    """The candidates as (n,) bool, or None for every row."""
    if candidates is None:
        return None
    mask = np.asarray(candidates)
    if mask.shape != (n,) or mask.dtype != np.bool_:
        raise InputError(f"candidates has shape {mask.shape} and type {mask.dtype}: pass one bool per row, ({n},).")
    return mask


def checked_count(k: int) -> int:
    """The number of picks, at least one."""
    if k < 1:
        raise InputError(f"k is {k}: ask for at least one row.")
    return k


class _Unusable(Exception):
    """The file does not hold the state of this matrix."""


def save_coverage(coverage: Coverage, path: PathLike) -> None:
    """Write what a coverage knows, 10 bytes a row: row numbers, norms and distances; no label, no group.

    The file is a cache, so that opening a pool again costs no pass. A reader sees the old file or the new one.
    """
    shards = coverage.shards
    parts = shards.each(lambda shard: shard.export())
    state = [column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*parts, strict=True)]
    arrays = [shards.geometry.shift, shards.answers.row_of_slot(), *state]
    sample = shards.vectors(_sampled(len(shards)))
    note = {"version": STATE_VERSION, "matrix": _fingerprint(len(shards), sample), "digest": _digest(arrays)}
    with replacing(Path(path)) as file:
        for array in [np.frombuffer(json.dumps(note).encode(), dtype=np.uint8), *arrays]:
            np.save(file, array)


def restore_coverage(
    path: PathLike, matrix: Stored, answered: Iterable[int] = (), *, threads: int | None = None
) -> Coverage:
    """The coverage of this matrix with exactly these answers: from the file as far as it goes, else computed.

    A file that is missing, cut off, or of another matrix or version is never trusted.
    Answers given since the file was written are added, answers taken back since are removed.
    """
    rows = StoredRows(matrix, threads)
    wanted = checked_rows(answered, len(rows))
    try:
        coverage = _load(Path(path), rows)
    except _Unusable:
        return Coverage(matrix, wanted, threads=threads)
    coverage.set_answered(wanted)
    return coverage


class SharedCoverage:
    """One `Coverage` for all questions of a process: an answer costs one pass over the pool, an undo at most one.

    With a file its state is kept there too, so that another process need not read the matrix for it.
    """

    def __init__(self, matrix: Stored, file: Path | None = None) -> None:
        self._matrix, self._file = matrix, file
        self._coverage: Coverage | None = None
        self._on_file: tuple[int, ...] | None = None
        self._one_at_a_time = threading.Lock()

    def none(self) -> Coverage:
        """Distances over no pool: for work that needs none."""
        return Coverage(self._matrix[:1])

    @contextmanager
    def to(self, answered: Iterable[int]) -> Iterator[Coverage]:
        """The distances to exactly these rows; one at a time."""
        rows = list(answered)
        with self._one_at_a_time:
            coverage = self._coverage = self._coverage or self._opened(rows)
            coverage.set_answered(rows)
            yield coverage
            if self._file is not None and self._on_file != coverage.answered:
                self._save(coverage)

    def _opened(self, rows: list[int]) -> Coverage:
        if self._file is None:
            return Coverage(self._matrix, rows)
        coverage = restore_coverage(self._file, self._matrix, rows)
        self._on_file = coverage.answered if coverage.passes == 0 else None
        return coverage

    def _save(self, coverage: Coverage) -> None:
        assert self._file is not None
        with suppress(OSError):  # a cache that cannot be written is computed again
            save_coverage(coverage, self._file)
            self._on_file = coverage.answered


def _load(path: Path, rows: StoredRows) -> Coverage:
    try:
        with path.open("rb") as file:
            note = json.loads(np.load(file, allow_pickle=False).tobytes())
            if note["version"] != STATE_VERSION or note["matrix"] != _fingerprint(
                len(rows), rows.take(_sampled(len(rows)))
            ):
                raise _Unusable
            arrays = [np.load(file, allow_pickle=False) for _ in range(5)]
    except (OSError, ValueError, EOFError, KeyError, TypeError) as error:
        raise _Unusable from error
    if note["digest"] != _digest(arrays):
        raise _Unusable
    shift, row_of_slot, terms, bounds, slots = arrays
    answers = AnswerSlots(rows.take(np.maximum(row_of_slot, 0)), row_of_slot.tolist())
    shard = Shard(rows, shift, saved=SavedShard(answers.copy(), terms, bounds, slots))
    return Coverage.over(Shards([shard], answers))


def _sampled(n: int) -> Int:
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.int64))


def _fingerprint(n: int, sample: Stored) -> str:
    """Of a matrix's shape, type, and some thousand rows spread evenly over it, the first and the last included."""
    return digest(f"{n} {sample.shape} {sample.dtype.str}", sample)


def _digest(arrays: list[npt.NDArray[Any]]) -> str:
    return digest(*(part for array in arrays for part in (f"{array.shape} {array.dtype.str}", array)))
