"""The types of what a campaign says of itself in JSON: what models achieved, the operating point, its status."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from apod.audit.json_types import AuditedGroupJson, AuditJson, EstimateJson, ToldJson
from apod.method.outlook import ConfirmingJson, CorrectionOutlookJson, OutlookJson, Verdict
from apod.method.theorem1 import BoundJson


class ExpectedGapJson(TypedDict):
    """The gap to expect by the answers."""

    gap: float | None
    interval: list[float | None]


class CurvePointJson(TypedDict):
    """What one strength achieves on the pool; a correction says more of it than a head."""

    strength: float
    accuracy: float
    selected: float
    gap: float | None
    interval: NotRequired[list[float | None]]
    balanced_accuracy: NotRequired[float]
    changed: NotRequired[float]
    attributes: NotRequired[dict[str, ExpectedGapJson]]  # of each of several, the first included


class ExpectedGapsJson(TypedDict):
    """The gaps to expect of the base model and of the one that is selected."""

    base: ExpectedGapJson
    selected: ExpectedGapJson
    attributes: NotRequired[dict[str, ExpectedGapsJson]]  # of each of several, and of their intersections


class SpeakingGapJson(ExpectedGapJson):
    """The gap to expect, and whether its interval says anything."""

    says: bool


class SpeakingGapsJson(TypedDict):
    """The gaps to expect of the base model and of the one in use."""

    base: SpeakingGapJson
    selected: SpeakingGapJson
    attributes: NotRequired[dict[str, SpeakingGapsJson]]


class ChosenJson(TypedDict):
    """The strength that the answers chose, and why."""

    strength: float
    because: str


class HeadBoundJson(BoundJson):
    """Theorem 1 for the asking head."""

    strength: float


class AuditedViewJson(EstimateJson):
    """The audited gap of one set of decisions, whether it says anything, and every group's rates."""

    says: bool
    groups: dict[str, AuditedGroupJson]


class AuditedViews(TypedDict, total=False):
    """The audited gap without mitigation, and with it where decisions change."""

    before: AuditedViewJson
    after: AuditedViewJson


class AuditedGapsJson(AuditedViews):
    """An audit as the dashboard shows it."""

    answers: int
    change: EstimateJson | None
    told: dict[str, ToldJson]
    notes: list[str]


class AuditedPointJson(AuditedGapsJson):
    """The same of a model at one strength."""

    strength: float | None
    attributes: NotRequired[dict[str, AuditedGapsJson | None]]  # of each of several, the first included


class VerificationJson(TypedDict):
    """What fresh answers say of the correction that was frozen; nothing of single people."""

    verdict: Verdict
    asked: int  # fresh answers that count
    favourable: int  # of these, people of the groups that the change is for; 0 until the verdict
    needed: int | None
    words: str


class OutcomeJson(TypedDict, total=False):
    """What one model achieved, as its engine measured it; an engine of one's own may leave out anything."""

    round: int
    basis: str
    notion: str
    note: str
    curve: list[CurvePointJson]
    bound: HeadBoundJson | None
    estimate: ExpectedGapsJson
    operating: ChosenJson | None
    confirmation: ConfirmingJson | None
    verification: VerificationJson | None
    outlook: list[OutlookJson] | CorrectionOutlookJson | None
    outlook_covers: bool
    outlook_withheld: str | None
    model: str
    audit: AuditedPointJson | None


class OutlookShownJson(TypedDict):
    """The outlook, and why it is withheld where it is."""

    outlook: list[OutlookJson] | CorrectionOutlookJson | None
    outlook_withheld: str | None


class OperatingPointJson(TypedDict):
    """At which strength the classifier decides, why, and what is known of it."""

    strength: float
    because: str | None
    by: str
    audit: AuditedGapsJson | None
    estimate: SpeakingGapsJson | None
    confirmation: ConfirmingJson | None
    verification: VerificationJson | None


class SubgroupCountsJson(TypedDict):
    """How many answers one group and label has after each of some answers."""

    group: str
    label: str
    counts: list[int]


class SubgroupsJson(TypedDict):
    """How the answers spread over groups and labels, at most so many points."""

    answers: list[int]
    counts: list[SubgroupCountsJson]


class AnnotatorJson(TypedDict):
    """One annotator's work."""

    name: str
    answered: int
    skipped: int
    late: int
    gold_answered: int
    accuracy: float | None
    kappa: dict[str, float | None]
    by_attribute: dict[str, float | None]


class PacedAnnotatorJson(AnnotatorJson):
    """One annotator's work and pace."""

    per_hour: float | None
    median_seconds: float | None
    last_at: str | None
    holding: int


class AskedJson(TypedDict):
    """A line of the list of questions; the subgroup is the one it was chosen for, not the answer."""

    question: int
    row: int
    row_id: str
    round: int
    rule: str | None
    group: str | None
    label: str | None
    distance: float | None
    answered: bool
    at: str


class ReasonJson(TypedDict, total=False):
    """Why a row was asked about, as far as a list shows it."""

    rule: str | None
    group: str | None
    label: str | None
    distance: float | None


class CoordinatesJson(TypedDict):
    """Places in the map."""

    x: list[float]
    y: list[float]


class MapPointsJson(CoordinatesJson):
    """A sample of the pool in the map."""

    label: list[int]


class MapAskedJson(CoordinatesJson):
    """Those we asked about in the map."""

    row_id: list[str]
    rule: list[str | None]
    group: list[str | None]
    label: list[str | None]
    number: list[int]
    answer: list[str | None]


class MapJson(TypedDict):
    """The pool in two dimensions with those we asked."""

    method: str
    rows: int
    shown: int
    variance: list[float]
    points: MapPointsJson
    asked: MapAskedJson


class AttributeStatusJson(TypedDict):
    """One attribute that is asked about, and what came of it."""

    name: str
    groups: tuple[str, ...]
    told: int
    cannot_tell: int
    declined: int
    known: int
    groups_seen: int
    agreement: float | None


class StatusJson(TypedDict):
    """The counts of a campaign, as `apod status --json` prints them; `Status` says what each is."""

    name: str
    groups: tuple[str, ...]
    attributes: tuple[AttributeStatusJson, ...]
    values_told: int
    budget: int
    answered: int
    standing: int
    pending: int
    remaining: int
    questions: int
    cannot_tell: int
    declined: int
    skipped: int
    late: int
    uncounted: int
    withdrawn: tuple[int, ...]
    erased: int
    erasures_due: int
    gold_answered: int
    known: int
    groups_seen: int
    by_kind: dict[str, int]
    by_purpose: dict[str, int]
    annotators: int
    agreement: float | None
    model_answers: int
    behind: int
    refitting: bool
    refit_failures: int
    refit_failure: str | None
    measuring_failure: str | None
    clock_moves: int
    events: int
    finished: bool
    paused: bool
    paused_because: str | None
    preset: str | None
    selector: str | None
    model: str | None
    archived: bool
    kind: str
    guidelines: str | None
    legal_basis: str | None
    reminders: tuple[str, ...]


class FullStatusJson(StatusJson, OutlookShownJson):
    """What `apod status --json` prints."""

    audit: AuditJson | None
    audits: NotRequired[dict[str, AuditJson | None]]  # of each of several attributes
    operating_point: OperatingPointJson | None
    verification: VerificationJson | None
    by_annotator: NotRequired[list[AnnotatorJson]]
