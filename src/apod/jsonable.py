"""Numbers and structures as JSON can hold them: what is not finite becomes null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


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
