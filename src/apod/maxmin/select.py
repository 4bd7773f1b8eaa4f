"""Selection alone, for people with their own training; and typical rows, the densest spot no answer covers yet.

Probability cover needs a radius. Here it is the distance within which a row finds a given share of all rows, itself
included, so it needs no tuning to the scale of the embeddings; of few rows, the distance within which it finds one
other on average. Once everything is covered at that share, the next rows are picked at half of it, and so on: first
the large regions, then what lies between them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from apod.data.arrays import Stored, checked_ids, open_array, open_parts, rows_of
from apod.errors import InputError
from apod.maxmin.coverage import Coverage, Pick, checked_count, checked_rows
from apod.maxmin.geometry import Float64, Int, Mask
from apod.maxmin.nearest import StoredRows
from apod.maxmin.shard import Shards
from apod.text import number

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


OpenElsewhere = Callable[[str | os.PathLike[str]], Coverage]
"""Opens the embeddings of a file or folder elsewhere than in this process."""

Source = npt.NDArray[Any] | str | os.PathLike[str]
"""An array, or the .npy file it is in."""


class PickJson(TypedDict):
    """One person to ask about in JSON; an infinite distance is null."""

    row: int
    distance: float | None
    id: NotRequired[Any]  # as the file of ids has it


class SelectJson(TypedDict):
    """Whom to ask about in JSON, and what finding out took."""

    picks: list[PickJson]
    seconds: float
    loading_seconds: float
    passes: int


@dataclass(frozen=True)
class SelectResult:
    """Whom to ask about, and what finding out took."""

    picks: tuple[Pick, ...]
    seconds: float  # measuring against the answered rows and picking; without loading
    loading_seconds: float  # opening, checking every row and caching its norm: one pass
    passes: int  # over the matrix in all, the loading one included
    ids: tuple[Any, ...] | None = None  # of the picks, where rows have ids

    def to_dict(self) -> SelectJson:
        """For JSON: an infinite distance (nothing was answered yet) is null."""
        picks: list[PickJson] = [{"row": pick.row, "distance": number(pick.distance)} for pick in self.picks]
        for pick, name in zip(picks, self.ids or (), strict=False):
            pick["id"] = name
        return {
            "picks": picks,
            "seconds": self.seconds,
            "loading_seconds": self.loading_seconds,
            "passes": self.passes,
        }


def select(
    embeddings: Source,
    answered: Source | Iterable[int] = (),
    k: int = 1,
    *,
    labels: Source | None = None,
    groups: Source | None = None,
    subgroup: str | tuple[Any, Any] | None = None,
    threads: int | None = None,
    engine: OpenElsewhere | None = None,
    ids: Source | None = None,
) -> SelectResult:
    """The k rows farthest from all answered ones, each counting as answered for the next (exact max-min).

    embeddings (n, d) float32, float16 or float64 · answered: row numbers · labels, groups (n,) and subgroup
    (group, label) or "group,label": pick only among rows of that group (say, a predicted one) and label.
    Arrays or .npy files; the embeddings are mapped, may be larger than memory, and may be a folder of .npy files that
    follow each other. An engine opens them elsewhere: `apod.maxmin.ray_pool.ray_engine`. With ids (n,), `answered`
    holds ids too, and the picks have theirs.
    """
    checked_count(k)
    began = time.perf_counter()
    n = len(StoredRows(embeddings)) if isinstance(embeddings, np.ndarray) else len(open_parts(embeddings))
    names = None if ids is None else checked_ids(_opened(ids, "ids"), n)
    rows = checked_rows(_row_numbers(answered) if names is None else rows_of(names, _ids(answered)), n)
    candidates = _subgroup_mask(labels, groups, subgroup, n)
    coverage = _covered(embeddings, threads, engine)
    if len(coverage) != n:
        raise InputError(f"The engine sees {len(coverage)} rows and this machine {n}: they must read the same files.")
    loaded = time.perf_counter()
    coverage.add(rows)
    picks = coverage.farthest(candidates, k)
    done = time.perf_counter()
    found = None if names is None else tuple(names[[pick.row for pick in picks]].tolist())
    return SelectResult(tuple(picks), done - loaded, loaded - began, coverage.passes, found)


def _covered(embeddings: Source, threads: int | None, engine: OpenElsewhere | None) -> Coverage:
    if engine is None:
        if isinstance(embeddings, np.ndarray):
            return Coverage(embeddings, threads=threads)
        return Coverage.over(Shards.of(open_parts(embeddings), threads))
    if isinstance(embeddings, np.ndarray):
        raise InputError("A cluster reads embeddings from storage: pass the path of a .npy file or a folder of them.")
    return engine(embeddings)


def _opened(source: Source, what: str) -> npt.NDArray[Any]:
    return source if isinstance(source, np.ndarray) else open_array(source, what)


def _row_numbers(answered: Source | Iterable[int]) -> Iterable[Any]:
    if isinstance(answered, str | os.PathLike):
        answered = open_array(answered, "answered rows")
    if not isinstance(answered, np.ndarray):
        return answered
    if answered.ndim != 1 or (answered.dtype.kind not in "iu" and len(answered)):
        raise InputError(
            f"The answered rows have shape {answered.shape} and type {answered.dtype}: pass a list of row numbers."
        )
    return [int(row) for row in answered]


def _ids(answered: Source | Iterable[Any]) -> npt.NDArray[Any]:
    if isinstance(answered, str | os.PathLike):
        return open_array(answered, "answered ids")
    return answered if isinstance(answered, np.ndarray) else np.array(list(answered))


def _subgroup_mask(
    labels: Source | None, groups: Source | None, subgroup: str | tuple[Any, Any] | None, n: int
) -> Mask | None:
    """(n,) bool: rows of the subgroup; None where none is asked for."""
    given = [labels is not None, groups is not None, subgroup is not None]
    if not any(given):
        return None
    if labels is None or groups is None or subgroup is None:
        raise InputError("A subgroup needs three things: labels, groups, and which group and label to pick from.")
    wanted = subgroup.split(",") if isinstance(subgroup, str) else list(subgroup)
    if len(wanted) != 2:
        raise InputError(f"The subgroup has {len(wanted)} parts: pass a group and a label, as in 0,1.")
    mask = _equal(_column(groups, "groups", n), wanted[0]) & _equal(_column(labels, "labels", n), wanted[1])
    if not mask.any():
        raise InputError("No row is in the subgroup asked for: check its group and label against the two files.")
    return np.asarray(mask)


def _column(source: Source, what: str, n: int) -> npt.NDArray[Any]:
    column = _opened(source, what)
    if column.shape != (n,):
        raise InputError(f"The {what} have shape {column.shape} and the embeddings {n} rows: pass one value per row.")
    return column


def _equal(column: npt.NDArray[Any], wanted: Any) -> Mask:
    """Where a column has this value, numbers compared as numbers even if it is given as text."""
    if column.dtype.kind in "biuf":
        try:
            return np.asarray(column == float(wanted))
        except ValueError:
            return np.zeros(len(column), dtype=bool)
    return np.asarray(column.astype(str) == str(wanted).strip())
