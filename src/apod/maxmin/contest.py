"""The exact winner among rows of which only upper bounds are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apod.maxmin.bounds import Float32, Float64, Int, Mask, round_up

SCAN = 1 << 16  # rows of one look at the bounds

Exact = Callable[[Int], Float64]


@dataclass(frozen=True)
class Winner:
    """The row with the largest exact distance so far."""

    index: int
    squared: float

    @property
    def distance(self) -> float:
        """The distance ties are decided by."""
        return math.sqrt(self.squared)

    def beaten_by(self, other: Winner) -> bool:
        """Whether the other is farther, or as far with a lower row."""
        return (-other.distance, other.index) < (-self.distance, self.index)

    def challengers(self, bounds: Float32 | Float64, rows: Int) -> Mask:
        """Who could still win, by its upper bound. Roots, because squares that differ may have the same one."""
        roots = np.sqrt(bounds, dtype=np.float64)
        return np.asarray((roots > self.distance) | ((roots == self.distance) & (rows < self.index)))


def winner(bounds: Float32, exact: Exact, upper: Exact, mask: Mask | None = None) -> Winner | None:
    """The index with the largest exact squared distance; ties to the lowest; None where nobody takes part.

    bounds (n,) upper bounds on the squares, negative = takes no part; lowered in place where exact values came to
    light. `exact(indices)` gives the squares, `upper(indices)` a cheaper float64 upper bound on them.
    """
    starts = range(0, len(bounds), SCAN)
    tops = [_top(bounds, mask, start) for start in starts]
    top, index = max(tops, key=lambda pair: (pair[0], -pair[1]), default=(-1.0, 0))
    if top < 0:
        return None
    best = Winner(index, float(exact(np.array([index]))[0]))
    for start, (highest, _) in zip(starts, tops, strict=True):
        if highest >= 0 and math.sqrt(highest) >= best.distance:
            part = slice(start, start + SCAN)
            rows = start + np.flatnonzero(bounds[part] >= 0 if mask is None else (bounds[part] >= 0) & mask[part])
            best = _play(bounds, rows[best.challengers(bounds[rows], rows)], best, exact, upper)
    return best


def _top(bounds: Float32, mask: Mask | None, start: int) -> tuple[float, int]:
    """The highest bound of a candidate from `start` on, and its index; negative where there is none."""
    view = bounds[start : start + SCAN]
    if mask is not None:
        # bits times 0 or 1: eight times as fast as np.where, and inf * 0 is 0 here
        bits = view.view(np.int32) * mask[start : start + SCAN].view(np.int8)
        if not bits.max(initial=0) > 0:  # a bound of zero and no candidate look alike: tell them apart slowly
            bits = np.where(mask[start : start + SCAN], view, np.float32(-1)).view(np.int32)
        view = bits.view(np.float32)
    best = int(view.argmax())
    return float(view[best]), start + best


def _play(bounds: Float32, rows: Int, best: Winner, exact: Exact, upper: Exact) -> Winner:
    """The best after these rows had their chance, looked at from the highest bound down, in growing lots.

    The cheap float64 bound comes first: where many rows tie, the first one computed settles all the others.
    """
    if not len(rows):
        return best
    cheap = upper(rows)
    bounds[rows] = np.minimum(bounds[rows], round_up(cheap))
    order = np.lexsort((rows, -np.sqrt(cheap)))
    rows, cheap = rows[order], cheap[order]
    done, lot = 0, 1
    while done < len(rows) and best.challengers(cheap[done : done + 1], rows[done : done + 1])[0]:
        chunk = rows[done : done + lot]
        squares = exact(chunk)
        bounds[chunk] = np.minimum(bounds[chunk], round_up(squares))
        first = np.lexsort((chunk, -np.sqrt(squares)))[0]
        other = Winner(int(chunk[first]), float(squares[first]))
        best = other if best.beaten_by(other) else best
        done, lot = done + lot, min(4 * lot, 1024)
    return best
