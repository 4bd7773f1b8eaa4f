"""A batch of max-min picks from few passes: foretell on a sample, watch a frontier, settle picks exactly."""

from __future__ import annotations

import math

import numpy as np

from apod.coverage.bounds import Float32, Float64, Geometry, Int, Mask, Stored, nearest_centre, squared_distances
from apod.coverage.contest import Winner, winner
from apod.coverage.frontier import Frontier, Plan, count_strata, stratum
from apod.coverage.pool import Pool
from apod.coverage.references import NOBODY, References

WATCHED_BYTES = 12 << 20  # vectors under watch; up to twice as much while a pass goes by
FARTHEST_FORETOLD = 128  # pivots of one pass: their product must stay cheap beside reading the matrix
OPTIMISM = 0.95  # the true last pick is seldom nearer than this share of the foretold one


def watch_size(width: int, dtype: np.dtype[np.floating]) -> int:
    """How many rows to watch."""
    return max(256, WATCHED_BYTES // (width * dtype.itemsize))


def foretell(geometry: Geometry, sample: Stored, bounds: Float32, picks: int, total: int, size: int) -> Plan:
    """A plan from an evenly spaced sample of the candidates with up-to-date bounds: greedy max-min on it.

    sample (s, d) · bounds (s,) squared · total: how many candidates the sample stands for
    """
    block = sample.astype(np.float32, copy=False)
    terms = geometry.row_terms(block)
    left, chosen = bounds.copy(), []
    last = 0.0
    for _ in range(min(picks, FARTHEST_FORETOLD, len(sample))):
        top = int(left.argmax())
        last = float(left[top])
        chosen.append(top)
        values, _cell = geometry.closest(block, terms, geometry.centres(sample[top : top + 1]))
        np.minimum(left, values, out=left)
        left[chosen] = 0
    pivots = sample[chosen]
    reach, cell = geometry.closest(block, terms, geometry.centres(pivots))
    floor = np.float32(last * OPTIMISM**2 if picks <= len(chosen) or len(sample) > len(chosen) else 0.0)
    live = bounds >= floor
    strata = stratum(bounds[live], reach[live], cell[live], len(pivots))
    thresholds = _thresholds(bounds[live], strata, count_strata(len(pivots)), size * len(sample) / total)
    return Plan(pivots, np.maximum(thresholds, floor), floor, size)


def _thresholds(bounds: Float32, strata: Int, count: int, room: float) -> Float32:
    """(count,) the bound from which on a stratum is watched, so that about `room` rows of the sample are."""
    thresholds = np.zeros(count, dtype=np.float32)
    present = np.unique(strata)
    for one in present:
        values = np.sort(bounds[strata == one])[::-1]
        share = room / 2 if one == count - 1 else room / (2 * len(present))
        if share < len(values):
            thresholds[one] = values[int(share)]
    return thresholds


class Watch:
    """The frontier while picks are made: watched rows up to date, an upper limit for all the others."""

    def __init__(self, frontier: Frontier, geometry: Geometry, pivots: Stored) -> None:
        self._geometry = geometry
        self._rows = frontier.watched
        order = np.argsort(self._rows.rows, kind="stable")
        self._rows = self._rows[order]
        self._block = self._rows.vectors.astype(np.float32, copy=False)
        self._terms = geometry.row_terms(self._block)
        self._pivots = pivots.astype(np.float64)
        self._pivot_of_stratum = np.minimum(np.arange(len(frontier.highest)) // 3, max(0, len(pivots) - 1))
        self._highest = frontier.highest.copy()
        self._reach = np.sqrt(frontier.reach)
        self._reach[-1] = np.inf  # the last stratum is near no pivot
        self._beneath = frontier.beneath

    def best(self, references: References) -> Winner | None:
        """The next pick of the whole pool, index = row; None if the watched rows cannot tell."""
        known = references.slots
        vectors = references.vectors(known)

        def exact(positions: Int) -> Float64:
            squares, which = nearest_centre(self._rows.vectors[positions], vectors)
            self._rows.slots[positions] = known[which]
            return squares

        def upper(positions: Int) -> Float64:
            slots = self._rows.slots[positions]
            rows, answers = self._rows.vectors[positions], references.vectors(slots)
            squares = squared_distances(rows.astype(np.float64), answers.astype(np.float64))
            return np.where(slots == NOBODY, np.inf, squares)

        if not len(self._rows):
            return None
        found = winner(self._rows.bounds, exact, upper)
        limit = self._limit()
        if found is None or (limit >= 0 and found.distance <= math.sqrt(limit)):
            return None
        return Winner(int(self._rows.rows[found.index]), found.squared)

    def settle(self, row: int, vector: Stored, slot: int) -> None:
        """Count this row as answered."""
        values, _ = self._geometry.closest(self._block, self._terms, self._geometry.centres(vector[None]))
        closer = values < self._rows.bounds
        self._rows.bounds[closer], self._rows.slots[closer] = values[closer], slot
        position = np.searchsorted(self._rows.rows, row)
        if position < len(self._rows) and self._rows.rows[position] == row:
            self._rows.bounds[position] = -1
        apart = np.sqrt(squared_distances(self._pivots, vector.astype(np.float64)))  # (p,)
        within = (self._reach + apart[self._pivot_of_stratum]) ** 2 * (1 + 1e-9)
        np.minimum(self._highest, within, out=self._highest)

    def _limit(self) -> float:
        """No row outside the watch has a squared distance above this; negative: there is none."""
        return max(float(self._highest.max()), self._beneath)


def pick_batch(pool: Pool, mask: Mask | None, k: int) -> list[Winner]:
    """The k next max-min picks among the candidates, exactly, from few passes; fewer when the candidates run out."""
    left = sum(pool.each(lambda shard: shard.begin(pool.part(mask, shard))))
    batch = _Batch(pool, left)
    try:
        return batch.run(min(k, left))
    finally:
        batch.close()


class _Batch:
    """The picks of a batch while it is made: in the coordinator's references at once, in the parts' at each pass."""

    def __init__(self, pool: Pool, candidates: int) -> None:
        self._pool = pool
        self._candidates = candidates
        self._size = watch_size(pool.width, pool.dtype)
        self._picks: list[Winner] = []
        self._told = 0  # picks the parts know of

    def run(self, k: int) -> list[Winner]:
        if k and not len(self._pool.references):
            self._accept(self._pool.best(None))
        ahead = FARTHEST_FORETOLD
        while len(self._picks) < k:
            before = len(self._picks)
            watch = self._look(min(k - before, ahead))
            while len(self._picks) < k and (best := watch.best(self._pool.references)) is not None:
                self._accept(best, watch)
            if len(self._picks) == before:  # many tie, or a stratum was foretold wrong: ask every part
                self._accept(self._pool.best(None))
            ahead = max(8, 4 * (len(self._picks) - before))
        return self._picks

    def close(self) -> None:
        self._pool.references.drop([pick.index for pick in self._picks])
        told = [pick.index for pick in self._picks[: self._told]]
        self._pool.each(lambda shard: shard.end(told))

    def _look(self, picks: int) -> Watch:
        """One pass: tell the parts of the new picks, and watch the rows the next picks should come from."""
        pool = self._pool
        fresh = [pick.index for pick in self._picks[self._told :]]
        vectors = pool.references.vectors(pool.references.slots_of(fresh))
        step = max(1, -(-(self._candidates - self._told) // self._size))
        samples = pool.each(lambda shard: shard.sample(step))
        sample, bounds = np.concatenate([one[0] for one in samples]), np.concatenate([one[1] for one in samples])
        if len(fresh):
            block = sample.astype(np.float32, copy=False)
            closest, _ = pool.geometry.closest(block, pool.geometry.row_terms(block), pool.geometry.centres(vectors))
            bounds = np.minimum(bounds, closest)
        plan = foretell(pool.geometry, sample, bounds, picks, self._candidates - len(self._picks), self._size)
        frontiers = pool.each(lambda shard: shard.frontier(plan, fresh, vectors))
        self._told = len(self._picks)
        return Watch(Frontier.joined(frontiers), pool.geometry, plan.pivots)

    def _accept(self, pick: Winner | None, watch: Watch | None = None) -> None:
        if pick is None:
            raise RuntimeError("candidates ran out before their count did")
        vector = self._pool.vectors([pick.index])
        slot = self._pool.references.put([pick.index], vector)[0]
        self._picks.append(pick)
        if watch is not None:
            watch.settle(pick.index, vector[0], int(slot))
