"""Acceptance criteria: a bound on one number, fixed before the first question; is it met, and how certain is that?

gap:sex <= 0.05        METRIC[:ATTRIBUTE] <= NUMBER, or >= NUMBER
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NotRequired, TypedDict

from apod.errors import InputError

OVERALL = ("accuracy", "balanced_accuracy")
"""Numbers over everybody: no attribute belongs to them."""

CRITERION_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "gap": "gap between the groups, of what is equalised",
        "demographic_parity_difference": "highest minus lowest selection rate",
        "equalized_odds_difference": "larger of the differences in TPR and FPR",
        "impact_ratio": "lowest selection rate over the highest",
        "eop": "TPR of the first group over that of the reference",
        "accuracy": "share of right decisions",
        "balanced_accuracy": "mean of the two labels' shares of right decisions",
    }
)
"""What a criterion may be about, in words."""

_FORM = re.compile(r"\s*(?P<metric>[a-z_]+)\s*(?::(?P<attribute>.*?))?\s*(?P<relation><=|>=)\s*(?P<number>\S+)\s*")

Outcome = Literal["met", "not met", "not decided", "not measured"]


@dataclass(frozen=True)
class Criterion:
    """METRIC[:ATTRIBUTE] <= or >= NUMBER."""

    metric: str
    attribute: str | None
    relation: Literal["<=", ">="]
    number: float

    @property
    def text(self) -> str:
        """As it is written."""
        named = self.metric if self.attribute is None else f"{self.metric}:{self.attribute}"
        return f"{named} {self.relation} {self.number:g}"

    def holds(self, value: float) -> bool:
        """Whether a value is on the right side."""
        return value <= self.number if self.relation == "<=" else value >= self.number

    def check_attribute(self, attribute: str) -> None:
        """InputError where the criterion is about another attribute than the one whose groups are compared."""
        if self.attribute is not None and self.attribute != attribute:
            raise InputError(
                f"The criterion {self.text!r} is about {self.attribute!r}, and the groups compared are those of "
                f"{attribute!r}: write {self.metric}:{attribute}, or leave the attribute out."
            )


def parse_criterion(text: str) -> Criterion:
    """The criterion of a text; InputError in one line where it cannot be one."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise InputError(
            f"The criterion {text!r} cannot be read: write METRIC[:ATTRIBUTE] <= NUMBER, as gap:sex <= 0.05."
        )
    metric, attribute = found["metric"], (found["attribute"] or "").strip() or None
    if metric not in CRITERION_METRICS:
        raise InputError(f"The criterion's metric {metric!r} is none of {', '.join(CRITERION_METRICS)}.")
    if attribute is not None and metric in OVERALL:
        raise InputError(f"{metric} is over everybody and has no attribute: write {metric} {found['relation']} NUMBER.")
    try:
        number = float(found["number"])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"The criterion's bound {found['number']!r} is no number: write it as 0.05.")
    return Criterion(metric, attribute, "<=" if found["relation"] == "<=" else ">=", number)


def outcome(criterion: Criterion, value: float | None, low: float | None, high: float | None) -> Outcome:
    """Met or not where the whole interval says so; not decided where the bound lies inside it."""
    if low is None or high is None:
        return "not measured" if value is None else "met" if criterion.holds(value) else "not met"
    ends = criterion.holds(low), criterion.holds(high)
    return "met" if all(ends) else "not decided" if any(ends) else "not met"


class CriterionJson(TypedDict):
    """A criterion and the moment it was fixed in JSON."""

    text: str
    fixed_at: str
    answers_then: NotRequired[int]
    reason: NotRequired[str | None]


@dataclass(frozen=True)
class FixedCriterion:
    """A criterion and the moment it was fixed, with what replaced it where somebody changed it."""

    text: str
    fixed_at: str  # UTC
    answers_then: int = 0  # given before it was fixed: 0 for one that was fixed beforehand
    reason: str | None = None  # why it replaced an earlier one

    def to_dict(self) -> CriterionJson:
        """For JSON."""
        return {
            "text": self.text,
            "fixed_at": self.fixed_at,
            "answers_then": self.answers_then,
            "reason": self.reason,
        }
