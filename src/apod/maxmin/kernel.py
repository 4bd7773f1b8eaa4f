"""The passes over a matrix: what every row's cached term is, and who is closest to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apod.errors import InputError
from apod.maxmin.bounds import LARGEST_TERM, Centres, Float32, Float64, Geometry, Int
from apod.maxmin.references import Slots
from apod.maxmin.rows import Rows


class Kernel:
    """A matrix with the cached term of each row (4 bytes), relative to one shift."""

    def __init__(self, rows: Rows, shift: Float64, start: int, terms: Float32 | None = None) -> None:
        self.rows, self.start = rows, start
        self.geometry = Geometry(shift)
        self.passes = 0
        self.terms = self._prepared() if terms is None else terms

    def sweep(self, work: Callable[[int, int], None], *, small: bool = False) -> None:
        """One pass: work(start, stop) for blocks that cover all rows, from several threads."""
        self.passes += 1
        self.rows.stream(work, small=small)

    def relax(
        self, block: Float32, terms: Float32, bounds: Float32, slots: Slots, centres: Centres, names: Int
    ) -> None:
        """Lower the bounds of the rows some centre is closer to, and write that centre's name in their slots."""
        if not len(centres):
            return
        if len(centres) == 1:  # an answer at a time: nothing here may cost more than the product
            values = self.geometry.to_one(block, terms, centres)
            slots[np.flatnonzero(values < bounds)] = names[0]
        else:
            values, which = self.geometry.closest(block, terms, centres)
            closer = np.flatnonzero(values < bounds)
            slots[closer] = names[which[closer]]
        np.minimum(bounds, values, out=bounds)

    def _prepared(self) -> Float32:
        terms: Float32 = np.empty(len(self.rows), dtype=np.float32)

        def work(first: int, last: int) -> None:
            terms[first:last] = self.geometry.row_terms(self.rows.block(first, last))
            refuse_unusable(terms[first:last], np.arange(first, last), self.rows, self.start)

        self.sweep(work, small=True)
        return terms


def refuse_unusable(terms: Float32, positions: Int, rows: Rows, start: int = 0) -> None:
    """Raise for the first of these rows that cannot be measured, naming it; start is the row of position 0."""
    usable = terms < LARGEST_TERM  # false for NaN too
    if usable.all():
        return
    bad = positions[np.argmin(usable)]
    what = f"Row {start + bad} of the embeddings"
    if np.isfinite(rows.take(bad[None])).all():
        raise InputError(f"{what} is too large to measure: scale them to norms below 1e17.")
    raise InputError(f"{what} holds a value that is not a finite number: repair or drop it.")
