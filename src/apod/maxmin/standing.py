"""Where every row of a part stands: how far from its nearest answer, at most, and which answer that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apod.maxmin.bounds import Float32, Float64, Int, Mask, nearest_centre
from apod.maxmin.contest import winner
from apod.maxmin.kernel import Kernel
from apod.maxmin.references import NOBODY, References, Slots


class Standing:
    """6 bytes a row while fewer than 65,535 rows are answered, then 8.

    bounds (n,): upper bound on the squared distance to the nearest answer; -1 = answered, or not a candidate
    slots (n,): slot of that answer. A bound and its slot always speak of the same answer, so that rows whose answer
    is taken back are known.
    """

    def __init__(self, kernel: Kernel, references: References, bounds: Float32, slots: Slots) -> None:
        self.bounds, self.slots = bounds, slots
        self._kernel, self._references = kernel, references

    @staticmethod
    def blank(kernel: Kernel, references: References) -> Standing:
        """Nothing is answered."""
        n = len(kernel.rows)
        bounds = np.full(n, np.inf, dtype=np.float32)
        return Standing(kernel, references, bounds, np.full(n, NOBODY, dtype=np.uint16))

    def copy(self) -> Standing:
        """One to try things on."""
        return Standing(self._kernel, self._references, self.bounds.copy(), self.slots.copy())

    def admit(self, rows: Sequence[int], slots: Int) -> None:
        """Mark rows of this part as answered, and make room for the slots of all."""
        if self._references.capacity > np.iinfo(self.slots.dtype).max:
            self.slots = self.slots.astype(np.uint32)
        own = np.asarray(rows, dtype=np.int64) - self._kernel.start
        here = (own >= 0) & (own < len(self.bounds))
        self.bounds[own[here]], self.slots[own[here]] = -1, slots[here]

    def squares(self, positions: Int) -> Float64:
        """Float64 squared distance of these rows to the answer in their slot."""
        return self._references.squares(self._kernel.rows.take, positions, self.slots)

    def best(self, mask: Mask | None = None) -> tuple[int, float] | None:
        """Row and squared distance of the exact max-min pick among the candidates."""
        known = self._references.slots
        vectors = self._references.vectors(known)

        def exact(positions: Int) -> Float64:
            squares, which = nearest_centre(self._kernel.rows.take(positions), vectors)
            if len(known):
                self.slots[positions] = known[which]
            return squares

        best = winner(self.bounds, exact, self.squares, mask)
        return None if best is None else (best.index + self._kernel.start, best.squared)
