"""Estimates, and the types of an audit in JSON: as `apod audit --json`, result.json and campaigns have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from apod.fairness.metrics import RateName


class EstimateJson(TypedDict):
    """A number and its interval in JSON; null where nothing can be said."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; None where nothing can be said."""

    value: float | None
    low: float | None
    high: float | None

    def to_dict(self) -> EstimateJson:
        """For JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def span(self) -> Estimate:
        """The interval alone."""
        return Estimate(None, self.low, self.high)

    def to_one(self) -> Estimate:
        """1 minus this."""
        return Estimate(*(None if end is None else 1 - end for end in (self.value, self.high, self.low)))

    @property
    def width(self) -> float | None:
        """Of the interval."""
        return None if self.low is None or self.high is None else self.high - self.low


NOTHING = Estimate(None, None, None)
"""Where nothing can be said."""


class ChangedRatesJson(TypedDict):
    """By how much a group's rates change."""

    tpr: EstimateJson
    fpr: EstimateJson
    selection_rate: EstimateJson
    precision: NotRequired[EstimateJson]  # from version 0.2 on


class AuditedGroupJson(ChangedRatesJson):
    """A group's rates, how many of the table are of it, and its impact ratio."""

    people: EstimateJson
    impact_ratio: EstimateJson


class BoundsJson(TypedDict):
    """The smallest and the largest gap that the data allow; null where a group has nobody to measure on."""

    low: float | None
    high: float | None


class DifferencesJson(TypedDict):
    """Differences between the groups, one per rate."""

    tpr_difference: EstimateJson
    fpr_difference: EstimateJson
    selection_rate_difference: EstimateJson
    precision_difference: NotRequired[EstimateJson]


class ClassicalJson(TypedDict):
    """Differences from the answers alone; null beyond two groups."""

    tpr_difference: EstimateJson | None
    fpr_difference: EstimateJson | None


class ProxyJson(TypedDict):
    """How far proxies were used, and what share of variance they left, for label 0 and 1."""

    power: list[float]
    residual: list[float]


class CellsJson(TypedDict):
    """Answers and people of the cells label x decision, 00 01 10 11."""

    answers: list[int]
    people: list[int]


class ViewJson(DifferencesJson):
    """One set of predictions in JSON."""

    groups: dict[str, AuditedGroupJson]
    gap: EstimateJson
    bounds: BoundsJson
    by_proxies: float | None
    classical: ClassicalJson
    proxy: ProxyJson
    cells: CellsJson


ChangeEnds = TypedDict("ChangeEnds", {"from": str, "to": str})
"""Which predictions are compared."""


class ChangeJson(ChangeEnds, DifferencesJson):
    """The second set of predictions against the first in JSON."""

    gap: EstimateJson
    groups: dict[str, ChangedRatesJson]


class ToldJson(TypedDict):
    """How many answers there are of a group, by label."""

    negative: int
    positive: int


class AnswersJson(TypedDict):
    """How many answers an audit rests on."""

    drawn: int
    told: int
    silent: int


class PlannedJson(TypedDict):
    """Further answers that make the differences known within so much; null: more than there are people."""

    within: float
    more: int | None


class AuditJson(TypedDict):
    """An audit in JSON, as `apod audit --json` prints it."""

    group_names: list[str]
    reference: str
    notion: str
    people: int
    answers: AnswersJson
    level: float
    predictions: dict[str, ViewJson]
    change: ChangeJson | None
    plan: list[PlannedJson]
    notes: list[str]


def rates_json(found: Mapping[str, EstimateJson]) -> ChangedRatesJson:
    """Every rate by its name."""
    return {
        "tpr": found["tpr"],
        "fpr": found["fpr"],
        "selection_rate": found["selection_rate"],
        "precision": found["precision"],
    }


def group_json(found: Mapping[str, EstimateJson]) -> AuditedGroupJson:
    """Every rate by its name, how many people there are, and the impact ratio."""
    return {**rates_json(found), "people": found["people"], "impact_ratio": found["impact_ratio"]}


def differences_json(found: Mapping[RateName, EstimateJson]) -> DifferencesJson:
    """The difference of every rate."""
    return {
        "tpr_difference": found["tpr"],
        "fpr_difference": found["fpr"],
        "selection_rate_difference": found["selection_rate"],
        "precision_difference": found["precision"],
    }
