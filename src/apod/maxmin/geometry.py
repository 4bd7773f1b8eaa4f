"""One formula for a distance, and float32 upper bounds on it that a matrix product can compute.

The distance of row x to centre c is `sqrt(sum((x - c)**2))` in float64, differences first, summed along the row.
Everything the package says about distances is decided by that formula. Reading the pool with it would be slow, so
the pool is read with a cheaper statement of the same number: for any fixed shift m, with w = c - m,

    |x - c|^2 = |x - m|^2 + (|w|^2 + 2 m.w) - 2 x.w

where the first term is cached per row, the second is a number per centre, and x.w is a matrix product. In float32
(unit roundoff u = 2^-24, d columns) that sum is off by at most

    u (d + 7) (|x - m|^2 + |m|^2)  +  2 u (d + 7) |w|^2

(dot products in any order, Cauchy-Schwarz, then 2ab <= a^2 + b^2), and the cached term by another u (d + 5) |x - m|^2.
`Geometry` adds twice that to the row's and the centre's term, so what it returns is never below the float64 formula:
an *upper bound*. A minimum of upper bounds bounds the minimum, so no other error bookkeeping exists: whoever's bound
reaches the largest exact value found so far is computed exactly (`exact_farthest`); nobody else can be farther.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.data.arrays import Stored

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Squares = Callable[[Int], Float64]
"""Squared distances of the rows at these positions."""

LARGEST_TERM = 1e36  # of a squared norm: sums of a few of them must stay inside float32
AT_ONCE = 64  # centres of one product
TILE = 1 << 18  # float64 numbers of one exact tile: 2 MB
SCAN = 1 << 16  # rows of one look at the bounds


def squared_distances(rows: Float64, centre: Float64) -> Float64:
    """(..., d) and (..., d) to (...,): the formula of this module, before the root."""
    difference = rows - centre
    return np.asarray(np.square(difference, out=difference).sum(axis=-1))


def nearest_centre(rows: Stored, centres: Stored) -> tuple[Float64, Int]:
    """Squared distance (f,) of each row to its nearest centre, and which centre that is (the first of equals).

    rows (f, d) · centres (m, d); with no centres the distance is inf and the centre -1. Memory stays at a few tiles.
    """
    best, which = np.full(len(rows), np.inf), np.full(len(rows), -1, dtype=np.int64)
    width = rows.shape[1]
    wide = max(1, min(len(centres), TILE // width))
    tall = max(1, TILE // (width * wide))
    for top in range(0, len(rows), tall):
        part = slice(top, top + tall)
        block = rows[part].astype(np.float64)[:, None, :]  # (t, 1, d)
        for left in range(0, len(centres), wide):
            values = squared_distances(block, centres[left : left + wide].astype(np.float64))  # (t, w)
            column = values.argmin(axis=1)
            value = values[np.arange(len(values)), column]
            closer = value < best[part]
            best[part] = np.where(closer, value, best[part])
            which[part] = np.where(closer, column + left, which[part])
    return best, which


def round_up(values: Float64) -> Float32:
    """Float32 numbers that are not below the given ones."""
    with np.errstate(over="ignore"):  # inf is the documented distance to nobody
        rounded = values.astype(np.float32)
    return np.where(rounded < values, np.nextafter(rounded, np.float32(np.inf)), rounded)


@dataclass(frozen=True)
class Centres:
    """What a pass needs to know of m centres."""

    weights: Float32  # (m, d), -2 (c - shift)
    constants: Float32  # (m,)

    def __len__(self) -> int:
        return len(self.constants)


@dataclass(frozen=True)
class Geometry:
    """Upper bounds on squared distances, relative to one shift (a mean of the pool keeps them tight)."""

    shift: Float64  # (d,)

    @property
    def slack(self) -> float:
        """Share of a squared norm that covers all rounding of the float32 statement."""
        return 4.0 * (len(self.shift) + 8) * 2.0**-24

    @property
    def _offset(self) -> float:
        """What every row's term gets besides: rounding beside the shift, and underflow."""
        return self.slack * float(self.shift @ self.shift) + (len(self.shift) + 8) * 2.0**-120

    def row_terms(self, block: Float32) -> Float32:
        """(b, d) to (b,): cached once per row. Not finite, or above LARGEST_TERM, where the row cannot be used."""
        norms = np.empty(len(block), dtype=np.float32)
        shift = self.shift.astype(np.float32)
        step = max(1, TILE // len(shift))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(block), step):
                centred = block[start : start + step] - shift
                np.einsum("ij,ij->i", centred, centred, out=norms[start : start + step])
            norms *= np.float32(1 + self.slack)
            norms += np.float32(self._offset)
        return norms

    def centres(self, vectors: Stored) -> Centres:
        """(m, d) rows of the pool as centres."""
        moved = vectors.astype(np.float64) - self.shift
        squared = np.square(moved).sum(axis=1)
        constants = squared * (1 + self.slack) + 2 * moved @ self.shift
        return Centres(np.float32(-2) * moved.astype(np.float32), constants.astype(np.float32))

    def to_one(self, block: Float32, row_terms: Float32, centres: Centres) -> Float32:
        """(b,) upper bounds on the squared distance of each row to the only centre."""
        values = _product(block, centres.weights[0])
        values += row_terms
        values += centres.constants[0]
        return values

    def closest(self, block: Float32, row_terms: Float32, centres: Centres) -> tuple[Float32, Int]:
        """Of each row, an upper bound on the squared distance to the closest centre, and which centre that is.

        block (b, d) · row_terms (b,), both float32; returns (b,) and (b,): inf and 0 where there are no centres.
        """
        if len(centres) == 1:
            return self.to_one(block, row_terms, centres), np.zeros(len(block), dtype=np.int64)
        bounds, which = np.full(len(block), np.inf, np.float32), np.zeros(len(block), np.int64)
        for first in range(0, len(centres), AT_ONCE):
            table = _product(block, centres.weights[first : first + AT_ONCE].T)  # (b, at once)
            table += centres.constants[first : first + AT_ONCE]
            column = table.argmin(axis=1)
            values = table[np.arange(len(table)), column]
            values += row_terms  # after the minimum: one addition a row
            closer = values < bounds
            np.copyto(bounds, values, where=closer)
            np.copyto(which, column + first, where=closer)
        return bounds, which


def _product(block: Float32, weights: Float32) -> Float32:
    """block @ weights of finite numbers: vector units may flag invalid operations in lanes nobody uses."""
    with np.errstate(invalid="ignore"):
        found: Float32 = block @ weights
    return found


@dataclass(frozen=True)
class Farthest:
    """The row with the largest exact distance found so far."""

    index: int
    squared: float

    @property
    def distance(self) -> float:
        """The distance ties are decided by."""
        return math.sqrt(self.squared)

    def nearer_than(self, other: Farthest) -> bool:
        """Whether the other is farther, or as far with a lower row."""
        return (-other.distance, other.index) < (-self.distance, self.index)

    def maybe_nearer_than(self, bounds: Float32 | Float64, rows: Int) -> Mask:
        """Which rows could be farther, by their upper bound. Roots: squares that differ may have the same one."""
        roots = np.sqrt(bounds, dtype=np.float64)
        return np.asarray((roots > self.distance) | ((roots == self.distance) & (rows < self.index)))


def exact_farthest(bounds: Float32, exact: Squares, upper: Squares, mask: Mask | None = None) -> Farthest | None:
    """The index with the largest exact squared distance; ties to the lowest; None where there is no candidate.

    bounds (n,) upper bounds on the squares, negative = not a candidate; lowered in place where exact values were
    computed. `exact(indices)` gives the squares, `upper(indices)` a cheaper float64 upper bound on them.
    """
    starts = range(0, len(bounds), SCAN)
    tops = [_highest(bounds, mask, start) for start in starts]
    top, index = max(tops, key=lambda pair: (pair[0], -pair[1]), default=(-1.0, 0))
    if top < 0:
        return None
    best = Farthest(index, float(exact(np.array([index]))[0]))
    for start, (highest, _) in zip(starts, tops, strict=True):
        if highest >= 0 and math.sqrt(highest) >= best.distance:
            part = slice(start, start + SCAN)
            rows = start + np.flatnonzero(bounds[part] >= 0 if mask is None else (bounds[part] >= 0) & mask[part])
            best = _compared(bounds, rows[best.maybe_nearer_than(bounds[rows], rows)], best, exact, upper)
    return best


def _highest(bounds: Float32, mask: Mask | None, start: int) -> tuple[float, int]:
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


def _compared(bounds: Float32, rows: Int, best: Farthest, exact: Squares, upper: Squares) -> Farthest:
    """The farthest of `best` and these rows, which are computed from the highest bound down, in growing lots.

    The cheap float64 bound comes first: where many rows tie, the first one computed decides for all the others.
    """
    if not len(rows):
        return best
    cheap = upper(rows)
    bounds[rows] = np.minimum(bounds[rows], round_up(cheap))
    order = np.lexsort((rows, -np.sqrt(cheap)))
    rows, cheap = rows[order], cheap[order]
    done, lot = 0, 1
    while done < len(rows) and best.maybe_nearer_than(cheap[done : done + 1], rows[done : done + 1])[0]:
        chunk = rows[done : done + lot]
        squares = exact(chunk)
        bounds[chunk] = np.minimum(bounds[chunk], round_up(squares))
        first = np.lexsort((chunk, -np.sqrt(squares)))[0]
        other = Farthest(int(chunk[first]), float(squares[first]))
        best = other if best.nearer_than(other) else best
        done, lot = done + lot, min(4 * lot, 1024)
    return best
