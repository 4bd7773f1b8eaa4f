"""A batch within one part: a standing of its own, to which the picks of the batch are added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apod.maxmin.bounds import Centres, Float32, Int, Mask, Stored
from apod.maxmin.frontier import Frontier, Plan, Sieve, Watched, stratum
from apod.maxmin.kernel import Kernel
from apod.maxmin.references import References, Slots
from apod.maxmin.standing import Standing

LOOK = 1 << 16  # rows whose standing is looked at at a time


class Trial:
    """Candidates of a batch in one part. Rows under a plan's floor are passed over, and caught up on when it sinks."""

    def __init__(self, kernel: Kernel, references: References, standing: Standing, mask: Mask | None) -> None:
        self._kernel, self._references, self._standing = kernel, references, standing
        self._given: list[tuple[np.float32 | None, Centres, Int]] = []  # picks, and from which bound on rows saw them
        self.candidates = 0
        for start in range(0, len(standing.bounds), LOOK):
            bounds = standing.bounds[start : start + LOOK]
            if mask is not None:
                bounds[~mask[start : start + LOOK]] = -1
            self.candidates += int(np.count_nonzero(bounds >= 0))

    def best(self) -> tuple[int, float] | None:
        """Row and squared distance of the exact next pick."""
        return self._standing.best()

    def sample(self, step: int) -> tuple[Stored, Float32]:
        """Vectors and bounds of every step-th candidate."""
        kept, seen = [], 0
        for start in range(0, len(self._standing.bounds), LOOK):
            live = start + np.flatnonzero(self._standing.bounds[start : start + LOOK] >= 0)
            kept.append(live[(-seen) % step :: step])
            seen += len(live)
        chosen = np.concatenate(kept)
        return self._kernel.rows.take(chosen), self._standing.bounds[chosen]

    def frontier(self, plan: Plan, size: int, rows: Sequence[int], vectors: Stored) -> Frontier:
        """Add the picks made since the last call, and find the rows to watch under this plan, in one pass."""
        slots = self._references.put(rows, vectors)
        self._standing.admit(rows, slots)
        self._given.append((None, self._kernel.geometry.centres(vectors), slots))
        pivots = self._kernel.geometry.centres(plan.pivots)
        sieve = Sieve(plan, size)

        def work(start: int, stop: int) -> None:
            bounds = self._standing.bounds[start:stop]
            live = np.flatnonzero(bounds >= plan.floor)
            if len(live) < np.count_nonzero(bounds >= 0):
                sieve.below()
            if len(live):
                block = self._kernel.rows.block(start, stop)
                self._watch(start + live, block if len(live) == len(block) else block[live], pivots, sieve)

        self._kernel.sweep(work, small=True)
        self._given = [
            (plan.floor if floor is None else min(floor, plan.floor), centres, names)
            for floor, centres, names in self._given
        ]
        return sieve.result()

    def _watch(self, index: Int, block: Float32, pivots: Centres, sieve: Sieve) -> None:
        """Bring these rows up to date, and hand the sieve those worth watching."""
        terms = self._kernel.terms[index]
        bounds, slots = self._standing.bounds[index], self._standing.slots[index]
        self._catch_up(block, terms, bounds, slots)
        self._standing.bounds[index], self._standing.slots[index] = bounds, slots
        reach, cell = self._kernel.geometry.closest(block, terms, pivots)
        strata = stratum(bounds, reach, cell, len(pivots))
        kept = sieve.choose(bounds, reach, strata)
        own, nearest = index[kept], slots[kept].astype(np.int64)
        vectors = self._kernel.rows.take(own)
        sieve.keep(Watched(vectors, own + self._kernel.start, bounds[kept], nearest, reach[kept], strata[kept]))

    def _catch_up(self, block: Float32, terms: Float32, bounds: Float32, slots: Slots) -> None:
        """Give each row the picks it has not seen: a bound only falls, so one below a floor was passed over."""
        for floor, centres, names in self._given:
            late = np.arange(len(bounds)) if floor is None else np.flatnonzero(bounds < floor)
            if len(late) == len(bounds):
                self._kernel.relax(block, terms, bounds, slots, centres, names)
            elif len(late):
                their_bounds, their_slots = bounds[late], slots[late]
                self._kernel.relax(block[late], terms[late], their_bounds, their_slots, centres, names)
                bounds[late], slots[late] = their_bounds, their_slots
