"""Rows by the ids their owner knows them by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Int = npt.NDArray[np.int64]
Ids = npt.NDArray[Any]


def checked_ids(ids: Ids, n: int) -> Ids:
    """One id per row, none twice."""
    if ids.shape != (n,):
        raise InputError(f"There are ids of shape {ids.shape} and {n} rows of embeddings: pass one id per row.")
    if ids.dtype.kind not in "iuUS":
        raise InputError(f"The ids are {ids.dtype}: pass whole numbers or texts.")
    ordered = np.sort(ids)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise InputError(f"The id {twice[0]} stands for more than one row ({len(twice)} such): ids must be unique.")
    return ids


def rows_of(ids: Ids, wanted: Ids) -> Int:
    """The row of each of these ids; an id of nobody is an error."""
    if wanted.ndim != 1:
        raise InputError(f"The answered ids have shape {wanted.shape}: pass a list of them.")
    if not len(wanted):
        return np.empty(0, dtype=np.int64)
    if _kind(wanted) != _kind(ids):
        raise InputError(f"The answered ids are {wanted.dtype} and the pool's {ids.dtype}: write both alike.")
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
    rows = order[place]
    strangers = wanted[ids[rows] != wanted]
    if len(strangers):
        raise InputError(
            f"{len(strangers)} answered id(s) are not among the pool's, the first is {strangers[0]}: are these the ids "
            "of this matrix?"
        )
    return np.asarray(rows, dtype=np.int64)


def _kind(ids: Ids) -> str:
    return "number" if ids.dtype.kind in "iu" else ids.dtype.kind
