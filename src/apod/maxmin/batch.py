"""A batch of max-min picks from few passes: watch the rows the picks should come from, settle each pick exactly."""

from __future__ import annotations

import math

import numpy as np

from apod.maxmin.bounds import Float32, Float64, Geometry, Int, Mask, Stored, nearest_centre, squared_distances
from apod.maxmin.contest import Winner, winner
from apod.maxmin.foretell import FORETOLD, foretell
from apod.maxmin.frontier import BANDS, Frontier, Plan
from apod.maxmin.pool import Pool, best_of
from apod.maxmin.references import References
from apod.maxmin.threads import blas_on_one_thread

WATCHED_BYTES = 10 << 20  # of vectors under watch
SAMPLED_BYTES = 6 << 20  # of vectors to foretell on, and of watched ones that join them
FEWEST_AHEAD = 8  # picks to foretell after a pass that yielded almost none


def sizes(width: int, itemsize: int) -> tuple[int, int]:
    """How many rows to watch, and how many to sample."""
    row = width * max(4, itemsize)
    return max(256, WATCHED_BYTES // row), max(256, SAMPLED_BYTES // row)


def pick_batch(pool: Pool, mask: Mask | None, k: int) -> list[Winner]:
    """The k next max-min picks among the candidates, exactly, from few passes; fewer when the candidates run out."""
    with blas_on_one_thread:
        left = sum(pool.each(lambda shard: shard.begin(pool.part(mask, shard))))
        batch = _Batch(pool, left)
        try:
            return batch.run(min(k, left))
        finally:
            batch.close()


class _Watch:
    """The frontier while picks are made: watched rows up to date, an upper limit for all the others."""

    def __init__(self, frontier: Frontier, geometry: Geometry, pivots: Stored) -> None:
        self._geometry = geometry
        self._rows = frontier.watched.writable()
        self._block = self._rows.vectors.astype(np.float32, copy=False)
        self._terms = geometry.row_terms(self._block)
        self._pivots = pivots.astype(np.float64)
        self._highest = frontier.highest.copy()  # (strata,)
        self._reach = np.sqrt(frontier.reach[:-1])  # of the last stratum no pivot is near
        self._beneath = frontier.beneath

    def extremes(self, most: int) -> tuple[Stored, Float32]:
        """Vectors of the watched rows with the highest bounds, and these, squared."""
        top = np.argsort(-self._rows.bounds)[:most]
        return self._rows.vectors[top], self._rows.bounds[top]

    def best(self, references: References) -> Winner | None:
        """The next pick of the whole pool (index = row); None if the watched rows cannot tell."""
        known = references.slots
        vectors = references.vectors(known)

        def exact(positions: Int) -> Float64:
            squares, which = nearest_centre(self._rows.vectors[positions], vectors)
            self._rows.slots[positions] = known[which]
            return squares

        def upper(positions: Int) -> Float64:
            return references.squares(self._rows.vectors.__getitem__, positions, self._rows.slots)

        found = winner(self._rows.bounds, exact, upper)
        limit = max(float(self._highest.max()), self._beneath)
        if found is None or (limit >= 0 and found.distance <= math.sqrt(limit)):
            return None
        return Winner(int(self._rows.rows[found.index]), found.squared)

    def settle(self, row: int, vector: Stored, slot: int) -> None:
        """Count this row as answered."""
        values, _ = self._geometry.closest(self._block, self._terms, self._geometry.centres(vector[None]))
        closer = values < self._rows.bounds
        self._rows.bounds[closer], self._rows.slots[closer] = values[closer], slot
        self._rows.bounds[np.searchsorted(self._rows.rows, row)] = -1
        apart = np.sqrt(squared_distances(self._pivots, vector.astype(np.float64)))  # (p,)
        within = (self._reach + np.repeat(apart, len(BANDS))) ** 2 * (1 + 1e-9)
        self._highest[:-1] = np.minimum(self._highest[:-1], within)


class _Batch:
    """The picks of a batch while it is made: in the coordinator's references at once, in the parts' at each pass."""

    def __init__(self, pool: Pool, candidates: int) -> None:
        self._pool = pool
        self._candidates = candidates
        self._watched, self._sampled = sizes(pool.width, pool.dtype.itemsize)
        self._picks: list[Winner] = []
        self._told = 0  # picks the parts know of
        self._watch: _Watch | None = None

    def run(self, k: int) -> list[Winner]:
        if k and not len(self._pool.references):
            self._accept(best_of(self._pool.each(lambda shard: shard.trial.best())))
        ahead = FORETOLD
        while len(self._picks) < k:
            before = len(self._picks)
            watch = self._watch = self._look(min(k - before, ahead))
            while len(self._picks) < k and (best := watch.best(self._pool.references)) is not None:
                self._accept(best)
                watch.settle(best.index, *self._pool.references.find(best.index))
            if len(self._picks) == before:  # many tie, or a stratum was foretold wrong: ask every part
                self._watch = None
                self._accept(best_of(self._pool.each(lambda shard: shard.trial.best())))
            ahead = max(FEWEST_AHEAD, 4 * (len(self._picks) - before))
        return self._picks

    def close(self) -> None:
        self._pool.references.drop([pick.index for pick in self._picks])
        told = [pick.index for pick in self._picks[: self._told]]
        self._pool.each(lambda shard: shard.end(told))

    def _look(self, picks: int) -> _Watch:
        """One pass: tell the parts of the new picks, and watch the rows the next picks should come from."""
        pool, left = self._pool, self._candidates - len(self._picks)
        plan = self._plan(picks, self._watched / left)
        fresh = [pick.index for pick in self._picks[self._told :]]
        vectors = pool.references.vectors(pool.references.slots_of(fresh))
        frontiers = pool.each(lambda shard: shard.trial.frontier(plan, self._watched, fresh, vectors))
        self._told = len(self._picks)
        return _Watch(Frontier.joined(frontiers), pool.geometry, plan.pivots)

    def _plan(self, picks: int, room: float) -> Plan:
        """A plan from a sample of the candidates, brought up to date with all picks, and the rows watched last."""
        pool, step = self._pool, max(1, -(-self._candidates // self._sampled))
        samples = pool.each(lambda shard: shard.trial.sample(step))
        sample, bounds = (np.concatenate(parts) for parts in zip(*samples, strict=True))
        block = sample.astype(np.float32, copy=False)
        made = pool.references.vectors(pool.references.slots_of([pick.index for pick in self._picks]))
        closest, _ = pool.geometry.closest(block, pool.geometry.row_terms(block), pool.geometry.centres(made))
        extremes, theirs = self._watch.extremes(self._sampled) if self._watch else (sample[:0], bounds[:0])
        self._watch = None  # its memory is needed for the next
        bounds = np.concatenate([np.minimum(bounds, closest), theirs])
        return foretell(pool.geometry, sample, extremes, bounds, picks, room)

    def _accept(self, pick: Winner | None) -> None:
        if pick is None:
            raise RuntimeError("candidates ran out before their count did")
        self._picks.append(pick)
        self._pool.references.put([pick.index], self._pool.vectors([pick.index]))
