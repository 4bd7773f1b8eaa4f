"""What more answers would bring: the expected gap against their number, and whether it is worth asking for them.

How wide the posterior of f_a will be after n more answers is known beforehand (`method.proxy`); where it will lie is
not. The outlook takes it to stay where it is: the gap to expect of the head that would be chosen, if the answers to
come bear out what f_a says now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from apod.text import number

if TYPE_CHECKING:  # campaigns read expected gaps without loading what computes them
    from apod.heads.bank import HeadBank
    from apod.method.choice import HeadChoice
    from apod.method.head_mitigation import Mitigation
    from apod.method.pool import Pool

FURTHER = (1.25, 1.5, 2.0, 3.0, 4.0)
"""How far a look ahead goes from the answers there are, as multiples of them."""

WITHHELD = (
    "Withheld: this posterior is known to be too sure. On tables with recorded groups the gap lies above its 95 % "
    "intervals far too often, so neither they nor the expected gaps are shown."
)
"""Said wherever a gap to expect would stand, while no posterior covers (`Proxy.covers`)."""


Verdict = Literal["passed", "shrunk", "failed", "not verified"]
"""What fresh answers say of a correction (`method.verification`)."""


class OutlookJson(TypedDict):
    """The gap to expect after so many answers in JSON; undefined is null."""

    answers: int
    gap: float | None
    interval: list[float | None]
    strength: float | None
    gain: NotRequired[float | None]  # over the gap to expect now


class CorrectionOutlookJson(TypedDict):
    """What more answers would bring of a corrected model in JSON; undefined is null."""

    answers: int  # to train on, that the budget allows in all
    smallest_gap: float | None  # that so many random answers alone tell from none
    confirming_answers: int | None  # fresh ones that would confirm the leading correction; null: more than 1,000
    probability: float  # with which they would, and with which that gap is told
    expected_share: float | None
    chance_share: float | None
    gain: float | None  # by which the rest is expected to raise what the choice maximises; null where nothing tells


class ConfirmingJson(TypedDict):
    """How many fresh answers would confirm the leading correction in JSON; null: more than 1,000."""

    confirming_answers: int | None
    probability: float


@dataclass(frozen=True)
class ExpectedGap:
    """The gap to expect after so many answers, of the head that would be chosen then; NaN where nothing tells."""

    answers: int
    gap: float  # expected, by the notion that is equalised
    low: float  # 95 % credible interval of it
    high: float
    strength: float

    def to_dict(self) -> OutlookJson:
        """As JSON; undefined is null."""
        gap, low, high = (number(value) for value in (self.gap, self.low, self.high))
        return {"answers": self.answers, "gap": gap, "interval": [low, high], "strength": self.strength}

    @classmethod
    def from_dict(cls, entry: OutlookJson) -> ExpectedGap:
        """From JSON."""
        values = (entry["gap"], *entry["interval"], entry["strength"])
        gap, low, high, strength = (math.nan if value is None else float(value) for value in values)
        return cls(int(entry["answers"]), gap, low, high, strength)


def gain(now: ExpectedGap, later: ExpectedGap) -> float | None:
    """By how much the answers in between are expected to narrow the gap; None where that cannot be said.

    A head that decides the same for everybody has no gap in any draw, and says nothing; and answers change no
    decision where the unpenalised head would still be chosen.
    """
    narrower = now.gap - later.gap
    return narrower if now.high > 0 and later.strength > 0 and math.isfinite(narrower) else None


def is_enough(gained: float | None, least: float) -> bool:
    """Whether so little is gained that asking may end. A gap expected to grow is no reason: f_a still changes."""
    return gained is not None and 0 <= gained < least


def expected_gap(mitigation: Mitigation, bank: HeadBank, answers: int, judged_on: Pool | None = None) -> ExpectedGap:
    """The gap to expect with this many answers in all, or with those there are where they are more."""
    now = answered(mitigation)
    total = max(now, answers)
    return as_expected(mitigation, mitigation.choose(bank, more=total - now, judged_on=judged_on), total)


def as_expected(mitigation: Mitigation, choice: HeadChoice, answers: int) -> ExpectedGap:
    """What a choice expects; nothing before two groups were answered: f_a is then the prior's."""
    gap, low, high = (float(values[choice.head]) for values in (choice.gap, choice.low, choice.high))
    if len(mitigation.answers[0].groups_seen()) < 2:
        gap = low = high = math.nan
    return ExpectedGap(answers, gap, low, high, float(mitigation.strengths[choice.head]))


def look_ahead(
    mitigation: Mitigation, bank: HeadBank, judged_on: Pool | None = None, besides: Sequence[int] = ()
) -> list[ExpectedGap]:
    """The gap to expect now, with up to four times as many answers, and with these numbers of answers besides.

    There are never more answers than people.
    """
    now, people = answered(mitigation), len(mitigation.pool.labels)
    totals = {min(max(now, total), people) for total in (now, *(round(now * step) for step in FURTHER), *besides)}
    return [expected_gap(mitigation, bank, total, judged_on) for total in sorted(totals)]


def answered(mitigation: Mitigation) -> int:
    """People asked about: where annotators disagree, one stands several times in S."""
    return len(set(mitigation.answers[0].rows)) - mitigation.answers[0].handed_in
