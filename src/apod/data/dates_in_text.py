"""Dates and times of day as people write them, as numbers: days since 1970, hours since midnight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}[-. ]+[A-Za-z]{3,9}[-., ]+\d{2,4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}"
)
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.\d+)?)?")
_FORMATS = {
    "year-month-day": ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d"),
    "day.month.year": ("%d.%m.%Y", "%d.%m.%y"),
    "day/month/year": ("%d/%m/%Y", "%d-%m-%Y", "%d/%m/%y", "%d-%m-%y"),
    "month/day/year": ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y", "%m-%d-%y"),
    "day month year": ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%d. %B %Y"),
    "month day, year": ("%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
}
_CLOCKS = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %H:%M:%S.%f",
    "T%H:%M",
    "T%H:%M:%S",
    "T%H:%M:%S.%f",
    "T%H:%M:%S%z",
    "T%H:%M:%S.%f%z",
)
_DAY = 86_400_000_000


@dataclass(frozen=True, eq=False)
class Dates:
    """Distinct cells as numbers, NaN where a cell is no date of this order, and the orders that fit as well."""

    order: str  # in words
    days: npt.NDArray[np.float64]  # (cells,)
    orders: tuple[str, ...]  # all that fit as many cells and give other days


def dates(cells: Sequence[str]) -> Dates | None:
    """What most cells are as dates, by the order of day, month and year that fits most of them; None: they are not."""
    likely = [bool(_DATE.match(cell)) for cell in cells[:200]]
    if not likely or sum(likely) < 0.5 * len(likely):
        return None
    texts = pd.Series(list(cells), dtype=object)
    read = {order: _days(texts, patterns) for order, patterns in _FORMATS.items()}
    fitting = {order: int((~np.isnan(days)).sum()) for order, days in read.items()}
    best = max(fitting, key=lambda order: fitting[order])
    if fitting[best] == 0:
        return None
    tied = [
        o for o in fitting if fitting[o] == fitting[best] and not np.array_equal(read[o], read[best], equal_nan=True)
    ]
    return Dates(best, read[best], (best, *tied) if tied else ())


def days_of(column: pd.Series[pd.Timestamp]) -> npt.NDArray[np.float64]:
    """Days since 1970 of a column of dates, NaN where one is missing."""
    moments = pd.to_datetime(column, utc=True).astype("datetime64[us, UTC]")
    days = moments.astype("int64").to_numpy(dtype=np.float64) / _DAY
    return np.where(moments.isna().to_numpy(), np.nan, days)


def hours(cells: Sequence[str]) -> npt.NDArray[np.float64] | None:
    """Times of day in hours; None where a cell is none."""
    found = [_TIME_OF_DAY.fullmatch(cell) for cell in cells]
    if not found or any(match is None for match in found):
        return None
    parts = [[int(part or 0) for part in match.groups()] for match in found if match is not None]
    return np.asarray(np.array(parts, dtype=np.float64) @ np.array([1, 1 / 60, 1 / 3600]))


def _days(texts: pd.Series[str], patterns: Sequence[str]) -> npt.NDArray[np.float64]:
    """(cells,) by the first pattern that fits a cell."""
    days = np.full(len(texts), np.nan)
    for pattern in patterns:
        for clock in _CLOCKS:
            left = np.isnan(days)
            if left.any():
                moments = pd.to_datetime(texts[left], format=pattern + clock, errors="coerce", utc=True)
                days[left] = days_of(moments)
    return days
