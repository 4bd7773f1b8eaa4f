"""The distances of a campaign's pool to its answered rows, kept from question to question."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from apod.data.blocks import is_large
from apod.maxmin import Coverage, restore_coverage, save_coverage


class Distances:
    """One `Coverage` for all questions of a process: an answer costs one pass over the pool, an undo at most one.

    Of a large pool the state is kept in a file too, so that another process need not read the matrix for it. That file
    is a cache: without it, or where it is not of this pool, everything is computed anew.
    """

    def __init__(self, embeddings: npt.NDArray[np.floating], file: Path) -> None:
        self._embeddings = embeddings
        self._file = file if is_large(len(embeddings)) else None
        self._coverage: Coverage | None = None
        self._on_file: tuple[int, ...] | None = None
        self._one_at_a_time = threading.Lock()

    def none(self) -> Coverage:
        """Distances over no pool: for work that needs none."""
        return Coverage(self._embeddings[:1])

    @contextmanager
    def to(self, answered: Iterable[int]) -> Iterator[Coverage]:
        """The distances to exactly these rows; one at a time."""
        rows = list(answered)
        with self._one_at_a_time:
            coverage = self._coverage = self._coverage or self._opened(rows)
            kept = set(rows)
            coverage.remove([row for row in coverage.answered if row not in kept])
            coverage.add(rows)
            yield coverage
            if self._file is not None and self._on_file != coverage.answered:
                self._save(coverage)

    def _opened(self, rows: list[int]) -> Coverage:
        if self._file is None:
            return Coverage(self._embeddings, rows)
        coverage = restore_coverage(self._file, self._embeddings, rows)
        self._on_file = coverage.answered if coverage.passes == 0 else None
        return coverage

    def _save(self, coverage: Coverage) -> None:
        assert self._file is not None
        with suppress(OSError):  # a cache that cannot be written is computed again
            save_coverage(coverage, self._file)
            self._on_file = coverage.answered
