"""Which rows to watch so that a whole batch can be picked between two passes, exactly.

Between passes only the watched rows are kept up to date. The others have stale bounds, which can only be too high,
so a watched row whose exact distance exceeds every stale bound is the true pick. Two things keep stale bounds low:

- *cells*: before the pass, the picks to come are predicted on a sample. These pivots cut the pool into strata: by
  nearest pivot and by how near it is, compared with the nearest answer. When the true pick c falls near pivot p, every
  row of its strata is within (its distance to p) + |p - c| of an answer, without being read again;
- *a floor*: rows nearer to an answer than the predicted last pick need no watching at all.

A wrong prediction costs a pass, never a wrong pick.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from apod.data.arrays import Stored
from apod.maxmin.geometry import Float32, Float64, Geometry, Int

PREDICTED = 32  # picks: more pivots cost products and save no pass (measured)
FLOOR_SHARE = 0.95  # the true last pick is seldom nearer than this share of the predicted one
BANDS = np.array([1 / 16, 1 / 4, 1], dtype=np.float32)  # squared distance to the pivot over that to the answer


def count_strata(pivots: int) -> int:
    """Three bands around each pivot, and a last stratum for rows near to none."""
    return len(BANDS) * pivots + 1


def stratum(bounds: Float32, reach: Float32, cell: Int, pivots: int) -> Int:
    """(b,) stratum of each row: its band around its nearest pivot."""
    with np.errstate(invalid="ignore"):
        band = np.searchsorted(BANDS, reach / np.maximum(bounds, np.float32(1e-30)), side="right")
    return np.where(band < len(BANDS), cell * len(BANDS) + band, count_strata(pivots) - 1)


@dataclass(frozen=True)
class WatchPlan:
    """What to watch in the next pass."""

    pivots: Stored  # (p, d) predicted picks
    thresholds: Float32  # (strata,) watch rows whose bound reaches their stratum's
    floor: np.float32  # and never below this

    @property
    def strata(self) -> int:
        """Three bands around each pivot, and a last stratum for rows near to none."""
        return count_strata(len(self.pivots))


@dataclass(frozen=True)
class WatchedRows:
    """Rows under watch, in parallel arrays."""

    vectors: Stored  # (a, d)
    rows: Int
    bounds: Float32  # squared
    slots: Int
    reach: Float32  # squared distance to the pivot, at most
    strata: Int

    def __len__(self) -> int:
        return len(self.rows)

    def parts(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The arrays."""
        return self.vectors, self.rows, self.bounds, self.slots, self.reach, self.strata

    def writable(self) -> WatchedRows:
        """The same, with bounds and slots that may be changed: what comes from another process may not."""
        return replace(
            self,
            bounds=np.require(self.bounds, requirements="W"),
            slots=np.require(self.slots, requirements="W"),
        )

    @staticmethod
    def joined(many: list[WatchedRows]) -> WatchedRows:
        """All of them in one."""
        if len(many) == 1:
            return many[0]
        return WatchedRows(*(np.concatenate(parts) for parts in zip(*(one.parts() for one in many), strict=True)))


@dataclass(frozen=True)
class Watchlist:
    """The watched rows, and what is known of all others: by stratum, the highest bound and the widest reach."""

    watched: WatchedRows
    highest: Float64  # (strata,) squared; -1 = nobody there
    reach: Float64  # (strata,) squared
    beneath: float  # no row that was passed over for the floor has a bound above this; -1 = nobody was

    @staticmethod
    def joined(many: list[Watchlist]) -> Watchlist:
        """The watchlist of a pool from those of its parts, in their order."""
        return Watchlist(
            WatchedRows.joined([one.watched for one in many]),
            np.max([one.highest for one in many], axis=0),
            np.max([one.reach for one in many], axis=0),
            max(one.beneath for one in many),
        )


class WatchlistBuilder:
    """Collects the rows to watch while a pass goes by, in memory that is taken once and reused."""

    def __init__(self, plan: WatchPlan, size: int) -> None:
        room = size + plan.strata + max(64, size // 4)
        self._plan = plan
        self._size = size
        self._thresholds = plan.thresholds.copy()
        self._kept = WatchedRows(
            np.empty((room, plan.pivots.shape[1]), dtype=plan.pivots.dtype),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.float32),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.float32),
            np.empty(room, dtype=np.int64),
        )
        self._count = 0
        self._highest = np.full(plan.strata, -1.0)
        self._reach = np.zeros(plan.strata)
        self._beneath = -1.0
        self._lock = threading.Lock()

    def choose(self, bounds: Float32, reach: Float32, strata: Int) -> Int:
        """Positions of the rows that stay; of the others the bounds are noted."""
        stays = bounds >= self._thresholds[strata]
        with self._lock:
            self._leave(bounds[~stays], reach[~stays], strata[~stays])
        return np.flatnonzero(stays)

    def keep(self, rows: WatchedRows) -> None:
        """Watch these."""
        with self._lock:
            done = 0
            while done < len(rows):
                if self._count == len(self._kept):
                    self._prune()
                more = min(len(rows) - done, len(self._kept) - self._count)
                for kept, new in zip(self._kept.parts(), rows.parts(), strict=True):
                    kept[self._count : self._count + more] = new[done : done + more]
                self._count, done = self._count + more, done + more

    def below(self) -> None:
        """Candidates under the floor came by."""
        self._beneath = float(self._plan.floor)

    def result(self) -> Watchlist:
        """What the pass found; the watched rows in ascending order."""
        if self._count > self._size:
            self._prune()
        order = np.argsort(self._kept.rows[: self._count])
        watched = WatchedRows(*(part[order] for part in self._kept.parts()))
        return Watchlist(watched, self._highest, self._reach, self._beneath)

    def _leave(self, bounds: Float32, reach: Float32, strata: Int) -> None:
        np.maximum.at(self._highest, strata, bounds.astype(np.float64))
        np.maximum.at(self._reach, strata, reach.astype(np.float64))

    def _prune(self) -> None:
        """Keep the highest of every stratum, in equal shares; the rows near no pivot count for half of all."""
        rows, bounds, _, reach, strata = (part[: self._count] for part in self._kept.parts()[1:])
        order = np.lexsort((rows, -bounds, strata))
        by_stratum = strata[order]
        starts = np.flatnonzero(np.r_[True, by_stratum[1:] != by_stratum[:-1]])
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        half = max(1, self._size // 2)
        share = np.where(by_stratum == self._plan.strata - 1, half, max(1, half // len(starts)))
        full, gone = order[rank == share - 1], order[rank >= share]
        self._thresholds[strata[full]] = bounds[full]
        self._leave(bounds[gone], reach[gone], strata[gone])
        self._count = _compact(self._kept, np.sort(order[rank < share]))


def _compact(rows: WatchedRows, stay: Int) -> int:
    """Move the rows at these ascending positions to the front, a little at a time; returns how many they are."""
    for start in range(0, len(stay), 1024):
        for part in rows.parts():
            part[start : start + len(stay[start : start + 1024])] = part[stay[start : start + 1024]]
    return len(stay)


def plan_watch(
    geometry: Geometry, sample: Stored, extremes: Stored, bounds: Float32, picks: int, room: float
) -> WatchPlan:
    """Max-min picks predicted on a sample give the pivots, the floor, and from which bound on a stratum is watched.

    sample (s, d) stands for all candidates, extremes (e, d) were watched before and are likely picks;
    bounds (s + e,) squared, up to date · room: how many rows can be watched, as a share of all candidates
    """
    population = np.concatenate([sample, extremes])
    block = population.astype(np.float32, copy=False)
    terms = geometry.row_terms(block)
    chosen, last = predict_picks(geometry, block, terms, bounds, min(picks, PREDICTED))
    pivots = population[chosen]
    floor = np.float32(last * FLOOR_SHARE**2)
    live = np.flatnonzero(bounds[: len(sample)] >= floor)
    reach, cell = geometry.closest(block[live], terms[live], geometry.centres(pivots))
    strata = stratum(bounds[live], reach, cell, len(pivots))
    thresholds = _thresholds(bounds[live], strata, count_strata(len(pivots)), room * len(sample))
    return WatchPlan(pivots, np.maximum(thresholds, floor), floor)


def predict_picks(
    geometry: Geometry, block: Float32, terms: Float32, bounds: Float32, picks: int
) -> tuple[list[int], float]:
    """Positions of max-min picks by float32 bounds, and the last one's squared distance; 0 where they ran out."""
    left, last = bounds.copy(), 0.0
    chosen: list[int] = []
    for _ in range(picks):
        top = int(left.argmax())
        last = max(0.0, float(left[top]))
        if not last and chosen:
            break
        chosen.append(top)
        values, _which = geometry.closest(block, terms, geometry.centres(block[top : top + 1]))
        np.minimum(left, values, out=left)
        left[chosen] = -1
    return chosen, last


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
