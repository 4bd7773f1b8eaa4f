"""The facts of a campaign, ready for JSON: what was asked, what it changed, how sure that is. Nobody's group."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from apod import __version__
from apod.campaign.audit_sample import told_by_group
from apod.campaign.engine import Correcting
from apod.campaign.pool_rows import part
from apod.campaign.settings import settings_of
from apod.errors import InputError
from apod.fairness.metrics import Metrics, UndefinedRateWarning, evaluate
from apod.files import digest
from apod.report.facts import (
    Accuracies,
    AskedQuestion,
    AskedReason,
    CampaignData,
    CampaignFacts,
    CampaignRules,
    Decided,
    ExpectedByCampaign,
)

if TYPE_CHECKING:
    from apod.campaign import Campaign
    from apod.classifier import APODClassifier

SCHEMA_VERSION = 1

NOT_RESERVED = (
    "No questions were reserved for an audit, so nothing can be said per group: create the campaign with an audit "
    "share (--audit-share .2)."
)
NOBODY_YET = "No audit question has been answered yet, so nothing can be said per group."


def campaign_facts(campaign: Campaign) -> CampaignFacts:
    """Everything the report of a campaign shows. Fits the classifier of the answers, which takes a moment."""
    materials, rules = campaign.materials, campaign.settings
    campaign.owner.refit()
    classifier, missing, warned = _classifier(campaign)
    found = campaign.owner.audit(classifier)
    check = campaign.owner.verify_log()
    return {
        "schema_version": SCHEMA_VERSION,
        "apod_version": __version__,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "campaign": campaign.name,
        "rows": len(materials),
        "held_out": len(materials.held_out()),
        "label_names": list(rules.label_names),
        "group_names": list(rules.groups),
        "reference": rules.groups[-1],
        "status": campaign.status().to_json(),
        "settings": _settings(campaign),
        "selector": settings_of(rules.engine).selector,
        "data": _data(campaign),
        "strength": classifier.selected_strength_ if classifier is not None else None,
        "selected_because": None if classifier is None else classifier.selected_because_,
        **_expected(campaign),
        "no_classifier": missing,
        "warnings": warned,
        "audit": found.to_dict() if found is not None else None,
        "audit_told": None if found is None else told_by_group(materials, campaign.collected()),
        "no_audit": None if found is not None else NOBODY_YET if rules.audit_share else NOT_RESERVED,
        **campaign.owner.results.outlook_shown(),
        "expected": [
            outlook[0]
            for one in campaign.owner.results.history()
            if (outlook := one.outcome.get("outlook")) and isinstance(outlook, list)
        ],
        "held_out_decisions": _decided(campaign, classifier) if classifier is not None else None,
        "questions": _questions(campaign),
        "log": {"ok": check.ok, "events": check.events, "head": check.head, "problems": list(check.problems)},
    }


def _classifier(campaign: Campaign) -> tuple[APODClassifier | None, str | None, list[str]]:
    """The classifier, or why there is none yet; and what its fit warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            classifier, missing = campaign.classifier(), None
        except InputError as error:  # too few answers so far: the report still says what was asked
            classifier, missing = None, str(error)
    return classifier, missing, [str(one.message) for one in caught if issubclass(one.category, UndefinedRateWarning)]


def _expected(campaign: Campaign) -> ExpectedByCampaign:
    """What the latest model is expected to do at its operating point and along its path; None for heads."""
    point, latest = campaign.owner.results.operating_point(), campaign.owner.results.history(1)
    return {
        "estimate": None if point is None else point.estimate,
        "confirmation": None if point is None else point.confirmation,
        "verification": campaign.owner.results.verification(),
        "path": latest[-1].outcome["curve"] if latest and point is not None and point.estimate is not None else None,
    }


def _settings(campaign: Campaign) -> CampaignRules:
    rules = campaign.settings
    return {
        "overlap": rules.overlap,
        "audit_share": rules.audit_share,
        "verify_share": rules.verify_share,
        "least_gain": rules.least_gain,
        "gold_every": rules.gold_every,
        "unanswered_costs": rules.unanswered_costs,
        "kind": rules.kind,
        "seed": rules.seed,
        "guidelines": rules.guidelines,
        "legal_basis": rules.legal_basis,
        "shown": list(rules.show),
        "engine": dict(rules.engine),
    }


def _data(campaign: Campaign) -> CampaignData:
    """What identifies the table: which columns are features, how common the positive label is, a fingerprint."""
    features, labels = campaign.materials.features(), campaign.materials.labels()
    columns = range(features.shape[1]) if isinstance(features, np.ndarray) else features.columns
    files = json.dumps([campaign.materials.manifest[name] for name in ("features", "labels")], sort_keys=True)
    return {
        "fingerprint": digest(files, size=8),  # files are named by their content
        "base_rate": float(labels.mean()),
        "features": [str(name) for name in columns],
    }


def _decided(campaign: Campaign, classifier: APODClassifier) -> Decided | None:
    """Accuracy before and after on the people held out, and how many are decided differently; no group is needed."""
    materials = campaign.materials
    rows = materials.held_out()
    if not len(rows):
        return None
    engine = campaign.engine()
    if isinstance(engine, Correcting):
        model = campaign.refitter.load(campaign.refitter.snapshot())
        found = engine.decisions_at(model, rows, classifier.selected_strength_)
        decided = [found["before"], found.get("after", found["before"])]
    else:
        held_out = part(materials.features(), rows)
        decided = [(head.predict(held_out) == head.positive_).astype(int) for head in (classifier.at(0.0), classifier)]
    labels = materials.labels()[rows]
    nobody = np.full(len(rows), -1)
    measured = [evaluate(labels, one, nobody, campaign.settings.groups, warn=False) for one in decided]
    flipped = int((decided[0] != decided[1]).sum())
    return {
        "before": _accuracies(measured[0]),
        "after": _accuracies(measured[1]),
        "changed": flipped,
        "people": len(rows),
    }


def _accuracies(measured: Metrics) -> Accuracies:
    return {"accuracy": measured.accuracy, "balanced_accuracy": measured.balanced_accuracy}


def _questions(campaign: Campaign) -> list[AskedQuestion]:
    """Every question: when, about which row, for what, why. A question put to several people stands once."""
    found: dict[int, AskedQuestion] = {}
    for entry in campaign.owner.log():
        if entry["what"] != "asked" or entry["question"] in found:
            continue
        reason: AskedReason = {} if entry["reason"] is None else entry["reason"]
        reason.pop("group", None)  # a guess about a person; the subgroup's label and the distance say enough
        found[entry["question"]] = {
            "question": entry["question"],
            "at": entry["at"],
            "row": entry["row"],
            "purpose": entry["purpose"],
            "rule": entry["rule"],
            "probability": entry["probability"],
            "reason": reason,
            "model_hash": entry["model_hash"],
        }
    return list(found.values())
