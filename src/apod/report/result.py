"""The types of result.json, the same as docs/result.schema.json says (tests/report/test_result.py compares the two).

Who adds a field adds it in three places: the schema, docs/result.md, and here. Types of lower layers are extended here.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from apod.audit.json_types import AuditJson
from apod.fairness.counts import JointCounts
from apod.fairness.criterion import CriterionJson
from apod.fairness.metrics import Thresholds
from apod.method.outlook import CorrectionOutlookJson, OutlookJson, Verdict
from apod.method.theorem1 import BoundJson
from apod.report.measured import AttributeNames, AttributeResult
from apod.report.measured import Changes as Changes
from apod.report.measured import Differences as Differences
from apod.report.measured import Ends as Ends
from apod.report.measured import Estimate as Estimate
from apod.report.measured import Gap as Gap
from apod.report.measured import GroupChanges as GroupChanges
from apod.report.measured import Intervals as Intervals
from apod.report.measured import MeasuredMetrics as MeasuredMetrics
from apod.report.measured import RateIntervals as RateIntervals

Purpose = Literal["training", "verification", "audit"]
MetricName = Literal["accuracy", "balanced_accuracy", "gap"]  # what the report compares before and after


class Data(TypedDict):
    """What identifies the table."""

    fingerprint: str
    rows: int
    base_rate: float | None
    features: list[str]
    key: NotRequired[str]
    weight: NotRequired[str]  # the column that says how many people a row stands for


class RunSettings(TypedDict):
    """The settings that the report reads by name; all others stand beside them."""

    notion: str
    selector: str
    questions_per_round: int
    body: str | None
    split: list[float]
    max_accuracy_loss: NotRequired[float]
    max_balanced_loss: NotRequired[float]


class ValidationScores(TypedDict):
    """What a head was judged by on the validation part."""

    accuracy: float | None
    fairness: float | None
    score: float | None


class CorrectionEffect(TypedDict):
    """What a correction is expected to do."""

    fall: float | None
    deviation: float | None
    probability: float | None
    accuracy_lost: float | None
    accuracy_error: float | None
    balanced_accuracy_lost: float | None
    balanced_accuracy_error: float | None
    changed: float | None
    affordable: bool


class Expected(Gap):
    """What is expected at one place of the path; of the base model the gap alone."""

    fall: NotRequired[float | None]
    deviation: NotRequired[float | None]
    probability: NotRequired[float | None]
    accuracy_lost: NotRequired[float | None]
    accuracy_error: NotRequired[float | None]
    balanced_accuracy_lost: NotRequired[float | None]
    balanced_accuracy_error: NotRequired[float | None]
    changed: NotRequired[float | None]
    affordable: NotRequired[bool]


class OperatingPoint(TypedDict):
    """One strength, and what it was judged by."""

    strength: float
    round: int
    validation: ValidationScores | None
    expected: Expected | None


class Metrics(MeasuredMetrics, OperatingPoint):
    """One strength on the test part."""


class Model(TypedDict):
    """The model that is kept."""

    name: str
    kind: Literal["standard", "scores"]
    score: str | None
    cross_validated_accuracies: dict[str, float | None]
    threshold: float | None
    fingerprint: str


class CellWeight(TypedDict):
    """How far a correction shifts the margin of one group's people of some labels."""

    labels: list[str]
    group: str
    weight: float
    decision: NotRequired[str]


class Steadiness(TypedDict):
    """Of the people whose decision changes, how many changes hang on what the answers leave open."""

    changed: int
    arbitrary: int
    below: float


class Correction(CorrectionEffect):
    """The leading correction, applied or not."""

    applied: bool
    strength: float
    direction: list[CellWeight]
    worth: float | None
    steadiness: Steadiness


class Verification(TypedDict):
    """What fresh answers said of the correction."""

    verdict: Verdict
    asked: int
    favourable: int
    needed: int | None
    strength: float
    words: str
    fingerprint: str


class GuessedGaps(TypedDict):
    """What the guesses alone would say of the gaps on the test part."""

    base: float | None
    selected: float | None


class CurveMetrics(TypedDict):
    """What a head achieves on the test part after a round."""

    accuracy: float | None
    balanced_accuracy: float | None
    gap: float | None
    delta_eo: float | None
    eop: float | None


class CurvePoint(CurveMetrics):
    """One strength after a round."""

    strength: float
    validation_score: float | None


class Subgroup(TypedDict):
    """How one (group, label) stands after a round."""

    group: str
    label: str
    answered: int
    pool: int
    centred_accuracy: float | None


class HeadGap(Gap):
    """What the posterior says of one head's gap."""

    strength: float
    round: int
    better: float | None


class Tested(TypedDict):
    """What would be chosen achieves this on the test part."""

    accuracy: float | None
    balanced_accuracy: float | None
    gap: float | None


class PosteriorChoice(TypedDict):
    """What would be chosen after a round, as the posterior has it."""

    heads: list[HeadGap] | None
    strength: float
    round: int
    test: Tested
    reason: str
    outlook: OutlookJson | None


class Choice(PosteriorChoice):
    """What would be chosen after a round, and why its numbers are not shown where they are not."""

    withheld: str | None


class RoundByApproach(TypedDict):
    """What an approach says of a round."""

    curve: list[CurvePoint]
    subgroups: list[Subgroup]
    empty_cells: list[list[str]]
    estimate: Estimate | None
    choice: Choice | None


class Round(RoundByApproach):
    """One round of answers."""

    round: int
    answered: int
    seconds: float
    asked: list[int]


class Reason(TypedDict):
    """Why somebody was asked about; what a rule did not look at is not there."""

    rule: str
    group: NotRequired[str | None]
    label: NotRequired[str | None]
    centred_accuracy: NotRequired[float | None]
    distance: NotRequired[float | None]
    entropy: NotRequired[float | None]


class Answer(TypedDict):
    """One answer and why it was asked for."""

    row: int
    group: str | None
    groups: NotRequired[dict[str, str | None]]
    round: int
    purpose: Purpose
    probability: float
    strength: float | None
    reason: Reason


class Bound(BoundJson):
    """Theorem 1 after a round."""

    round: int
    answered: int
    strength: float


class Compared(TypedDict):
    """Another preset on the same people."""

    preset: str
    vanilla: Metrics
    selected: Metrics
    selected_because: str | None
    answers: int
    answers_read: int
    people_read: int
    seconds: float


class ApproachFacts(TypedDict):
    """What a result says of its approach alone: heads on a body, or a model that is corrected."""

    model: Model | None
    correction: Correction | None
    verification: Verification | None
    estimate: Estimate | None
    outlook: list[OutlookJson] | CorrectionOutlookJson | None
    outlook_withheld: str | None
    bound: list[Bound] | None
    thresholds: NotRequired[Thresholds | None]  # from version 0.2 on


class Result(ApproachFacts):
    """result.json."""

    schema_version: int
    apod_version: str
    made_at: str
    data: Data
    dataset: str
    preset: str
    seed: int
    known_groups: NotRequired[int]
    n_train: int
    n_validation: int
    n_test: int
    budget: int
    label_names: list[str]
    attribute: NotRequired[str]
    attributes: NotRequired[list[AttributeNames]]
    group_names: list[str]
    reference: str
    metric: Literal["delta_eo", "eop"]
    notion: str
    settings: RunSettings
    notes: list[str]
    vanilla: Metrics
    tradeoff: list[Metrics]
    selected: Metrics
    selected_because: str | None
    classifier: str | None
    differences: Differences
    changes: Changes
    joint_counts: NotRequired[JointCounts]
    by_attribute: NotRequired[dict[str, AttributeResult]]
    intersections: NotRequired[AttributeResult | None]
    values_told: NotRequired[int]
    by_guess: NotRequired[GuessedGaps]
    criterion: NotRequired[CriterionJson | None]
    rounds: list[Round]
    answers: list[Answer]
    trajectories: dict[str, list[Answer]] | None
    timing: dict[str, float]
    audit: NotRequired[AuditJson | None]
    compared: NotRequired[Compared]
