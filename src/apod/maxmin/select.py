"""Selection alone, for people with their own training: embeddings in, rows to ask about out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.data.arrays import checked_ids, open_array, open_parts, rows_of
from apod.errors import InputError
from apod.jsonable import number
from apod.maxmin.coverage import Coverage, Pick, checked_count, checked_rows
from apod.maxmin.geometry import Mask
from apod.maxmin.rows import StoredRows
from apod.maxmin.shard import Shards

OpenElsewhere = Callable[[str | os.PathLike[str]], Coverage]
"""Opens the embeddings of a file or folder elsewhere than in this process."""

Source = npt.NDArray[Any] | str | os.PathLike[str]
"""An array, or the .npy file it is in."""


@dataclass(frozen=True)
class SelectResult:
    """Whom to ask about, and what finding out took."""

    picks: tuple[Pick, ...]
    seconds: float  # measuring against the answered rows and picking; without loading
    loading_seconds: float  # opening, checking every row and caching its norm: one pass
    passes: int  # over the matrix in all, the loading one included
    ids: tuple[Any, ...] | None = None  # of the picks, where rows have ids

    def to_dict(self) -> dict[str, Any]:
        """For JSON: an infinite distance (nothing was answered yet) is null."""
        picks: list[dict[str, Any]] = [{"row": pick.row, "distance": number(pick.distance)} for pick in self.picks]
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
