"""What a caller may hand in: rows that exist, one bool per row, at least one pick."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from apod.errors import InputError
from apod.maxmin.bounds import Mask


def checked_rows(rows: Iterable[Any], n: int) -> list[int]:
    """These rows without repeats, in order; each must be a whole number from 0 to n - 1."""
    checked: dict[int, None] = {}
    for value in rows:
        try:
            row = operator.index(value)
        except TypeError:
            raise InputError(f"{value!r} is not a row number: pass whole numbers from 0 to {n - 1}.") from None
        if not 0 <= row < n:
            raise InputError(f"Row {row} is not in the matrix: rows go from 0 to {n - 1}.")
        checked[row] = None
    return list(checked)


def checked_mask(candidates: Any, n: int) -> Mask | None:
    """The candidates as (n,) bool, or None for every row."""
    if candidates is None:
        return None
    mask = np.asarray(candidates)
    if mask.shape != (n,) or mask.dtype != np.bool_:
        raise InputError(f"candidates has shape {mask.shape} and type {mask.dtype}: pass one bool per row, ({n},).")
    return mask


def checked_count(k: int) -> int:
    """The number of picks, at least one."""
    if k < 1:
        raise InputError(f"k is {k}: ask for at least one row.")
    return k
