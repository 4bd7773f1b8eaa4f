"""Text and numbers from elsewhere as a terminal, a log and JSON can hold them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # C0 and C1: ESC begins commands to the terminal, a line break forges a line
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional: what is read is not what is there
    r"\u2028\u2029"  # line and paragraph separators
    r"\ud800-\udfff]"  # lone surrogates, as in file names that are no UTF-8: they cannot be encoded
)


def printable(text: object) -> str:
    r"""The text on one line, with everything that steers a terminal written out: ESC becomes `\u001b`."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


def number(value: float) -> float | None:
    """A JSON number; undefined and infinite are null."""
    return float(value) if math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Mappings, sequences and NumPy's scalars and arrays as dicts, lists and numbers; keys become text."""
    if isinstance(value, float):
        return number(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if hasattr(value, "tolist"):  # NumPy's
        return plain(value.tolist())
    return [plain(part) for part in value]
