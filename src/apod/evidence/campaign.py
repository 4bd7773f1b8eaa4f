"""Evidence from a campaign: what its audit answers infer, its criterion with all changes, who saw what, what went."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apod import __version__
from apod.evidence.measured import levelling
from apod.evidence.sections import ONE_ATTRIBUTE, Access, Attribute, Evidence, Provenance, Scope
from apod.evidence.sources import (
    DRAWN_UNALIKE,
    LIMITS,
    Stated,
    from_audit,
    guesses,
    moment,
    necessity,
    refuse_several,
    verdict,
    year_after,
)
from apod.files import digest
from apod.report.campaign_facts import campaign_facts
from apod.report.facts import CampaignFacts

if TYPE_CHECKING:
    from apod.campaign import Campaign

ATTRIBUTE = "group"
"""What a campaign asks about has no name of its own yet."""

ANSWERS = ("answered", "corrected")


def evidence_of_campaign(campaign: Campaign, stated: Stated) -> Evidence:
    """From the campaign as it stands. Fits the classifier of its answers, which takes a moment."""
    refuse_several(len(campaign.settings.asked))
    facts, log = campaign_facts(campaign), campaign.owner.log()
    rules, audit = campaign.rules(), facts["audit"]
    inferred = None if audit is None else from_audit(audit, "audit answers about people held out at random")
    attribute = Attribute(
        groups=tuple(facts["group_names"]),
        reference=facts["reference"],
        notion="equalized_odds" if audit is None else audit["notion"],
        measured=None,
        not_measured=DRAWN_UNALIKE,
        inferred=inferred,
        not_inferred=facts["no_audit"],
        counts=None,
        levelling=None if inferred is None else levelling(inferred, measured=False),
        changes=None,
        ll144=None,
        no_ll144=DRAWN_UNALIKE,
        by_guess={"base": None, "selected": None} if audit is None else guesses(audit),
    )
    return Evidence(
        source="campaign",
        apod_version=__version__,
        made_at=facts["made_at"],
        reevaluate_by=year_after(moment(facts["made_at"])),
        seed=rules.seed,
        draws_key=None,
        scope=_scope(facts, stated),
        criterion=verdict(criteria(log), None, inferred),
        necessity=necessity(attribute),
        provenance=_provenance(facts),
        attributes={ATTRIBUTE: attribute},
        intersections=ONE_ATTRIBUTE,
        limits=(*LIMITS, *(audit["notes"] if audit else ()), *facts["warnings"]),
        fingerprints={
            "data": facts["data"]["fingerprint"],
            "model": next((one["model_hash"] for one in reversed(log) if one["what"] == "refitted"), None),
            "settings": digest(json.dumps(rules.to_json(), sort_keys=True), size=8),
            "log head": facts["log"]["head"],
            "log": "whole" if facts["log"]["ok"] else "CHANGED",
        },
        access=_access(campaign, facts, log, rules.keep_until),
    )


def criteria(log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every acceptance criterion that was ever fixed, with the answers given by then and the reason for a change."""
    found, answers = [], 0
    for entry in log:
        answers += entry["what"] in ANSWERS
        text = entry.get("settings", {}).get("criterion") if entry["what"] in ("created", "revised") else None
        if text is not None:
            fixed = {"text": text, "fixed_at": entry["at"], "answers_then": answers, "reason": entry.get("reason")}
            found.append(fixed)
    return found


def _scope(facts: CampaignFacts, stated: Stated) -> Scope:
    strength = facts["strength"]
    done = "none: too few answers" if strength is None else f"strength {strength:.3g}" if strength else "none"
    return Scope(
        system=stated.system,
        dataset=facts["campaign"],
        rows=facts["rows"],
        part=f"{facts['held_out']} people held out at random, who train nothing",
        label_names=(facts["label_names"][0], facts["label_names"][1]),
        base_rate=facts["data"]["base_rate"],
        features=tuple(facts["data"]["features"]),
        model=facts["status"]["model"] or "not fitted yet",
        threshold="the model's own",
        decided_by=stated.decided_by,
        mitigation=f"{done}. {facts['selected_because'] or ''}".strip(),
    )


def _provenance(facts: CampaignFacts) -> Provenance:
    status = facts["status"]
    kinds = status["by_kind"]
    counts: dict[str, int | None] = {"asked about": status["questions"], "answered": status["standing"]}
    counts |= {"cannot tell": status["cannot_tell"], "refused": status["declined"], "skipped": status["skipped"]}
    counts |= {"handed in": status["known"], "erased": status["erased"], "annotators": status["annotators"]}
    counts |= {f"answers, {kind.replace('_', '-')}": count for kind, count in kinds.items()}
    kind = ", ".join(one.replace("_", "-") for one in kinds) or facts["settings"]["kind"].replace("_", "-")
    basis = facts["settings"]["legal_basis"]
    said = f"Annotators answered, each question once or several times; kind of answers: {kind}. "
    said += f"Legal basis: {basis}." if basis else "No legal basis is recorded."
    return Provenance(kind, counts, status["agreement"], said)


def _access(
    campaign: Campaign, facts: CampaignFacts, log: Sequence[Mapping[str, Any]], keep_until: str | None
) -> Access:
    shown = ", ".join(facts["settings"]["shown"]) or "none"
    links = Counter(entry.role for entry in campaign.owner.access.entries())
    roles = {
        "annotators": f"{facts['status']['annotators']} answered; they saw the columns {shown} and no prediction, nor "
        "anybody's answer but their own",
        "owner": "all answers, by file or export; the log of questions without groups",
    }
    roles |= {
        f"links, sessions and tokens of {role}s": f"{count} were handed out" for role, count in sorted(links.items())
    }
    gone = [entry for entry in log if entry["what"] == "expired"]
    deletions = tuple(
        {"count": one["certificate"]["answers"], "at": one["certificate"]["erased_at"], "certificate": one["hash"]}
        for one in gone
    )
    said = f"{facts['status']['erased']} answers were erased so far"
    return Access(roles, keep_until, said if keep_until else f"no date was set; {said}", deletions)
