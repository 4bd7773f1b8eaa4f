"""What more answers would bring: the expected gap against their number.

How wide the posterior of f_a will be after n more answers is known beforehand (`method.laplace`); where it will lie is
not. The outlook takes it to stay where it is: the gap to expect of the head that would be chosen, if the answers to
come bear out what f_a says now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from apod.heads.bank import HeadBank
from apod.method.algorithm1 import Mitigation
from apod.method.expected import Expected
from apod.method.pool import Pool
from apod.method.posterior_choice import HeadChoice

FURTHER = (1.25, 1.5, 2.0, 3.0, 4.0)
"""How far a look ahead goes from the answers there are, as multiples of them."""


def expected_gap(mitigation: Mitigation, bank: HeadBank, answers: int, judged_on: Pool | None = None) -> Expected:
    """The gap to expect with this many answers in all, or with those there are where they are more."""
    now = answered(mitigation)
    total = max(now, answers)
    return as_expected(mitigation, mitigation.choose(bank, more=total - now, judged_on=judged_on), total)


def as_expected(mitigation: Mitigation, choice: HeadChoice, answers: int) -> Expected:
    """What a choice expects; nothing before two groups were told of: f_a is then the prior's."""
    gap, low, high = (float(values[choice.head]) for values in (choice.gap, choice.low, choice.high))
    if len(mitigation.answers[0].seen()) < 2:
        gap = low = high = math.nan
    return Expected(answers, gap, low, high, float(mitigation.strengths[choice.head]))


def look_ahead(
    mitigation: Mitigation, bank: HeadBank, judged_on: Pool | None = None, besides: Sequence[int] = ()
) -> list[Expected]:
    """The gap to expect now, with up to four times as many answers, and with these numbers of answers besides.

    There are never more answers than people.
    """
    now, people = answered(mitigation), len(mitigation.pool.labels)
    totals = {min(max(now, total), people) for total in (now, *(round(now * step) for step in FURTHER), *besides)}
    return [expected_gap(mitigation, bank, total, judged_on) for total in sorted(totals)]


def answered(mitigation: Mitigation) -> int:
    """People asked about: where annotators disagree, one stands several times in S."""
    return len(set(mitigation.answers[0].rows))
