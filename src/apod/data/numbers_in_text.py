"""Numbers as people write them: 1,234.50 · 1.234,50 · $ 99 · 45 % · (1,200) · 1'000.

A cell is read in one of two ways, by its decimal sign: point (thousands are set off by comma, apostrophe or blank) or
comma (thousands are set off by point, apostrophe or blank). A column is read one way throughout. Where both ways fit,
the rest of the table decides; where nothing does, three digits after a comma are thousands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

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
