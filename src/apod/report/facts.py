"""The types of what `apod audit --result` and `apod report` write: the facts that their pages are made from."""

from __future__ import annotations

from typing import TypedDict

from apod.audit.json_types import AuditJson, ToldJson
from apod.audit.table import DescribedTable
from apod.campaign.json_types import CurvePointJson, OutlookShownJson, SpeakingGapsJson, StatusJson, VerificationJson
from apod.fairness.counts import JointCounts
from apod.fairness.metrics import GroupRatesJson, RatesJson
from apod.method.outlook import ConfirmingJson, OutlookJson
from apod.report.result import Metrics, RateIntervals, Result


class AuditFacts(AuditJson):
    """An audit of a table with all that a reader needs beside it."""

    schema_version: int
    apod_version: str
    made_at: str
    table: DescribedTable
    told: dict[str, ToldJson]
    joint_counts: JointCounts
    drawn_alike: bool
    seed: int
    needed: dict[str, int | None]


class ReevaluatedFacts(AuditFacts):
    """The same, and what moved since the evidence it was compared with."""

    against: dict[str, object]


class CampaignRules(TypedDict):
    """The rules of a campaign."""

    overlap: int
    audit_share: float
    verify_share: float
    least_gain: float
    gold_every: int | None
    unanswered_costs: bool
    kind: str
    seed: int
    guidelines: str | None
    legal_basis: str | None
    shown: list[str]
    engine: dict[str, object]


class CampaignData(TypedDict):
    """What identifies a campaign's table."""

    fingerprint: str
    base_rate: float
    features: list[str]


class Accuracies(TypedDict):
    """How right decisions are."""

    accuracy: float
    balanced_accuracy: float


class Decided(TypedDict):
    """Decisions about the people held out, before and after."""

    before: Accuracies
    after: Accuracies
    changed: int
    people: int


class AskedReason(TypedDict, total=False):
    """Why somebody was asked about."""

    rule: str
    group: str
    label: str
    distance: float | None
    centred_accuracy: float | None
    entropy: float | None


class AskedQuestion(TypedDict):
    """One question: when, about which row, for what, why."""

    question: int
    at: str
    row: int
    purpose: str
    rule: str | None
    probability: float | None
    reason: AskedReason
    model_hash: str | None


class LogFacts(TypedDict):
    """Whether the log is whole."""

    ok: bool
    events: int
    head: str
    problems: list[str]


class ExpectedByCampaign(TypedDict):
    """What the latest model is expected to do; null for heads."""

    estimate: SpeakingGapsJson | None
    confirmation: ConfirmingJson | None
    verification: VerificationJson | None
    path: list[CurvePointJson] | None


class CampaignFacts(ExpectedByCampaign, OutlookShownJson):
    """Everything the report of a campaign shows. Nobody's group."""

    schema_version: int
    apod_version: str
    made_at: str
    campaign: str
    rows: int
    held_out: int
    label_names: list[str]
    group_names: list[str]
    reference: str
    status: StatusJson
    settings: CampaignRules
    selector: str
    data: CampaignData
    strength: float | None
    selected_because: str | None
    no_classifier: str | None
    warnings: list[str]
    audit: AuditJson | None
    audit_told: dict[str, ToldJson] | None
    no_audit: str | None
    expected: list[OutlookJson]
    held_out_decisions: Decided | None
    questions: list[AskedQuestion]
    log: LogFacts


class AuditedRates(RatesJson):
    """A group's rates by an audit, drawn and tabulated as those of a result; nobody's people are counted."""

    people: str
    n: None
    n_positive: None


class AuditedIntervals(TypedDict):
    """The intervals of an audit's rates."""

    groups: dict[str, RateIntervals]


class AuditedMetrics(TypedDict):
    """One set of predictions by an audit."""

    groups: dict[str, AuditedRates]
    intervals: AuditedIntervals


class AuditedResult(TypedDict):
    """An audit in the form of a result, for its charts and tables of rates."""

    group_names: list[str]
    label_names: list[str]
    vanilla: AuditedMetrics
    selected: AuditedMetrics | None


AnyGroupRates = GroupRatesJson | AuditedRates
AnyMetrics = Metrics | AuditedMetrics
AnyResult = Result | AuditedResult
"""Recorded or audited: what the charts and tables of rates are made from."""
