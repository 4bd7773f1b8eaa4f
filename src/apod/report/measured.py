"""The types of what is measured on the test part, attribute by attribute, as result.json has them."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from apod.fairness.many_labels import LabelIntervals
from apod.fairness.metrics import MetricsJson

Ends = list[float | None]
"""The low and high end of a 95 % interval."""


class RateIntervals(TypedDict):
    """A group's rates, each with its interval."""

    tpr: Ends
    fpr: Ends
    selection_rate: Ends
    precision: NotRequired[Ends]
    labels: NotRequired[dict[str, LabelIntervals]]


class Intervals(TypedDict):
    """The intervals of one classifier's metrics."""

    accuracy: Ends
    balanced_accuracy: Ends
    gap: Ends
    delta_eo: Ends
    eop: Ends
    groups: dict[str, RateIntervals]


class Gap(TypedDict):
    """The gap to expect, from the answers alone."""

    gap: float | None
    interval: Ends


class MeasuredMetrics(MetricsJson):
    """What decisions achieve on the test part."""

    intervals: Intervals


class Differences(TypedDict):
    """Intervals of after minus before on the same people."""

    accuracy: Ends
    balanced_accuracy: Ends
    gap: Ends


class GroupChanges(TypedDict):
    """Whose decision changes in one group."""

    n: int
    to_positive: NotRequired[int]
    to_negative: NotRequired[int]
    to: NotRequired[dict[str, int]]


class Changes(TypedDict):
    """Whose decision changes on the test part."""

    total: int
    share: float | None
    groups: dict[str, GroupChanges]


class AttributeNames(TypedDict):
    """A sensitive attribute and its groups; the last is the reference."""

    name: str
    groups: list[str]


class AttributeEstimate(TypedDict):
    """The gaps of one attribute to expect on the test part, from the answers alone."""

    base: Gap
    selected: Gap


class Estimate(AttributeEstimate):
    """The gaps to expect on the test part, from the answers alone: of the first attribute, and of each of several."""

    attributes: NotRequired[dict[str, AttributeEstimate]]
    intersections: NotRequired[AttributeEstimate | None]


class GroupAnswers(TypedDict):
    """What is known of one group of an attribute, or of one intersection."""

    answers: int
    people: int
    compared: bool


class AttributeResult(TypedDict):
    """One of several attributes, or their intersections, on the test part; only groups that are compared have rates."""

    groups: dict[str, GroupAnswers]
    left_out: list[str]
    vanilla: MeasuredMetrics
    selected: MeasuredMetrics
    differences: Differences
    changes: Changes
