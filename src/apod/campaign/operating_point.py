"""The operating point: at which strength a campaign's classifier decides, and why; said alike by everything that asks.

The owner chooses it; where the owner does not, the answers do. Where a model is corrected, what the latest refit chose
is what the classifier does, and was measured with it. Heads are trained anew for the classifier: what it chose, and
what the audit answers say of it, is noted beside the campaign until other answers come in. So dashboard and command
line say what the classifier does and the report says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from apod.campaign.audit_sample import audit_campaign, gaps_of
from apod.campaign.contents import stored_contents
from apod.campaign.engine import Auditable, Correcting
from apod.campaign.json_types import (
    AuditedGapsJson,
    ChosenJson,
    CurvePointJson,
    ExpectedGapJson,
    OperatingPointJson,
    OutcomeJson,
    SpeakingGapJson,
    SpeakingGapsJson,
    VerificationJson,
)
from apod.campaign.outcomes import read_history
from apod.files import write_private
from apod.method.gap_interval import tells_little
from apod.method.outlook import ConfirmingJson

if TYPE_CHECKING:
    from apod.campaign.session import Session
    from apod.classifier import APODClassifier

BY_OWNER = "Chosen by the owner."


class NotedPoint(TypedDict):
    """The note beside a campaign of what its classifier chose."""

    version: list[float | None]
    because: str | None
    strength: float
    audit: AuditedGapsJson | None


@dataclass(frozen=True)
class OperatingPoint:
    """A strength, why it is that one, and what the audit answers say of the classifier that works at it."""

    strength: float
    because: str | None
    by_owner: bool
    audit: AuditedGapsJson | None  # None without audit answers, or while no classifier was built from these answers
    estimate: SpeakingGapsJson | None = None  # the gaps to expect; None where none is known to cover
    confirmation: ConfirmingJson | None = None  # how many fresh answers would confirm the leading correction
    verification: VerificationJson | None = None  # what fresh answers say; None where the campaign verifies nothing

    def to_json(self) -> OperatingPointJson:
        """For the dashboard and `apod status --json`."""
        return {
            "strength": self.strength,
            "because": self.because,
            "by": "owner" if self.by_owner else "classifier",
            "audit": self.audit,
            "estimate": self.estimate,
            "confirmation": self.confirmation,
            "verification": self.verification,
        }


def fit_and_note(campaign: Session) -> APODClassifier:
    """The classifier of the answers at its operating point, which is noted for whoever asks."""
    from apod.campaign.classifier import correction_classifier, fit_classifier

    corrects = isinstance(campaign.engine(), Correcting)
    if corrects:
        campaign.refitter.refit()  # what is handed out is what the dashboard shows
    version = version_of(campaign)
    chosen = version[1]
    classifier = (correction_classifier if corrects else fit_classifier)(campaign, chosen)
    classifier.contents_ = stored_contents(campaign.materials.files, campaign.materials.manifest.get("contents"))
    if chosen is not None:
        classifier.selected_because_ = BY_OWNER
    if corrects:
        return classifier
    audit = _audited(campaign, classifier)
    found: NotedPoint = {
        "version": list(version),
        "because": classifier.selected_because_,
        "strength": classifier.selected_strength_,
        "audit": audit,
    }
    write_private(_file(campaign), json.dumps(found).encode())
    if version_of(campaign) != version:  # an answer that was erased meanwhile must leave nothing behind
        forget_noted(campaign)
    return classifier


def operating_point(campaign: Session, version: tuple[int, float | None]) -> OperatingPoint | None:
    """The operating point of the answers and the owner's choice of this version; None where nobody chose one yet."""
    chosen = version[1]
    with campaign.store.reading() as connection:
        latest = read_history(connection, campaign.number, 1)
    operating = latest[-1].outcome.get("operating") if latest else None
    if operating is not None:
        return _measured_point(latest[-1].outcome, operating, chosen)
    noted = _noted(_file(campaign), list(version))
    if noted is not None:
        return OperatingPoint(noted["strength"], noted["because"], chosen is not None, noted["audit"])
    return None if chosen is None else OperatingPoint(chosen, BY_OWNER, by_owner=True, audit=None)


def forget_noted(campaign: Session) -> None:
    """Delete the note: it was computed from answers that are erased."""
    _file(campaign).unlink(missing_ok=True)


def _measured_point(outcome: OutcomeJson, operating: ChosenJson, chosen: float | None) -> OperatingPoint:
    """The operating point of a model that is the classifier's own, as it was measured."""
    strength = operating["strength"] if chosen is None else chosen
    because = operating["because"] if chosen is None else BY_OWNER
    audit = outcome["audit"]
    if audit is not None and audit["strength"] != strength:
        audit = None
    gaps = {point["strength"]: _expected(point) for point in outcome["curve"]}
    estimate: SpeakingGapsJson | None = (
        None if strength not in gaps else {"base": gaps[0.0], "selected": gaps[strength]}
    )
    each = {point["strength"]: point.get("attributes") for point in outcome["curve"]}
    base, selected = each.get(0.0), each.get(strength)
    if estimate is not None and base and selected:
        estimate["attributes"] = {
            name: {"base": _expected(base[name]), "selected": _expected(selected[name])} for name in base
        }
    told = outcome["confirmation"], outcome.get("verification")
    return OperatingPoint(strength, because, chosen is not None, audit, estimate, *told)


def _expected(point: CurvePointJson | ExpectedGapJson) -> SpeakingGapJson:
    low, high = point["interval"]
    says = low is not None and high is not None and not tells_little(low, high)
    return {"gap": point["gap"], "interval": [low, high], "says": says}


def version_of(campaign: Session) -> tuple[int, float | None]:
    """What the classifier depends on: the last event that changed what the answers say, and the owner's choice."""
    return campaign.journal.view(lambda connection, state, at: (state.changed, state.strength))


def noted_at(campaign: Session) -> int:
    """When an operating point was noted last, in nanoseconds; -1: never."""
    try:
        return _file(campaign).stat().st_mtime_ns
    except OSError:
        return -1


def _noted(file: Path, version: list[float | None]) -> NotedPoint | None:
    try:
        found: NotedPoint = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # never built, or being replaced by another version of apod
        return None
    return found if found.get("version") == version else None


def _file(campaign: Session) -> Path:
    return campaign.files.folder / f"operating-point-{campaign.number}.json"


def _audited(campaign: Session, classifier: APODClassifier) -> AuditedGapsJson | None:
    found = campaign.refitter.snapshot()
    engine, materials = campaign.numerics()
    if not campaign.settings.audit_share or not isinstance(engine, Auditable):
        return None
    audit = audit_campaign(materials, engine, campaign.refitter.load(found), found.collected, classifier)
    return None if audit is None else gaps_of(audit, materials, found.collected)
