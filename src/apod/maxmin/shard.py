"""One part of a pool, and what a coordinator may ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apod.maxmin.bounds import Float32, Float64, Geometry, Int, Mask, Stored
from apod.maxmin.kernel import Kernel
from apod.maxmin.references import NOBODY, References, Slots
from apod.maxmin.rows import Rows
from apod.maxmin.standing import Standing
from apod.maxmin.trial import Trial


@dataclass(frozen=True)
class Known:
    """What an earlier life of a part left behind."""

    references: References
    terms: Float32  # (n,)
    bounds: Float32  # (n,)
    slots: Slots  # (n,)


class Shard:
    """Rows start, start + 1, ... of a pool; all row numbers in and out are the pool's.

    It is handed the vectors of answers, wherever they live, and hands back numbers and row ids: a coordinator needs
    nothing else, whether the part lies in the same process or on another machine.
    """

    def __init__(self, rows: Rows, shift: Float64, start: int = 0, known: Known | None = None) -> None:
        """Reads every row once, unless what that would tell is already known."""
        self._kernel = Kernel(rows, shift, start, known.terms if known else None)
        self._references = known.references if known else References.empty(rows.width, rows.dtype)
        self._standing = (
            Standing(self._kernel, known.references, known.bounds, known.slots)
            if known
            else Standing.blank(self._kernel, self._references)
        )
        self._trial: Trial | None = None

    def __len__(self) -> int:
        return len(self._kernel.rows)

    @property
    def start(self) -> int:
        """The pool's number of its first row."""
        return self._kernel.start

    @property
    def geometry(self) -> Geometry:
        """How its bounds are computed."""
        return self._kernel.geometry

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return self._kernel.rows.width

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """How the matrix is stored."""
        return self._kernel.rows.dtype

    def passes(self) -> int:
        """How often the part was read."""
        return self._kernel.passes

    def vectors_here(self, rows: Int) -> Stored:
        """The stored vectors of those of these rows that are in this part."""
        return self._kernel.rows.take(rows[(rows >= self.start) & (rows < self.start + len(self))] - self.start)

    def slots(self) -> Slots:
        """(n,) slot of every row's nearest answer."""
        return self._standing.slots

    def export(self) -> tuple[Float32, Float32, Slots]:
        """(n,) terms, bounds and slots, to be kept."""
        return self._kernel.terms, self._standing.bounds, self._standing.slots

    def distances(self) -> Float64:
        """(n,) float64 distance of every row to the answer in its slot, inf where there is none. One pass."""
        result = np.empty(len(self))

        def work(start: int, stop: int) -> None:
            result[start:stop] = np.sqrt(self._standing.squares(np.arange(start, stop)))

        self._kernel.sweep(work, small=True)
        return result

    def best(self, mask: Mask | None = None) -> tuple[int, float] | None:
        """Row and squared distance of the exact max-min pick among the candidates."""
        return self._standing.best(mask)

    def add(self, rows: Sequence[int], vectors: Stored) -> None:
        """Measure every row against these answers: one pass for all of them."""
        self._measure(rows, vectors, self._references.put(rows, vectors))

    def take_up(self, references: References) -> None:
        """Go on with these answers as if the part had been told of them one by one: one pass for all of them."""
        self._trial, self._references = None, references
        self._standing = Standing.blank(self._kernel, references)
        slots = references.slots
        if len(slots):
            self._measure(references.row_of_slot()[slots].tolist(), references.vectors(slots), slots)

    def _measure(self, rows: Sequence[int], vectors: Stored, slots: Int) -> None:
        standing, kernel = self._standing, self._kernel
        standing.admit(rows, slots)
        centres = kernel.geometry.centres(vectors)

        def work(start: int, stop: int) -> None:
            here = slice(start, stop)
            block = kernel.rows.block(start, stop)
            kernel.relax(block, kernel.terms[here], standing.bounds[here], standing.slots[here], centres, slots)

        kernel.sweep(work, small=len(rows) > 1)

    def remove(self, rows: Sequence[int]) -> None:
        """Take answers back: rows they were nearest to are measured against the rest, the others stay untouched."""
        lost = np.zeros(self._references.capacity, dtype=bool)
        lost[self._references.drop(rows)] = True
        names, standing, kernel = self._references.slots, self._standing, self._kernel
        centres = kernel.geometry.centres(self._references.vectors(names))

        def work(start: int, stop: int) -> None:
            orphans = start + np.flatnonzero(lost[standing.slots[start:stop]])
            if len(orphans):
                bounds = np.full(len(orphans), np.inf, dtype=np.float32)
                slots = np.full(len(orphans), NOBODY, dtype=standing.slots.dtype)
                block = kernel.rows.take(orphans).astype(np.float32, copy=False)
                kernel.relax(block, kernel.terms[orphans], bounds, slots, centres, names)
                standing.bounds[orphans], standing.slots[orphans] = bounds, slots

        kernel.sweep(work, small=True)

    def begin(self, mask: Mask | None) -> int:
        """Start a batch in which only these rows are candidates; returns how many there are."""
        self._trial = Trial(self._kernel, self._references, self._standing.copy(), mask)
        return self._trial.candidates

    @property
    def trial(self) -> Trial:
        """The batch under way."""
        if self._trial is None:
            raise RuntimeError("no batch is under way: call begin() first")
        return self._trial

    def end(self, rows: Sequence[int]) -> None:
        """Forget the batch and the picks it was told of."""
        self._trial = None
        self._references.drop([row for row in rows if row in self._references])
