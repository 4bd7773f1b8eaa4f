"""Numbers as a reader sees them: rates in percent, differences in percentage points, undefined as a dash."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

UNDEFINED = "–"

Value = float | int | None
Span = tuple[float, float]


def defined(value: Value) -> bool:
    """Whether there is a number."""
    return value is not None and math.isfinite(value)


def span(pair: Sequence[Value] | None) -> Span | None:
    """An interval's two ends, or None where it is undefined."""
    if pair is None or len(pair) != 2 or pair[0] is None or pair[1] is None:
        return None
    return (float(pair[0]), float(pair[1])) if defined(pair[0]) and defined(pair[1]) else None


def count(value: Value) -> str:
    """1234 as 1,234."""
    return UNDEFINED if value is None else f"{value:,.0f}"


def percent(value: Value, digits: int = 1) -> str:
    """.8471 as 84.7%."""
    return UNDEFINED if value is None or not defined(value) else f"{100 * value + 0.0:.{digits}f}%"


def points(value: Value, digits: int = 1) -> str:
    """A difference of rates, .168, as 16.8 (percentage points; the unit is said by the text around it)."""
    return UNDEFINED if value is None or not defined(value) else f"{_rounded(100 * value, digits):.{digits}f}"


def signed_points(value: Value, digits: int = 1) -> str:
    """A change, -.0031, as −0.3 with a real minus sign; what rounds to nothing is ±0.0."""
    if value is None or not defined(value):
        return UNDEFINED
    rounded = _rounded(100 * value, digits)
    sign = "±" if rounded == 0 else "+" if rounded > 0 else "−"
    return f"{sign}{abs(rounded):.{digits}f}"


def plain(value: Value, digits: int = 3) -> str:
    """A number of any size to three significant digits."""
    if value is None or not defined(value):
        return UNDEFINED
    size = abs(value)
    if size >= 1e5 or 0 < size < 1e-4:
        return f"{value:.1e}".replace("-", "−")
    return (f"{value:,.0f}" if size >= 1000 else f"{value:.{digits}g}").replace("-", "−")


def decimal(value: Value, digits: int = 3) -> str:
    """A number with fixed decimals, as the paper prints EOP and Delta-EO."""
    return (
        UNDEFINED if value is None or not defined(value) else f"{_rounded(value, digits):.{digits}f}".replace("-", "−")
    )


def percent_span(pair: Sequence[Value] | None) -> str:
    """An interval of rates: 83.8 to 85.0."""
    ends = span(pair)
    return "" if ends is None else f"{points(ends[0])} to {points(ends[1])}"


def within(estimate: Mapping[str, Any] | None, show: Callable[[Value], str] = points) -> str:
    """An estimate with its interval, 13.3 (6.8 to 14.4); the interval alone where answers are too few for one."""
    if estimate is None or not (defined(estimate["low"]) and defined(estimate["high"])):
        return "not known"
    ends = f"{show(estimate['low'])} to {show(estimate['high'])}"
    return f"{show(estimate['value'])} ({ends})" if defined(estimate["value"]) else ends


def label_name(name: str) -> str:
    """A label by name; a bare number says that it is one: label 1."""
    return f"label {name}" if str(name).lstrip("-").replace(".", "", 1).isdigit() else str(name)


def seconds(value: Value) -> str:
    """A duration."""
    return UNDEFINED if value is None else f"{value:.1f} s" if value >= 0.95 else f"{1000 * value:.0f} ms"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def plural(number: int, one: str, many: str | None = None) -> str:
    """1 answer, 30 answers."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _rounded(value: float, digits: int) -> float:
    return round(value, digits) + 0.0  # + 0.0 turns -0.0 into 0.0
