"""A gap to expect after so many answers, and whether the answers up to there are worth asking for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apod.jsonable import number

WITHHELD = (
    "Withheld: this posterior is known to be too sure. On tables with recorded groups the gap lies above its 95 % "
    "intervals far too often, so neither they nor the expected gaps are shown."
)
"""Said wherever a gap to expect would stand, while no posterior covers (`Proxy.covers`)."""


@dataclass(frozen=True)
class Expected:
    """The gap to expect after so many answers, of the head that would be chosen then; NaN where nothing tells."""

    answers: int
    gap: float  # expected, by the notion that is equalised
    low: float  # 95 % credible interval of it
    high: float
    strength: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON; undefined is null."""
        gap, low, high = (number(value) for value in (self.gap, self.low, self.high))
        return {"answers": self.answers, "gap": gap, "interval": [low, high], "strength": self.strength}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Expected:
        """From JSON."""
        gap, low, high = (math.nan if value is None else float(value) for value in (entry["gap"], *entry["interval"]))
        return cls(int(entry["answers"]), gap, low, high, float(entry["strength"]))


def gain(now: Expected, later: Expected) -> float | None:
    """By how much the answers in between are expected to narrow the gap; None where that cannot be told.

    A head that decides the same for everybody has no gap in any draw, and tells nothing; and answers change no
    decision where the unpenalised head would still be chosen.
    """
    narrower = now.gap - later.gap
    return narrower if now.high > 0 and later.strength > 0 and math.isfinite(narrower) else None


def is_enough(gained: float | None, least: float) -> bool:
    """Whether so little is gained that asking may end. A gap expected to grow is no reason: f_a is still unsettled."""
    return gained is not None and 0 <= gained < least
