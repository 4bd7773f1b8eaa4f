"""Typical rows: the densest spot nobody was asked about yet, with a radius that the rows themselves set.

Probability cover needs a radius. Here it is the distance within which a row finds a given share of all rows, itself
included, so it needs no tuning to the scale of the embeddings; of few rows, the distance within which it finds one
other on average. Once everything is covered at that share, the next rows are picked at half of it, and so on: first
the large regions, then what lies between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from apod.data.arrays import Stored
from apod.maxmin.geometry import Float64, Int, Mask

SHARE = 0.03  # of the rows that a ball holds, on average: about thirty balls make a cover
MOST_ROWS = 2048  # looked at: balls are counted over all pairs, and a question must come in milliseconds
RADIUS_ROWS = 512  # whose pairwise distances set the radius
BLOCK_ROWS = 4096  # asked rows compared at a time
ROUNDING = 1e-13  # of a squared distance computed by a matrix product
SLACK = 1 + 1e-9  # the radius is the distance of a pair: that pair is within it, whatever the rounding


class Rows(Protocol):
    """A matrix, or something that makes the rows asked for."""

    def __getitem__(self, rows: Int, /) -> Stored: ...


def typical_rows(matrix: Rows, candidates: Mask, covered: Sequence[int], k: int) -> list[int]:
    """Up to k candidates, the one with the most uncovered others around it first; ties to the lowest row.

    `covered` rows are never picked, and what lies around them counts as covered. Of more than 2,048 rows, evenly
    spaced ones stand for all.
    """
    if k == 0:
        return []
    mask = np.array(candidates, dtype=bool)
    asked = np.unique(np.asarray(covered, dtype=np.int64))
    mask[asked] = True
    both = np.flatnonzero(mask)
    mask[asked] = False
    askable = np.flatnonzero(mask)
    if not len(askable):
        return []
    rows = _spaced(both, MOST_ROWS)
    free = rows[mask[rows]]
    if len(free) < min(k, len(askable)):  # hardly anybody is left of those who stand for all
        free = _spaced(askable, max(k, MOST_ROWS))
    everybody = np.union1d(rows, asked)
    distances = _pairs(matrix[_spaced(everybody, RADIUS_ROWS)])  # to oneself among them
    crowd = _Crowd(matrix[free], matrix[asked])
    share = min(1.0, max(SHARE, 2 / len(distances)))
    while len(crowd.picked) < min(k, len(free)) and share * len(everybody) >= 0.5:
        crowd.pick(k, max(0.0, float(np.quantile(distances, share))) * SLACK)
        share /= 2
    rest = np.setdiff1d(np.arange(len(free)), crowd.picked)  # nothing but copies of covered rows
    chosen = [*crowd.picked, *rest[: k - len(crowd.picked)].tolist()]
    return [int(free[place]) for place in chosen]


class _Crowd:
    """Few enough rows to hold all their pairs: who is near whom, and near somebody asked."""

    def __init__(self, free: Stored, asked: Stored) -> None:
        self._pairs = _pairs(free)
        self._asked = np.full(len(free), np.inf)  # squared distance to the nearest one
        for first in range(0, len(asked), BLOCK_ROWS):
            self._asked = np.minimum(self._asked, _pairs(free, asked[first : first + BLOCK_ROWS]).min(axis=1))
        self.picked: list[int] = []

    def pick(self, k: int, square: float) -> None:
        """The best balls of this squared radius one after the other, until k are picked or all rows are covered."""
        near = self._pairs <= square
        open_ = self._asked > square
        open_ &= ~near[self.picked].any(axis=0)
        gains = _count(near[open_])
        while len(self.picked) < k and gains.max(initial=0) > 0:
            best = int(gains.argmax())
            self.picked.append(best)
            covers = near[best] & open_
            open_ &= ~covers
            gains -= _count(near[covers])


def _count(near: Mask) -> Int:
    """(a, m) to (m,): how many of the a rows are near each."""
    found: Int = near.view(np.uint8).sum(axis=0, dtype=np.int64)
    return found


def _pairs(rows: Stored, others: Stored | None = None) -> Float64:
    """(a, d) and (b, d) to (a, b): squared distances less what rounding may add, so that copies are at most 0 apart."""
    middle = np.asarray(rows, dtype=np.float64).mean(axis=0)
    left = np.asarray(rows, dtype=np.float64) - middle
    right = left if others is None else np.asarray(others, dtype=np.float64) - middle
    squares, against = (left**2).sum(axis=1), (right**2).sum(axis=1)
    loose = ROUNDING * (squares.max(initial=0) + against.max(initial=0))
    # |x|^2 + |z|^2 - 2 x.z as one product: the table is written once and never read again to add to it
    ones = np.ones((len(right), 1))
    long = np.hstack([-2 * left, squares[:, None] - loose, np.ones((len(left), 1))])
    table: Float64 = long @ np.hstack([right, ones, against[:, None]]).T
    return table


def _spaced(rows: Int, most: int) -> Int:
    """All of them, or `most` of them at even distances in their order."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]
