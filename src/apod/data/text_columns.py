"""A column of texts: the numbers, words for yes and no, dates or categories that its cells spell.

Rules
- Numbers in any common spelling (`numbers_in_text`) are numbers. Mostly numbers and some other text are refused, unless
  the text is one of `PLACEHOLDERS`: those are missing cells.
- Words for yes and no are 1 and 0. Dates become days, times of day hours. All other texts are categories.
- Blanks around a text do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.cells import DECIMALS, Decimal, Numerals, dates, hours, numerals
from apod.data.dataset import as_frame, category_name, is_number
from apod.errors import InputError

TextKind = Literal["number", "yes or no", "date", "time of day", "category"]

MOSTLY = 0.9  # share of numbers, or of dates, from which other text in a column is a slip, not a category
SAMPLE = 1000  # distinct numbers that show whether a column of plain numbers has decimal points
MANY_WORDS = 10_000  # distinct texts beyond which spellings are not compared
PLACEHOLDERS = frozenset(
    {"?", "-", "--", "---", ".", "..", "...", "/", "n/a", "na", "n.a.", "nan", "null", "none", "nil", "missing"}
    | {"unknown", "not available", "not applicable", "not recorded", "no data", "k.a.", "tbd", "#n/a", "#null!"}
    | {"#div/0!", "#value!", "#ref!", "#name?", "#num!"}
)  # fmt: skip
YES = frozenset({"yes", "y", "true", "t", "1", "ja", "j", "wahr", "oui", "vrai", "si", "sí", "sim", "on"})
NO = frozenset({"no", "n", "false", "f", "0", "nein", "falsch", "non", "faux", "não", "off"})


@dataclass
class Text:
    """A column of texts: its distinct cells without blanks around them, and where each stands."""

    codes: npt.NDArray[np.int64]  # (n,) -1 where the cell is missing
    cells: list[str]
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """(cells,) how many rows have each."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.cells))

    def spread(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """(n,) from a value per distinct cell; NaN where the cell is missing."""
        return np.append(values, np.nan)[self.codes]

    def first(self, chosen: npt.NDArray[np.bool_]) -> str:
        """The first row that has one of these cells, and the cell."""
        row = int(np.flatnonzero(np.append(chosen, False)[self.codes])[0])
        return f"data row {row + 1}: {self.cells[self.codes[row]][:40]!r}"


def text_of(column: pd.Series[Any]) -> Text | None:
    """The column as distinct texts; None where it is typed, or holds what is neither number nor text."""
    if is_number(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    try:
        settled = as_frame(column.to_frame("x"))["x"]
        if is_number(settled):
            return None
        codes, found = pd.factorize(settled)
        cells = [category_name("x", cell) for cell in found]
    except (InputError, TypeError):
        return None
    short: dict[str, int] = {}
    places = [short.setdefault(cell.strip(), len(short)) for cell in cells]
    stray = np.array([cell != cell.strip() for cell in cells], dtype=bool)
    empty = short.get("", -1)
    moved = np.array([*places, -1], dtype=np.int64)[codes]
    moved = np.where(moved == empty, -1, moved - (moved > empty) * (empty >= 0))
    text = Text(moved, [cell for cell in short if cell])
    if stray.any():
        rows = int(np.append(stray, False)[codes].sum())
        text.notes.append(f"has blanks around the text in {rows} cell(s), which do not count")
    return text


def decimal_of(texts: Sequence[Text]) -> Decimal | None:
    """The decimal sign of the columns that can be read one way only, where they agree."""
    found = set()
    for text in texts:
        signed = [cell for cell in text.cells[: 20 * SAMPLE] if "." in cell or "," in cell][:SAMPLE]
        if signed and (way := numerals(signed).certain) is not None:
            found.add(way)
    return found.pop() if len(found) == 1 else None


def finite(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """The number column; InputError where one of its numbers is infinite."""
    bad = np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if bad.any():
        raise InputError(
            f"Number column {name!r} has an infinite value (inf) in data row {int(np.flatnonzero(bad)[0]) + 1} "
            f"({int(bad.sum())} in all): write a number, or leave the cell empty."
        )
    return column


def read_text(
    name: str, text: Text, index: pd.Index[Any], decimal: Decimal | None, given: bool
) -> tuple[TextKind, pd.Series[Any], list[str]]:
    """What the texts of a column are."""
    plain = _plain_numbers(text, decimal)
    if plain is not None:
        return "number", finite(name, pd.Series(plain, index=index)), text.notes
    words = {cell.casefold() for cell in text.cells}
    if words <= YES | NO and words & YES and words & NO:  # 1 and 0 alone are numbers
        ones = np.array([float(cell.casefold() in YES) for cell in text.cells])
        return "yes or no", pd.Series(text.spread(ones), index=index), text.notes
    values, notes = _spelled_numbers(name, text, decimal, given)
    if values is not None:
        return "number", pd.Series(values, index=index), [*text.notes, *notes]
    if (found := hours(text.cells)) is not None:
        return (
            "time of day",
            pd.Series(text.spread(found), index=index),
            [*text.notes, "holds times of day: a feature in hours"],
        )
    values, notes = _spelled_dates(name, text)
    if values is not None:
        return "date", pd.Series(values, index=index), [*text.notes, *notes]
    cells = np.array([*text.cells, None], dtype=object)[text.codes]
    return "category", pd.Series(cells, index=index, dtype=object).astype("category"), [*text.notes, *_variants(text)]


def _plain_numbers(text: Text, decimal: Decimal | None) -> npt.NDArray[Any] | None:
    """(n,) where every cell is a number as programs write it, and the table's decimal sign is no comma."""
    cells = pd.Series(text.cells, dtype=object)
    numbers = pd.to_numeric(cells, errors="coerce")
    if not len(cells) or numbers.isna().any():
        return None
    if decimal == "," and any("." in cell for cell in text.cells) and numerals(text.cells).fits(","):
        return None  # 1.234 is a number in thousands here
    if (text.codes < 0).any():
        return text.spread(numbers.to_numpy(dtype=np.float64))
    return np.asarray(numbers.to_numpy())[text.codes]


def _spelled_numbers(
    name: str, text: Text, decimal: Decimal | None, given: bool
) -> tuple[npt.NDArray[np.float64] | None, list[str]]:
    """(n,) numbers as people write them, and how they were read; None where the column holds other text."""
    found, counts = numerals(text.cells), text.counts
    holds = np.array([cell.casefold() in PLACEHOLDERS for cell in text.cells], dtype=bool)
    total = int(counts[~holds].sum())
    if not total:
        return None, []
    share = {way: counts[~holds & ~np.isnan(found.values[way])].sum() / total for way in DECIMALS}
    way = _way(found, share, holds, decimal, given, name)
    if share[way] < MOSTLY:
        return None, []
    other = ~holds & np.isnan(found.values[way])
    if other.any():
        raise InputError(
            f"Number column {name!r} has text in {text.first(other)} ({int(counts[other].sum())} in all). "
            "Correct it; if the column is a category, spell all its cells as words; or drop the column."
        )
    notes = _how(name, text, found, way, holds)
    return text.spread(np.where(holds, np.nan, found.values[way])), notes


def _way(
    found: Numerals,
    share: dict[Decimal, Any],
    holds: npt.NDArray[np.bool_],
    decimal: Decimal | None,
    given: bool,
    name: str,
) -> Decimal:
    """The decimal sign to read a column with."""
    better: Decimal = "," if share[","] > share["."] else "."
    if decimal is None or share[decimal] == share[better]:
        return decimal or better
    if given and share[better] >= MOSTLY:
        raise InputError(
            f"Column {name!r} has numbers with the decimal sign {better!r}, and --decimal is {decimal!r}: leave "
            "--decimal out, so that each column's is recognised."
        )
    return better


def _how(name: str, text: Text, found: Numerals, way: Decimal, holds: npt.NDArray[np.bool_]) -> list[str]:
    """How spelled numbers were read; InputError where their units differ."""
    numbers = [(cell, unit) for cell, unit, out in zip(text.cells, found.units, holds, strict=True) if not out]
    units = {unit for _, unit in numbers if unit}
    if "%" in units and len({unit for _, unit in numbers}) > 1:
        raise InputError(f"Column {name!r} has a % sign in some cells and not in others: write all of them one way.")
    if len(units) > 1:
        raise InputError(
            f"Column {name!r} holds amounts in several currencies ({', '.join(sorted(units))}): convert them to one."
        )
    notes = []
    if "%" in units:
        notes.append("holds percentages: read as numbers, 45 % as 45")
    elif units:
        notes.append(f"holds amounts in {units.pop()}: read as numbers")
    other = next((cell for cell, _ in numbers if "," in cell or ("." in cell and way == ",")), None)
    if other is not None:
        value = found.values[way][text.cells.index(other)]
        remedy = f"; --decimal {'.' if way == ',' else ','} reads them the other way" if found.undecided else ""
        notes.append(f"has numbers with separators: {other!r} is read as {value:.15g}{remedy}")
    if holds.any():
        cells = int(text.counts[holds].sum())
        shown = ", ".join(repr(cell) for cell, out in zip(text.cells, holds, strict=True) if out)
        notes.append(f"has {cells} cell(s) that say {shown}, which counts as missing")
    return notes


def _spelled_dates(name: str, text: Text) -> tuple[npt.NDArray[np.float64] | None, list[str]]:
    """(n,) days, and how they were read; None where the column holds other text."""
    holds = np.array([cell.casefold() in PLACEHOLDERS for cell in text.cells], dtype=bool)
    kept = [cell for cell, out in zip(text.cells, holds, strict=True) if not out]
    found = dates(kept)
    if found is None:
        return None, []
    days = np.full(len(text.cells), np.nan)
    days[~holds] = found.days
    bad = ~holds & np.isnan(days)
    if text.counts[bad].sum() > (1 - MOSTLY) * text.counts[~holds].sum():
        return None, []
    if bad.any():
        raise InputError(
            f"Date column {name!r} has what is no date in {text.first(bad)} ({int(text.counts[bad].sum())} in all): "
            "correct it, or leave the cell empty."
        )
    if found.orders:
        raise InputError(
            f"Dates in column {name!r} can be read as {' or '.join(found.orders)}: write them as year-month-day."
        )
    return text.spread(days), [f"holds dates ({found.order}): a feature in days"]


def _variants(text: Text) -> list[str]:
    """A note where words differ by capitals or inner blanks alone."""
    if len(text.cells) > MANY_WORDS:
        return []
    spelled: dict[str, list[str]] = {}
    for cell in text.cells:
        spelled.setdefault(one_spelling(cell), []).append(cell)
    twice = [" / ".join(cells) for cells in spelled.values() if len(cells) > 1]
    if not twice:
        return []
    more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
    return [
        f"spells the same in more than one way ({', '.join(twice[:3])}{more}): they count as different categories; "
        "write each one way"
    ]


def one_spelling(text: str) -> str:
    """The text without differences of capitals and blanks."""
    return " ".join(text.casefold().split())
