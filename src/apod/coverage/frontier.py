"""Which rows to watch so that a whole batch can be picked between two passes, exactly.

Between passes only the watched rows are kept up to date. The others have stale bounds, which can only be too high,
so a watched row whose exact distance exceeds every stale bound is the true pick. Two things keep stale bounds low:

- *cells*: before the pass, the picks to come are foretold on a sample. These pivots cut the pool into strata: by
  nearest pivot and by how near it is, compared with the nearest answer. When the true pick c falls near pivot p, every
  row of its strata is within (its distance to p) + |p - c| of an answer, without being read again;
- *a floor*: rows nearer to an answer than the foretold last pick need no watching at all.

Foretelling wrong costs a pass, never a wrong pick.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from apod.coverage.bounds import Float32, Float64, Int, Stored

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
class Plan:
    """What to watch in the next pass."""

    pivots: Stored  # (p, d) foretold picks
    thresholds: Float32  # (strata,) watch rows whose bound reaches their stratum's
    floor: np.float32  # and never below this

    @property
    def strata(self) -> int:
        """Three bands around each pivot, and a last stratum for rows near to none."""
        return count_strata(len(self.pivots))


@dataclass(frozen=True)
class Watched:
    """Rows under watch, in parallel arrays."""

    vectors: Stored  # (a, d)
    rows: Int
    bounds: Float32  # squared
    slots: Int
    reach: Float32  # squared distance to the pivot, at most
    strata: Int

    def __len__(self) -> int:
        return len(self.rows)

    @staticmethod
    def chosen(many: list[Watched], positions: Int) -> Watched:
        """The rows at these positions of all of them in a row; vectors are copied once, straight to their place."""
        vectors = np.empty((len(positions), many[0].vectors.shape[1]), dtype=many[0].vectors.dtype)
        ends = np.cumsum([len(one) for one in many])
        for one, end in zip(many, ends, strict=True):
            here = np.flatnonzero((positions >= end - len(one)) & (positions < end))
            vectors[here] = one.vectors[positions[here] - (end - len(one))]
        rest = (np.concatenate(parts)[positions] for parts in zip(*(one.numbers() for one in many), strict=True))
        return Watched(vectors, *rest)

    def numbers(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Everything but the vectors."""
        return self.rows, self.bounds, self.slots, self.reach, self.strata


@dataclass(frozen=True)
class Frontier:
    """The watched rows, and what is known of all others: by stratum, the highest bound and the widest reach."""

    watched: Watched
    highest: Float64  # (strata,) squared; -1 = nobody there
    reach: Float64  # (strata,) squared
    beneath: float  # no row that was passed over for the floor has a bound above this; -1 = nobody was

    @staticmethod
    def joined(many: list[Frontier]) -> Frontier:
        """The frontier of a pool from those of its parts, in their order."""
        watched = [one.watched for one in many]
        return Frontier(
            watched[0] if len(many) == 1 else Watched.chosen(watched, np.arange(sum(map(len, watched)))),
            np.max([one.highest for one in many], axis=0),
            np.max([one.reach for one in many], axis=0),
            max(one.beneath for one in many),
        )


class Sieve:
    """Collects the rows to watch while a pass goes by; never many more than `size`."""

    def __init__(self, plan: Plan, size: int) -> None:
        none = np.zeros(0, dtype=np.int64)
        self._plan = plan
        self._size = size
        self._thresholds = plan.thresholds.copy()
        self._kept = [Watched(plan.pivots[:0], none, none.astype(np.float32), none, none.astype(np.float32), none)]
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

    def keep(self, rows: Watched) -> None:
        """Watch these."""
        with self._lock:
            self._kept.append(rows)
            self._count += len(rows)
            if self._count > 1.25 * self._size:
                self._prune()

    def below(self) -> None:
        """Candidates under the floor came by."""
        self._beneath = float(self._plan.floor)

    def result(self) -> Frontier:
        """What the pass found; the watched rows in ascending order."""
        if self._count > self._size:
            self._prune()
        order = np.argsort(np.concatenate([one.rows for one in self._kept]))
        return Frontier(Watched.chosen(self._kept, order), self._highest, self._reach, self._beneath)

    def _leave(self, bounds: Float32, reach: Float32, strata: Int) -> None:
        np.maximum.at(self._highest, strata, bounds.astype(np.float64))
        np.maximum.at(self._reach, strata, reach.astype(np.float64))

    def _prune(self) -> None:
        """Keep the highest of every stratum, in equal shares; the rows near no pivot count for half of all."""
        parts = zip(*(one.numbers() for one in self._kept), strict=True)
        rows, bounds, _, reach, strata = (np.concatenate(part) for part in parts)
        order = np.lexsort((rows, -bounds, strata))
        by_stratum = strata[order]
        starts = np.flatnonzero(np.r_[True, by_stratum[1:] != by_stratum[:-1]])
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        half = max(1, self._size // 2)
        share = np.where(by_stratum == self._plan.strata - 1, half, max(1, half // len(starts)))
        full, gone = order[rank == share - 1], order[rank >= share]
        self._thresholds[strata[full]] = bounds[full]
        self._leave(bounds[gone], reach[gone], strata[gone])
        self._kept = [Watched.chosen(self._kept, order[rank < share])]
        self._count = len(self._kept[0])
