"""What more answers would bring: the expected gap against their number, and when to stop asking.

How wide the posterior of f_a will be after n more answers is known beforehand (`apod.laplace`); where it will lie is
not. The outlook takes it to stay where it is: the gap to expect of the head that would be chosen, if the answers to
come bear out what f_a says now. What is left of the gap then is what answers cannot take away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from apod.head_selection import HeadChoice
from apod.heads import HeadBank
from apod.mitigation import Mitigation
from apod.pod import Pool

FURTHER = (1.25, 1.5, 2.0, 3.0, 4.0)
"""How far a look ahead goes from the answers there are, as multiples of them."""


@dataclass(frozen=True)
class Expected:
    """The gap to expect after so many answers, of the head that would be chosen then."""

    answers: int
    gap: float  # expected |dTPR| + |dFPR|; NaN where none can be estimated
    low: float  # 95 % credible interval of it
    high: float
    strength: float

    @classmethod
    def of(cls, choice: HeadChoice, strengths: Tensor, answers: int) -> Expected:
        """What this choice says."""
        gap, low, high = (float(values[choice.head]) for values in (choice.gap, choice.low, choice.high))
        return cls(answers, gap, low, high, float(strengths[choice.head]))

    def to_dict(self) -> dict[str, Any]:
        """As JSON; undefined is null."""
        gap, low, high = (value if value == value else None for value in (self.gap, self.low, self.high))
        return {"answers": self.answers, "gap": gap, "interval": [low, high], "strength": self.strength}


def expected_gap(
    mitigation: Mitigation, bank: HeadBank, answers: int | None = None, judged_on: Pool | None = None
) -> Expected:
    """The gap to expect with this many answers in all; with those there are, unless told."""
    now = len(mitigation.answers[0])
    total = now if answers is None else max(now, answers)
    choice = mitigation.choose(bank, more=total - now, judged_on=judged_on)
    return Expected.of(choice, mitigation.strengths, total)


def look_ahead(mitigation: Mitigation, bank: HeadBank, judged_on: Pool | None = None) -> list[Expected]:
    """The gap to expect now, and with up to four times as many answers as there are."""
    now = len(mitigation.answers[0])
    totals = sorted({now, *(round(now * step) for step in FURTHER)})
    return [expected_gap(mitigation, bank, total, judged_on) for total in totals]
