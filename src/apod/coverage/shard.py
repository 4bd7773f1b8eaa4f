"""One part of a pool with its own state: bounds, nearest answers, and what a coordinator may ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apod.coverage.bounds import Float32, Float64, Geometry, Int, Mask, Stored, nearest_centre, squared_distances
from apod.coverage.contest import winner
from apod.coverage.frontier import Frontier, Plan, Sieve, Watched, stratum
from apod.coverage.kernel import Kernel, Slots
from apod.coverage.references import NOBODY, References
from apod.coverage.rows import Rows

LOT = 1024  # rows gathered at a time where many tie


@dataclass
class State:
    """What is known of every row: 6 bytes each while fewer than 65,535 rows are answered, then 8."""

    bounds: Float32  # (n,) upper bound on the squared distance to the nearest answer; -1 = answered, or no candidate
    slots: Slots  # (n,) slot of that answer

    @staticmethod
    def blank(n: int) -> State:
        """Nothing is answered."""
        return State(np.full(n, np.inf, dtype=np.float32), np.full(n, NOBODY, dtype=np.uint16))

    def copy(self) -> State:
        """A state to try things on."""
        return State(self.bounds.copy(), self.slots.copy())


@dataclass(frozen=True)
class Known:
    """What an earlier life of a part left behind."""

    references: References
    terms: Float32  # (n,)
    state: State


class Shard:
    """Rows start, start + 1, ... of a pool; all row numbers in and out are the pool's.

    It is handed the vectors of answers, wherever they live, and hands back numbers and row ids: a coordinator needs
    nothing else, whether the part lies in the same process or on another machine.
    """

    def __init__(self, rows: Rows, shift: Float64, start: int = 0, known: Known | None = None) -> None:
        """Reads every row once, unless what that would tell is already known."""
        self.start = start
        self._kernel = Kernel(rows, shift, start, known.terms if known else None)
        self._references = known.references if known else References.empty(rows.width, rows.dtype)
        self._state = known.state if known else State.blank(len(rows))
        self._trial: State | None = None

    def __len__(self) -> int:
        return len(self._kernel.rows)

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

    @property
    def passes(self) -> int:
        """How often the part was read."""
        return self._kernel.passes

    def vectors_here(self, rows: Int) -> Stored:
        """The stored vectors of those of these rows that are in this part."""
        return self._kernel.take(rows[(rows >= self.start) & (rows < self.start + len(self))] - self.start)

    def slots(self) -> Slots:
        """(n,) slot of every row's nearest answer."""
        return self._state.slots

    def export(self) -> tuple[Float32, Float32, Slots]:
        """(n,) terms, bounds and slots, to be kept."""
        return self._kernel.terms, self._state.bounds, self._state.slots

    def distances(self) -> Float64:
        """(n,) float64 distance of every row to the answer in its slot, inf where there is none. One pass."""
        result = np.empty(len(self))

        def work(start: int, stop: int) -> None:
            result[start:stop] = np.sqrt(self._to_slot(self._state, np.arange(start, stop)))

        self._kernel.sweep(work)
        return result

    def best(self, mask: Mask | None = None) -> tuple[int, float] | None:
        """Row and squared distance of the exact max-min pick among the candidates; during a trial, the trial's."""
        state = self._state if self._trial is None else self._trial
        known = self._references.slots
        vectors = self._references.vectors(known)

        def exact(positions: Int) -> Float64:
            squares, which = nearest_centre(self._kernel.take(positions), vectors)
            if len(known):
                state.slots[positions] = known[which]  # bound and slot must speak of the same answer
            return squares

        best = winner(state.bounds, exact, lambda positions: self._to_slot(state, positions), mask)
        return None if best is None else (best.index + self.start, best.squared)

    def add(self, rows: Sequence[int], vectors: Stored) -> None:
        """Measure every row against these answers: one pass for all of them."""
        slots, state, kernel = self._references.put(rows, vectors), self._state, self._kernel
        self._admit(state, rows, slots)
        centres = kernel.geometry.centres(vectors)

        def work(start: int, stop: int) -> None:
            here = slice(start, stop)
            block = kernel.rows.block(start, stop)
            kernel.relax(block, kernel.terms[here], state.bounds[here], state.slots[here], centres, slots)

        kernel.sweep(work)

    def remove(self, rows: Sequence[int]) -> None:
        """Take answers back: rows they were nearest to are measured against the rest, the others stay untouched."""
        lost = np.zeros(self._references.capacity, dtype=bool)
        lost[self._references.drop(rows)] = True
        slots, state, kernel = self._references.slots, self._state, self._kernel
        centres = kernel.geometry.centres(self._references.vectors(slots))

        def work(start: int, stop: int) -> None:
            orphans = start + np.flatnonzero(lost[state.slots[start:stop]])
            if len(orphans):
                fresh = State.blank(len(orphans))
                fresh.slots = fresh.slots.astype(state.slots.dtype)
                block = kernel.take(orphans).astype(np.float32, copy=False)
                kernel.relax(block, kernel.terms[orphans], fresh.bounds, fresh.slots, centres, slots)
                state.bounds[orphans], state.slots[orphans] = fresh.bounds, fresh.slots

        kernel.sweep(work)

    def begin(self, mask: Mask | None) -> int:
        """Start a trial in which only these rows are candidates; returns how many there are."""
        self._trial = self._state.copy()
        if mask is not None:
            self._trial.bounds[~mask] = -1
        return int(np.count_nonzero(self._trial.bounds >= 0))

    def end(self, rows: Sequence[int]) -> None:
        """Forget the trial and the picks it was told of."""
        self._trial = None
        self._references.drop([row for row in rows if row in self._references])

    def sample(self, step: int) -> tuple[Stored, Float32]:
        """Vectors and bounds of every step-th candidate of the trial."""
        bounds = self._running().bounds
        kept, seen = [], 0
        for start in range(0, len(self), 1 << 16):
            live = start + np.flatnonzero(bounds[start : start + (1 << 16)] >= 0)
            kept.append(live[(-seen) % step :: step])
            seen += len(live)
        chosen = np.concatenate(kept)
        return self._kernel.take(chosen), bounds[chosen]

    def frontier(self, plan: Plan, size: int, rows: Sequence[int], vectors: Stored) -> Frontier:
        """Add the picks made since the last call, and find the rows to watch under this plan, in one pass."""
        slots, state, kernel = self._references.put(rows, vectors), self._running(), self._kernel
        self._admit(state, rows, slots)
        centres, pivots = kernel.geometry.centres(vectors), kernel.geometry.centres(plan.pivots)
        sieve = Sieve(plan, size)

        def work(start: int, stop: int) -> None:
            live = np.flatnonzero(state.bounds[start:stop] >= plan.floor)
            if len(live) < np.count_nonzero(state.bounds[start:stop] >= 0):
                sieve.below()
            if not len(live):
                return
            index, block = start + live, kernel.rows.block(start, stop)
            block = block if len(live) == len(block) else block[live]
            terms, bounds, nearest = kernel.terms[index], state.bounds[index], state.slots[index]
            kernel.relax(block, terms, bounds, nearest, centres, slots)
            state.bounds[index], state.slots[index] = bounds, nearest
            reach, cell = kernel.geometry.closest(block, terms, pivots)
            strata = stratum(bounds, reach, cell, len(pivots))
            kept = sieve.choose(bounds, reach, strata)
            sieve.keep(
                Watched(
                    kernel.take(index[kept]),
                    index[kept] + self.start,
                    bounds[kept],
                    nearest[kept].astype(np.int64),
                    reach[kept],
                    strata[kept],
                )
            )

        kernel.sweep(work)
        return sieve.result()

    def _running(self) -> State:
        if self._trial is None:
            raise RuntimeError("no trial is under way: call begin() first")
        return self._trial

    def _admit(self, state: State, rows: Sequence[int], slots: Int) -> None:
        """Mark answered rows of this part, and make room for their slots."""
        if self._references.capacity > np.iinfo(state.slots.dtype).max:
            state.slots = state.slots.astype(np.uint32)
        own = np.asarray(rows, dtype=np.int64) - self.start
        here = (own >= 0) & (own < len(self))
        state.bounds[own[here]], state.slots[own[here]] = -1, slots[here]

    def _to_slot(self, state: State, positions: Int) -> Float64:
        """Squared float64 distance of these rows to the answers in their slots."""
        squares = np.empty(len(positions))
        for first in range(0, len(positions), LOT):
            lot = positions[first : first + LOT]
            slots = state.slots[lot].astype(np.int64)
            answers = self._references.vectors(slots).astype(np.float64)
            values = squared_distances(self._kernel.take(lot).astype(np.float64), answers)
            squares[first : first + LOT] = np.where(slots == NOBODY, np.inf, values)
        return squares
