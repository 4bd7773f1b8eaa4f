"""The operating point: at which strength a campaign's classifier decides, and why; said alike by everything that asks.

The owner chooses it. Where the owner does not, the classifier does when it is fitted, from the answers alone. What it
chose, and what the audit answers say of it, is noted beside the campaign until other answers come in: so dashboard and
command line say what the classifier does and the report says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apod.campaign.auditing import audit_campaign, gaps_of
from apod.campaign.engine import Auditable
from apod.files import write_private

if TYPE_CHECKING:
    from apod.campaign.session import Session
    from apod.classifier import APODClassifier

BY_OWNER = "Chosen by the owner."


@dataclass(frozen=True)
class OperatingPoint:
    """A strength, why it is that one, and what the audit answers say of the classifier that works at it."""

    strength: float
    because: str
    by_owner: bool
    audit: dict[str, Any] | None  # None without audit answers, or while no classifier was built from these answers

    def to_json(self) -> dict[str, Any]:
        """For the dashboard and `apod status --json`."""
        return {
            "strength": self.strength,
            "because": self.because,
            "by": "owner" if self.by_owner else "classifier",
            "audit": self.audit,
        }


def fit_and_note(campaign: Session) -> APODClassifier:
    """The classifier of the answers at its operating point, which is noted for whoever asks."""
    from apod.campaign.outcome import fit_classifier

    version = version_of(campaign)
    chosen = version[1]
    classifier = fit_classifier(campaign, chosen)
    if chosen is not None:
        classifier.selected_because_ = BY_OWNER
    audit = _audited(campaign, classifier)
    if version_of(campaign) == version:  # else the note would be about answers it does not name
        found: dict[str, Any] = {
            "version": list(version),
            "because": classifier.selected_because_,
        }
        found |= {"strength": classifier.selected_strength_, "audit": audit}
        write_private(_file(campaign), json.dumps(found).encode())
    return classifier


def operating_point(campaign: Session, version: tuple[int, float | None]) -> OperatingPoint | None:
    """The operating point of the answers and the owner's choice of this version; None where nobody chose one yet."""
    chosen = version[1]
    noted = _noted(_file(campaign), list(version))
    if noted is not None:
        return OperatingPoint(noted["strength"], noted["because"], chosen is not None, noted["audit"])
    return None if chosen is None else OperatingPoint(chosen, BY_OWNER, by_owner=True, audit=None)


def version_of(campaign: Session) -> tuple[int, float | None]:
    """What the classifier depends on: the last event that changed what the answers say, and the owner's choice."""
    return campaign.journal.view(lambda connection, state, at: (state.changed, state.strength))


def noted_at(campaign: Session) -> int:
    """When an operating point was noted last, in nanoseconds; -1: never."""
    try:
        return _file(campaign).stat().st_mtime_ns
    except OSError:
        return -1


def _noted(file: Path, version: list[Any]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # never built, or being replaced by another version of apod
        return None
    return found if found.get("version") == version else None


def _file(campaign: Session) -> Path:
    return campaign.files.folder / f"operating-point-{campaign.materials.campaign}.json"


def _audited(campaign: Session, classifier: APODClassifier) -> dict[str, Any] | None:
    engine = campaign.engine()
    if not campaign.settings.audit_share or not isinstance(engine, Auditable):
        return None
    found = campaign.refitter.snapshot()
    audit = audit_campaign(campaign.materials, engine, campaign.refitter.load(found), found.collected, classifier)
    return None if audit is None else gaps_of(audit, campaign.materials, found.collected)
