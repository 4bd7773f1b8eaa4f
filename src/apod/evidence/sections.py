"""What evidence consists of. Measured and inferred numbers never share a section; what is missing says why.

Every attribute has a section of its own, so that more of them, and their intersections, are further entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from apod.audit.json_types import BoundsJson
from apod.errors import InputError
from apod.files import Unchecked
from apod.text import plain

SCHEMA_VERSION = 1
ONE_ATTRIBUTE = "not measured: one attribute"

Source = Literal["run", "campaign", "audit"]
Cells = list[Any]  # nested counts: [label][decision], or [label][before][after]


@dataclass(frozen=True)
class Estimated:
    """A number with its 95 % interval; None where nothing can be said, or too few people are behind it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    suppressed: bool = False  # fewer than 5 people are behind it, so it is left out


@dataclass(frozen=True)
class GroupRates:
    """One group under one set of decisions."""

    people: Estimated  # a count; of everybody in the part described
    share: float | None
    below_2_percent: bool
    selection_rate: Estimated
    tpr: Estimated
    fpr: Estimated
    impact_ratio: Estimated


@dataclass(frozen=True)
class Decisions:
    """All groups under one set of decisions, and what compares them."""

    groups: Mapping[str, GroupRates]
    metrics: Mapping[str, Estimated]  # gap, accuracy, ...: `fairness.criterion.CRITERION_METRICS`
    bounds: BoundsJson  # low, high: worst and best case of the gap consistent with the data
    bounds_are: str  # what they rest on


@dataclass(frozen=True)
class Findings:
    """Numbers of one kind, measured or inferred, before and after the mitigation."""

    basis: str  # in words: whose groups, how known
    people: int
    unknown: int  # of these, without a known group
    before: Decisions
    after: Decisions | None  # None: nothing was changed
    change: Mapping[str, Estimated]  # of metrics, after minus before, on the same people


@dataclass(frozen=True)
class Changed:
    """Whose decision is another one after the mitigation."""

    total: int
    rounded: bool  # counts are multiples of 5, because one of them is below 5
    groups: Mapping[str, Mapping[str, int]]  # to_positive, to_negative


@dataclass(frozen=True)
class Levelling:
    """Whether the gap closed because a group lost: a verdict, and every group's change that it rests on."""

    verdict: str
    groups: Mapping[str, Mapping[str, float | None]]  # change of tpr, fpr and selection rate


@dataclass(frozen=True)
class LL144Row:
    """One category, in the form of New York's rule."""

    category: str
    applicants: int
    selected: int
    selection_rate: float | None
    impact_ratio: float | None
    below_2_percent: bool


@dataclass(frozen=True)
class LL144:
    """Rates by category; of people whose category is recorded or self-reported, and of nobody else."""

    rows: tuple[LL144Row, ...]
    unknown: int
    source: str


@dataclass(frozen=True)
class Attribute:
    """Everything about one attribute. A null finding has its reason beside it."""

    groups: tuple[str, ...]
    reference: str
    notion: str
    measured: Findings | None
    not_measured: str | None
    inferred: Findings | None
    not_inferred: str | None
    counts: Mapping[str, Mapping[str, Cells | None]] | None  # before, after and both -> group -> people measured, and
    # `unknown`; None: a cell is below 5. Everything measured follows from them
    levelling: Levelling | None
    changes: Changed | None
    ll144: LL144 | None
    no_ll144: str | None
    by_guess: Mapping[str, float | None]  # the gap if guesses were groups: what proxies alone would have said


@dataclass(frozen=True)
class Scope:
    """What was decided about whom, and who answers for it."""

    system: str
    dataset: str
    rows: int
    part: str  # whom the numbers speak about
    label_names: tuple[str, str]
    base_rate: float
    features: tuple[str, ...]
    model: str
    threshold: str
    decided_by: str
    mitigation: str


@dataclass(frozen=True)
class Verdict:
    """The acceptance criterion and what became of it."""

    text: str | None
    fixed_at: str | None
    answers_then: int | None  # given before it was fixed; 0 for one that was fixed beforehand
    reason: str | None  # why it replaced an earlier one
    history: tuple[Unchecked, ...]  # earlier criteria, with the reason for each
    measured: str  # met, not met, not decided, not measured
    measured_number: Estimated
    inferred: str
    inferred_number: Estimated
    words: str


@dataclass(frozen=True)
class Provenance:
    """Where groups come from."""

    kind: str  # records, self-reported, perceived, handed in
    counts: Mapping[str, int | None]  # asked, answered, refused, cannot tell, ... None: not recorded
    agreement: float | None
    words: str


@dataclass(frozen=True)
class Access:
    """Who saw what, by role; and when answers go."""

    roles: Mapping[str, str]
    keep_until: str | None
    retention: str
    deletions: tuple[Mapping[str, object], ...]


@dataclass(frozen=True)
class Evidence:
    """One evidence file."""

    source: Source
    apod_version: str
    made_at: str
    reevaluate_by: str
    seed: int | None
    draws_key: str | None  # with the seed: what the bootstrap's draws are keyed by
    scope: Scope
    criterion: Verdict
    necessity: tuple[str, ...]
    provenance: Provenance
    attributes: Mapping[str, Attribute]
    intersections: str
    limits: tuple[str, ...]
    fingerprints: Mapping[str, str | None]
    access: Access
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """For JSON: `docs/evidence.schema.json`."""
        found: dict[str, Any] = plain(asdict(self))
        return found


def findings_of(stored: Unchecked) -> Findings:
    """Findings as they were written."""
    after = stored["after"]
    return Findings(
        **{name: stored[name] for name in ("basis", "people", "unknown")},
        before=_decisions_of(stored["before"]),
        after=None if after is None else _decisions_of(after),
        change={name: Estimated(**one) for name, one in stored["change"].items()},
    )


def _decisions_of(stored: Unchecked) -> Decisions:
    numbers = ("people", "selection_rate", "tpr", "fpr", "impact_ratio")
    groups = {
        name: GroupRates(**{**one, **{number: Estimated(**one[number]) for number in numbers}})
        for name, one in stored["groups"].items()
    }
    metrics = {name: Estimated(**one) for name, one in stored["metrics"].items()}
    return Decisions(groups, metrics, stored["bounds"], stored["bounds_are"])


def check_version(evidence: Unchecked, where: str) -> None:
    """InputError where this is no evidence, or that of another version."""
    version = evidence.get("schema_version")
    if "attributes" not in evidence:
        raise InputError(f"{where} is no evidence: name a folder that `apod report ... --evidence` wrote.")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{where} is evidence of version {version!r}, and this apod reads version {SCHEMA_VERSION}: "
            "use the apod that wrote it."
        )
