"""A batch of max-min picks from few passes: watch the rows the picks should come from, decide each pick exactly."""

from __future__ import annotations

import math

import numpy as np

from apod.data.arrays import Stored
from apod.maxmin.geometry import (
    Farthest,
    Float32,
    Float64,
    Geometry,
    Int,
    Mask,
    exact_farthest,
    nearest_centre,
    squared_distances,
)
from apod.maxmin.nearest import AnswerSlots
from apod.maxmin.shard import Shards, best_of
from apod.maxmin.watchlist import BANDS, PREDICTED, Watchlist, WatchPlan, plan_watch
from apod.processes import blas_on_one_thread

FEWEST_AHEAD = 8  # picks to predict after a pass that yielded almost none


def pick_batch(shards: Shards, mask: Mask | None, k: int) -> list[Farthest]:
    """The k next max-min picks among the candidates, exactly, from few passes; fewer when the candidates run out."""
    with blas_on_one_thread:
        left = sum(shards.each(lambda shard: shard.begin(shards.part(mask, shard))))
        batch = _Batch(shards, left)
        try:
            return batch.run(min(k, left))
        finally:
            batch.close()


class _ActiveWatchlist:
    """The watchlist while picks are made: watched rows up to date, an upper limit for all the others."""

    def __init__(self, watchlist: Watchlist, geometry: Geometry, pivots: Stored) -> None:
        self._geometry = geometry
        self._rows = watchlist.watched.writable()
        self._block = self._rows.vectors.astype(np.float32, copy=False)
        self._terms = geometry.row_terms(self._block)
        self._pivots = pivots.astype(np.float64)
        self._highest = watchlist.highest.copy()  # (strata,)
        self._reach = np.sqrt(watchlist.reach[:-1])  # of the last stratum no pivot is near
        self._beneath = watchlist.beneath

    def extremes(self, most: int) -> tuple[Stored, Float32]:
        """Vectors of the watched rows with the highest bounds, and these, squared."""
        top = np.argsort(-self._rows.bounds)[:most]
        return self._rows.vectors[top], self._rows.bounds[top]

    def best(self, answers: AnswerSlots) -> Farthest | None:
        """The next pick of the whole pool (index = row); None if the watched rows cannot tell."""
        known = answers.slots
        vectors = answers.vectors(known)

        def exact(positions: Int) -> Float64:
            squares, which = nearest_centre(self._rows.vectors[positions], vectors)
            self._rows.slots[positions] = known[which]
            return squares

        def upper(positions: Int) -> Float64:
            return answers.squares(self._rows.vectors.__getitem__, positions, self._rows.slots)

        found = exact_farthest(self._rows.bounds, exact, upper)
        limit = max(float(self._highest.max()), self._beneath)
        if found is None or (limit >= 0 and found.distance <= math.sqrt(limit)):
            return None
        return Farthest(int(self._rows.rows[found.index]), found.squared)

    def mark_answered(self, row: int, vector: Stored, slot: int) -> None:
        """Count this row as answered."""
        values, _ = self._geometry.closest(self._block, self._terms, self._geometry.centres(vector[None]))
        closer = values < self._rows.bounds
        self._rows.bounds[closer], self._rows.slots[closer] = values[closer], slot
        self._rows.bounds[np.searchsorted(self._rows.rows, row)] = -1
        apart = np.sqrt(squared_distances(self._pivots, vector.astype(np.float64)))  # (p,)
        within = (self._reach + np.repeat(apart, len(BANDS))) ** 2 * (1 + 1e-9)
        self._highest[:-1] = np.minimum(self._highest[:-1], within)


class _Batch:
    """The picks of a batch while it is made: known to the coordinator at once, to the parts at each pass."""

    def __init__(self, shards: Shards, candidates: int) -> None:
        self._shards = shards
        self._candidates = candidates
        self._watched, self._sampled = shards.sizes.of_batch(shards.width, shards.dtype.itemsize)
        self._picks: list[Farthest] = []
        self._sent = 0  # picks the parts know of
        self._watch: _ActiveWatchlist | None = None

    def run(self, k: int) -> list[Farthest]:
        if k and not len(self._shards.answers):
            self._accept(best_of(self._shards.each(lambda shard: shard.batch.best())))
        ahead = PREDICTED
        while len(self._picks) < k:
            before = len(self._picks)
            watch = self._watch = self._look(min(k - before, ahead))
            while len(self._picks) < k and (best := watch.best(self._shards.answers)) is not None:
                self._accept(best)
                watch.mark_answered(best.index, *self._shards.answers.find(best.index))
            if len(self._picks) == before:  # many tie, or a stratum was predicted wrong: ask every part
                self._watch = None
                self._accept(best_of(self._shards.each(lambda shard: shard.batch.best())))
            ahead = max(FEWEST_AHEAD, 4 * (len(self._picks) - before))
        return self._picks

    def close(self) -> None:
        self._shards.answers.drop([pick.index for pick in self._picks])
        sent = [pick.index for pick in self._picks[: self._sent]]
        self._shards.each(lambda shard: shard.end(sent))

    def _look(self, picks: int) -> _ActiveWatchlist:
        """One pass: send the new picks to the parts, and watch the rows the next picks should come from."""
        shards, left = self._shards, self._candidates - len(self._picks)
        plan = self._plan(picks, self._watched / left)
        fresh = [pick.index for pick in self._picks[self._sent :]]
        vectors = shards.answers.vectors(shards.answers.slots_of(fresh))
        found = shards.each(lambda shard: shard.batch.watch(plan, self._watched, fresh, vectors))
        self._sent = len(self._picks)
        return _ActiveWatchlist(Watchlist.joined(found), shards.geometry, plan.pivots)

    def _plan(self, picks: int, room: float) -> WatchPlan:
        """A plan from a sample of the candidates, brought up to date with all picks, and the rows watched last."""
        shards, step = self._shards, max(1, -(-self._candidates // self._sampled))
        samples = shards.each(lambda shard: shard.batch.sample(step))
        sample, bounds = (np.concatenate(parts) for parts in zip(*samples, strict=True))
        block = sample.astype(np.float32, copy=False)
        made = shards.answers.vectors(shards.answers.slots_of([pick.index for pick in self._picks]))
        closest, _ = shards.geometry.closest(block, shards.geometry.row_terms(block), shards.geometry.centres(made))
        extremes, theirs = self._watch.extremes(self._sampled) if self._watch else (sample[:0], bounds[:0])
        self._watch = None  # its memory is needed for the next
        bounds = np.concatenate([np.minimum(bounds, closest), theirs])
        return plan_watch(shards.geometry, sample, extremes, bounds, picks, room)

    def _accept(self, pick: Farthest | None) -> None:
        if pick is None:
            raise RuntimeError("candidates ran out before their count did")
        self._picks.append(pick)
        self._shards.answers.put([pick.index], self._shards.vectors([pick.index]))
