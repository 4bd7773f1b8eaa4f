"""The parts of a pool: what a coordinator may ask of each, and all of them as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from apod.data.arrays import MatrixParts, Stored
from apod.maxmin.geometry import Centres, Farthest, Float32, Float64, Geometry, Int, Mask
from apod.maxmin.nearest import DEFAULT_SIZES, NOBODY, AnswerSlots, NearestAnswers, NormedRows, Sizes, Slots, StoredRows
from apod.maxmin.watchlist import WatchedRows, Watchlist, WatchlistBuilder, WatchPlan, stratum

LOOK = 1 << 16  # rows whose bounds are looked at at a time

T = TypeVar("T")


class ShardBatch:
    """A batch within one part: nearest answers of its own, to which the picks of the batch are added.

    Rows under a plan's floor are passed over, and caught up on when it sinks.
    """

    def __init__(self, rows: NormedRows, answers: AnswerSlots, nearest: NearestAnswers, mask: Mask | None) -> None:
        self._rows, self._answers, self._nearest = rows, answers, nearest
        self._given: list[tuple[np.float32 | None, Centres, Int]] = []  # picks, and from which bound on rows saw them
        self.candidates = 0
        for start in range(0, len(nearest.bounds), LOOK):
            bounds = nearest.bounds[start : start + LOOK]
            if mask is not None:
                bounds[~mask[start : start + LOOK]] = -1
            self.candidates += int(np.count_nonzero(bounds >= 0))

    def best(self) -> tuple[int, float] | None:
        """Row and squared distance of the exact next pick."""
        return self._nearest.best()

    def sample(self, step: int) -> tuple[Stored, Float32]:
        """Vectors and bounds of every step-th candidate."""
        kept, seen = [], 0
        for start in range(0, len(self._nearest.bounds), LOOK):
            live = start + np.flatnonzero(self._nearest.bounds[start : start + LOOK] >= 0)
            kept.append(live[(-seen) % step :: step])
            seen += len(live)
        chosen = np.concatenate(kept)
        return self._rows.stored.take(chosen), self._nearest.bounds[chosen]

    def watch(self, plan: WatchPlan, size: int, rows: Sequence[int], vectors: Stored) -> Watchlist:
        """Add the picks made since the last call, and find the rows to watch under this plan, in one pass."""
        slots = self._answers.put(rows, vectors)
        self._nearest.mark_answered(rows, slots)
        self._given.append((None, self._rows.geometry.centres(vectors), slots))
        pivots = self._rows.geometry.centres(plan.pivots)
        builder = WatchlistBuilder(plan, size)

        def work(start: int, stop: int) -> None:
            bounds = self._nearest.bounds[start:stop]
            live = np.flatnonzero(bounds >= plan.floor)
            if len(live) < np.count_nonzero(bounds >= 0):
                builder.below()
            if len(live):
                block = self._rows.stored.block(start, stop)
                self._sort(start + live, block if len(live) == len(block) else block[live], pivots, builder)

        self._rows.sweep(work, small=True)
        self._given = [
            (plan.floor if floor is None else min(floor, plan.floor), centres, names)
            for floor, centres, names in self._given
        ]
        return builder.result()

    def _sort(self, index: Int, block: Float32, pivots: Centres, builder: WatchlistBuilder) -> None:
        """Bring these rows up to date, and keep those worth watching."""
        terms = self._rows.terms[index]
        bounds, slots = self._nearest.bounds[index], self._nearest.slots[index]
        self._catch_up(block, terms, bounds, slots)
        self._nearest.bounds[index], self._nearest.slots[index] = bounds, slots
        reach, cell = self._rows.geometry.closest(block, terms, pivots)
        strata = stratum(bounds, reach, cell, len(pivots))
        kept = builder.choose(bounds, reach, strata)
        own, nearest = index[kept], slots[kept].astype(np.int64)
        vectors = self._rows.stored.take(own)
        builder.keep(WatchedRows(vectors, own + self._rows.start, bounds[kept], nearest, reach[kept], strata[kept]))

    def _catch_up(self, block: Float32, terms: Float32, bounds: Float32, slots: Slots) -> None:
        """Give each row the picks it has not seen: a bound only falls, so one below a floor was passed over."""
        for floor, centres, names in self._given:
            late = np.arange(len(bounds)) if floor is None else np.flatnonzero(bounds < floor)
            if len(late) == len(bounds):
                self._rows.relax(block, terms, bounds, slots, centres, names)
            elif len(late):
                their_bounds, their_slots = bounds[late], slots[late]
                self._rows.relax(block[late], terms[late], their_bounds, their_slots, centres, names)
                bounds[late], slots[late] = their_bounds, their_slots


@dataclass(frozen=True)
class SavedShard:
    """What was saved of a part."""

    answers: AnswerSlots
    terms: Float32  # (n,)
    bounds: Float32  # (n,)
    slots: Slots  # (n,)


class Shard:
    """Rows start, start + 1, ... of a pool; all row numbers in and out are the pool's.

    It takes the vectors of answers, wherever they live, and returns numbers and row ids: a coordinator needs
    nothing else, whether the part lies in the same process or on another machine.
    """

    def __init__(self, rows: StoredRows, shift: Float64, start: int = 0, saved: SavedShard | None = None) -> None:
        """Reads every row once, unless what that would give was saved."""
        self._rows = NormedRows(rows, shift, start, saved.terms if saved else None)
        self._answers = saved.answers if saved else AnswerSlots.empty(rows.width, rows.dtype)
        self._nearest = (
            NearestAnswers(self._rows, saved.answers, saved.bounds, saved.slots)
            if saved
            else NearestAnswers.blank(self._rows, self._answers)
        )
        self._batch: ShardBatch | None = None

    def __len__(self) -> int:
        return len(self._rows.stored)

    @property
    def start(self) -> int:
        """The pool's number of its first row."""
        return self._rows.start

    @property
    def geometry(self) -> Geometry:
        """How its bounds are computed."""
        return self._rows.geometry

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return self._rows.stored.width

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """How the matrix is stored."""
        return self._rows.stored.dtype

    def passes(self) -> int:
        """How often the part was read."""
        return self._rows.passes

    def vectors_here(self, rows: Int) -> Stored:
        """The stored vectors of those of these rows that are in this part."""
        return self._rows.stored.take(rows[(rows >= self.start) & (rows < self.start + len(self))] - self.start)

    def slots(self) -> Slots:
        """(n,) slot of every row's nearest answer."""
        return self._nearest.slots

    def export(self) -> tuple[Float32, Float32, Slots]:
        """(n,) terms, bounds and slots, to be kept."""
        return self._rows.terms, self._nearest.bounds, self._nearest.slots

    def distances(self) -> Float64:
        """(n,) float64 distance of every row to the answer in its slot, inf where there is none. One pass."""
        result = np.empty(len(self))

        def work(start: int, stop: int) -> None:
            result[start:stop] = np.sqrt(self._nearest.squares(np.arange(start, stop)))

        self._rows.sweep(work, small=True)
        return result

    def best(self, mask: Mask | None = None) -> tuple[int, float] | None:
        """Row and squared distance of the exact max-min pick among the candidates."""
        return self._nearest.best(mask)

    def add(self, rows: Sequence[int], vectors: Stored) -> None:
        """Measure every row against these answers: one pass for all of them."""
        self._measure(rows, vectors, self._answers.put(rows, vectors))

    def restart(self, answers: AnswerSlots) -> None:
        """Continue with these answers as if they had been added one by one: one pass for all of them."""
        self._batch, self._answers = None, answers
        self._nearest = NearestAnswers.blank(self._rows, answers)
        slots = answers.slots
        if len(slots):
            self._measure(answers.row_of_slot()[slots].tolist(), answers.vectors(slots), slots)

    def _measure(self, rows: Sequence[int], vectors: Stored, slots: Int) -> None:
        nearest, own = self._nearest, self._rows
        nearest.mark_answered(rows, slots)
        centres = own.geometry.centres(vectors)

        def work(start: int, stop: int) -> None:
            here = slice(start, stop)
            block = own.stored.block(start, stop)
            own.relax(block, own.terms[here], nearest.bounds[here], nearest.slots[here], centres, slots)

        own.sweep(work, small=len(rows) > 1)

    def remove(self, rows: Sequence[int]) -> None:
        """Take answers back: rows they were nearest to are measured against the rest, the others stay untouched."""
        lost = np.zeros(self._answers.capacity, dtype=bool)
        lost[self._answers.drop(rows)] = True
        names, nearest, own = self._answers.slots, self._nearest, self._rows
        centres = own.geometry.centres(self._answers.vectors(names))

        def work(start: int, stop: int) -> None:
            orphans = start + np.flatnonzero(lost[nearest.slots[start:stop]])
            if len(orphans):
                bounds = np.full(len(orphans), np.inf, dtype=np.float32)
                slots = np.full(len(orphans), NOBODY, dtype=nearest.slots.dtype)
                block = own.stored.take(orphans).astype(np.float32, copy=False)
                own.relax(block, own.terms[orphans], bounds, slots, centres, names)
                nearest.bounds[orphans], nearest.slots[orphans] = bounds, slots

        own.sweep(work, small=True)

    def begin(self, mask: Mask | None) -> int:
        """Start a batch in which only these rows are candidates; returns how many there are."""
        self._batch = ShardBatch(self._rows, self._answers, self._nearest.copy(), mask)
        return self._batch.candidates

    @property
    def batch(self) -> ShardBatch:
        """The batch under way."""
        if self._batch is None:
            raise RuntimeError("no batch is under way: call begin() first")
        return self._batch

    def end(self, rows: Sequence[int]) -> None:
        """Forget the batch and those of its picks that were added."""
        self._batch = None
        self._answers.drop([row for row in rows if row in self._answers])


class Shards:
    """A pool in one or many parts, which follow each other without gaps and share one shift, and its answers.

    `each` is the only way anything reaches the parts: where they live elsewhere, that one method is another.
    """

    @classmethod
    def of(cls, parts: MatrixParts, threads: int | None = None) -> Shards:
        """The parts of a matrix in files, one after the other on this machine."""
        rows = [StoredRows(part.open(), threads) for part in parts.parts]
        shift = np.average([one.middle() for one in rows], axis=0, weights=[len(one) for one in rows])
        return cls([Shard(one, shift, part.start) for one, part in zip(rows, parts.parts, strict=True)])

    def __init__(
        self, shards: Sequence[Shard], answers: AnswerSlots | None = None, sizes: Sizes = DEFAULT_SIZES
    ) -> None:
        self._shards = list(shards)
        self.starts = [shard.start for shard in shards]
        self.ends = [shard.start + len(shard) for shard in shards]
        self.geometry: Geometry = shards[0].geometry
        self.width, self.dtype = shards[0].width, shards[0].dtype
        self.sizes = sizes
        self.answers = AnswerSlots.empty(self.width, self.dtype) if answers is None else answers

    def __len__(self) -> int:
        return self.ends[-1]

    def each(self, ask: Callable[[Shard], T]) -> list[T]:
        """What every part answers, in their order."""
        return [ask(shard) for shard in self._shards]

    @staticmethod
    def part(mask: Mask | None, shard: Shard) -> Mask | None:
        """A shard's part of a mask over the pool."""
        return None if mask is None else mask[shard.start : shard.start + len(shard)]

    def vectors(self, rows: Sequence[int] | Int) -> Stored:
        """(len(rows), d) stored vectors of these rows, from the parts that hold them."""
        wanted = np.asarray(rows, dtype=np.int64)
        result: Stored = np.empty((len(wanted), self.width), dtype=self.dtype)
        for start, end, found in zip(
            self.starts, self.ends, self.each(lambda shard: shard.vectors_here(wanted)), strict=True
        ):
            result[(wanted >= start) & (wanted < end)] = found
        return result

    def best(self, mask: Mask | None) -> Farthest | None:
        """The exact max-min pick among the candidates; ties to the lowest row."""
        return best_of(self.each(lambda shard: shard.best(self.part(mask, shard))))

    def add(self, rows: Sequence[int]) -> None:
        """Count these rows as answered."""
        vectors = self.vectors(rows)
        self.answers.put(rows, vectors)
        self.each(lambda shard: shard.add(rows, vectors))

    def remove(self, rows: Sequence[int]) -> None:
        """Take these answers back."""
        self.answers.drop(rows)
        self.each(lambda shard: shard.remove(rows))


def best_of(found: list[tuple[int, float] | None]) -> Farthest | None:
    """The farthest of what the parts found, row and squared distance; ties to the lowest row."""
    best: Farthest | None = None
    for one in found:
        if one is not None and (best is None or best.nearer_than(Farthest(*one))):
            best = Farthest(*one)
    return best
