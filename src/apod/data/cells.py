"""Cells of text as people write them: numbers, dates and times, and texts that no spreadsheet runs.

A text that a spreadsheet would take for a formula (it begins with = + - @, a tab or a line break) is written with an
apostrophe before it, and one that looks as if it had been written so gets another; reading takes one away again. So
what goes out comes back the same, whatever it is.

A cell is read in one of two ways, by its decimal sign: point (thousands are set off by comma, apostrophe or blank) or
comma (thousands are set off by point, apostrophe or blank). A column is read one way throughout. Where both ways fit,
the rest of the table decides; where nothing does, three digits after a comma are thousands.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.errors import InputError

_FORMULA = r"(\s*[=+\-@＝＋－＠]|[\t\r\n])"
_DANGEROUS, _ESCAPED = re.compile("'*" + _FORMULA), re.compile("'+" + _FORMULA)


def escaped(text: str) -> str:
    """The text as it is written."""
    return f"'{text}" if _DANGEROUS.match(text) else text


def unescaped(cell: str) -> str:
    """The text that was written."""
    return cell[1:] if _ESCAPED.match(cell) else cell


def write_cells(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A file in UTF-8; texts are escaped, None is an empty cell."""
    lines = [header, *([escaped(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)]
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines).encode()


def read_cells(data: bytes) -> list[dict[str, str]]:
    """The rows by column name; InputError where this is no table. Blank lines count for nothing."""
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise InputError("The file is not comma-separated text in UTF-8: nothing was imported.") from None
    header, *rows = [line for line in lines if line] or [[]]
    if not header:
        raise InputError("The file is empty: it needs a line of column names.")
    if len(set(header)) < len(header):
        raise InputError("Two columns of the file have the same name: nothing was imported.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InputError(
                f"Row {number} of the file has {len(row)} cells under {len(header)} column names: nothing was imported."
            )
    return [dict(zip(header, map(unescaped, row), strict=True)) for row in rows]


def _quoted(cell: object) -> str:
    text = "" if cell is None else str(cell)
    if not re.search('[",\r\n]|^\\s|\\s$', text):
        return text
    return '"' + text.replace('"', '""') + '"'


Decimal = Literal[".", ","]
DECIMALS: tuple[Decimal, Decimal] = (".", ",")

_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY"
_SIGNS = rf"(?:US|C|A|R)?\$|[€£¥₹₽₩₺]|(?:{_CODES})"
_CELL = re.compile(
    rf"(?P<open>\()?\s*(?P<minus>[-−+])?\s*(?P<before>{_SIGNS})?\s*(?P<inner>[-−])?"
    r"(?P<digits>\d(?:[\d.,'’_\s]*\d)?\.?|[.,]\d+)(?P<power>[eE][-+]?\d{1,3})?"
    rf"\s*(?P<after>%|{_SIGNS})?\s*(?P<trailing>[-−])?\s*(?P<close>\))?"
)
_BLANK = r"['’_\s]"
_WAYS = {
    ".": re.compile(rf"\d+\.?|\d*\.\d+|[1-9]\d{{0,2}}(?:(?P<t>,|{_BLANK})\d{{3}})(?:(?P=t)\d{{3}})*(?:\.\d+)?|"
                    r"[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?"),
    ",": re.compile(rf"\d+|\d*,\d+|[1-9]\d{{0,2}}(?:(?P<t>\.|{_BLANK})\d{{3}})(?:(?P=t)\d{{3}})*(?:,\d+)?"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Numerals:
    """What the distinct cells of a column are as numbers, read either way; NaN where a cell is none."""

    values: dict[Decimal, npt.NDArray[np.float64]]  # (cells,) each
    units: tuple[str, ...]  # (cells,) %, a currency, or nothing
    plain: bool  # whether all of them are spelled without units and separators of thousands

    def fits(self, way: Decimal) -> bool:
        """Whether every cell is a number, read this way."""
        return bool(len(self.units)) and not bool(np.isnan(self.values[way]).any())

    @property
    def certain(self) -> Decimal | None:
        """The only way this column can be read; None where both fit, or neither."""
        fitting = [way for way in DECIMALS if self.fits(way)]
        return fitting[0] if len(fitting) == 1 else None

    @property
    def undecided(self) -> bool:
        """Whether both ways fit and give different numbers."""
        return all(map(self.fits, DECIMALS)) and not np.array_equal(self.values["."], self.values[","])


def numerals(cells: Sequence[str]) -> Numerals:
    """The numbers that distinct cells spell."""
    found = [_CELL.fullmatch(cell.strip()) for cell in cells]
    values = {way: np.array([_value(match, way) for match in found], dtype=np.float64) for way in DECIMALS}
    units = tuple("" if match is None else match["before"] or match["after"] or "" for match in found)
    plain = all(match is not None and re.fullmatch(r"[-+]?[\d.]+(?:[eE].*)?", match[0]) is not None for match in found)
    return Numerals(values, units, plain)


def _value(match: re.Match[str] | None, way: Decimal) -> float:
    if match is None or _contradicts(match):
        return float("nan")
    digits = match["digits"]
    if _WAYS[way].fullmatch(digits) is None:
        return float("nan")
    kept = re.sub(r"[^\d.]" if way == "." else r"[^\d,]", "", digits).replace(",", ".")
    size = float(kept + (match["power"] or ""))
    negative = match["minus"] in ("-", "−") or match["inner"] or match["trailing"] or match["open"]
    return -size if negative else size


def _contradicts(match: re.Match[str]) -> bool:
    """Whether brackets are open, a number has two signs, or two units."""
    signs = sum(bool(match[part]) for part in ("minus", "inner", "trailing", "open"))
    return bool(match["open"]) != bool(match["close"]) or signs > 1 or bool(match["before"] and match["after"])


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
