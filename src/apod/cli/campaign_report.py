"""`apod report`, and the estimate that `apod status` shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.shared import FILES, JSON, NAME, URL, echo, echo_json, opened_campaign

if TYPE_CHECKING:
    from apod.audit.json_types import AuditJson
    from apod.campaign import Campaign
    from apod.campaign.json_types import FullStatusJson, OperatingPointJson, SpeakingGapJson, SpeakingGapsJson


CHANGE = "change with it"


def latest_audit(opened: Campaign, attribute: str | None = None) -> AuditJson | None:
    """The audit of the latest base model; None where the engine has no decisions to audit."""
    from apod.errors import InputError

    try:
        found = opened.owner.audit(attribute=attribute)
    except InputError:
        return None
    return None if found is None else found.to_dict()


def show_status(found: FullStatusJson) -> None:
    """Counts, the groups as answers spell them, what more answers would bring, and the audit."""
    from apod.method.plan import outlook_words
    from apod.report.charts import outlook_sentence
    from apod.report.sections import expected_sentences

    echo(f"{found['name']}: {found['standing']} of {found['budget']} answers, {found['pending']} assigned")
    if found["finished"]:
        echo("  closed: nothing more is asked")
    elif found["paused"]:
        why = " by itself, the rest of the budget is expected to gain less than its least gain"
        itself = why if found["paused_because"] else ""
        echo(f"  paused{itself}: nobody is asked until it is resumed (`apod campaign resume`, or the owner's page)")
    if found["answered"] > found["standing"]:
        gone = found["answered"] - found["standing"]
        echo(f"  {gone} more erased; they stay paid from the budget, which has {found['remaining']} left")
    if found["erasures_due"]:
        echo(
            f"  {found['erasures_due']} erasures are still to be overwritten in the database's files: somebody reads "
            "an older state; it happens at the first call after that reader has ended"
        )
    if found["withdrawn"]:
        some = ", ".join(map(str, found["withdrawn"][:10])) + (", ..." if len(found["withdrawn"]) > 10 else "")
        echo(
            f"  {len(found['withdrawn'])} questions withdrawn, their pictures cannot be shown (rows {some}): correct "
            "the files, and ask about these people elsewhere"
        )
    if len(found["attributes"]) == 1:
        echo(f"  groups: {', '.join(found['groups'])}")
    for one in found["attributes"] if len(found["attributes"]) > 1 else ():
        agreed = "" if one["agreement"] is None else f", agreement {one['agreement']:.2f}"
        unsaid = "".join(f", {one[what]} {what.replace('_', ' ')}" for what in ("cannot_tell", "declined") if one[what])
        echo(f"  {one['name']} ({', '.join(one['groups'])}): {one['told']} told{unsaid}{agreed}")
    if found["known"]:
        echo(f"  {found['known']} people's groups were handed in; they cost nothing")
    counts: Mapping[str, object] = found
    for name in (
        "model",
        "cannot_tell",
        "declined",
        "skipped",
        "late",
        "erased",
        "model_answers",
        "behind",
        "agreement",
    ):
        if counts[name]:
            echo(f"  {name.replace('_', ' ')}: {counts[name]}")
    outlook = found["outlook"]
    if outlook:
        for said in [outlook_sentence(outlook)] if isinstance(outlook, list) else outlook_words(outlook):
            echo(f"  {said}")
    point = found["operating_point"]
    echo(f"  {point_text(point)}")
    if found["verification"] is not None:
        echo(f"  verification: {found['verification']['words']}")
    expected = expected_sentences(point["estimate"], point["strength"]) if point is not None else []
    if found["audit"] is not None:
        show_audit(found["audit"], point)
    for said in expected:
        echo(f"  {said}")
    estimate = None if point is None else point["estimate"]
    for name, gaps in ({} if estimate is None else estimate.get("attributes", {})).items():
        echo(f"  {name}: {gaps_in_words(gaps)}")


def gaps_in_words(gaps: SpeakingGapsJson) -> str:
    """The gaps to expect in one attribute, before and after; what says nothing says so."""
    from apod.report.words import points

    def said(gap: SpeakingGapJson) -> str:
        return f"{points(gap['gap'])} points" if gap["says"] and gap["gap"] is not None else "not known yet"

    return f"gap to expect {said(gaps['base'])} without mitigation, {said(gaps['selected'])} with it"


def point_text(point: OperatingPointJson | None) -> str:
    """At which strength the classifier of these answers decides, and why."""
    if point is None:
        return "operating point: not chosen yet; the classifier chooses it when it is fitted (`apod report`)"
    changes = f"strength {point['strength']:.3g}" if point["strength"] else "strength 0, nothing is changed"
    return f"operating point: {changes}. {point['because']}"


def show_audit(found: AuditJson, point: OperatingPointJson | None) -> None:
    """What audit answers say of the gap: of the base model, and of the classifier where it was built; and the plan."""
    from apod.report.words import points, signed_points, within

    audited = None if point is None else point["audit"]
    audited = None if audited is None or "before" not in audited else audited
    views = [("without mitigation", found["predictions"]["before"]["gap"] if audited is None else audited["before"])]
    change = None if audited is None else audited["change"]
    if point is not None and audited is not None and "after" in audited and change is not None:
        views += [(f"with strength {point['strength']:.3g}", audited["after"]), (CHANGE, change)]
    for name, gap in views:
        said = within(gap, signed_points if name == CHANGE else points)
        echo(f"  gap {name}, by {found['answers']['drawn']} audit answers: {said} points")
    for entry in found["plan"]:
        if entry["more"]:
            exact = f"{100 * entry['within']:g} points"
            echo(f"  plan: {entry['more']} more audit answers for the differences within {exact}")


def report(
    url: str = URL,
    out: Path | None = typer.Option(None, help="Folder of report.html and report.json (default: NAME-report)."),
    evidence: Path | None = typer.Option(
        None, help="Write evidence for an auditor to this folder instead; of a run's folder or an audit's JSON too."
    ),
    system: str = typer.Option("not stated", help="With --evidence: the system that decides, and what for."),
    decided_by: str = typer.Option("not stated", help="With --evidence: who decided on its use and threshold."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Write the report: before and after per group from the audit answers, whom we asked, how many more to ask.

    Example: apod report hiring.db --out report

    Example: apod report out/adult --evidence evidence
    """
    if evidence is not None:
        from apod.cli.evidence import write_evidence_of
        from apod.evidence.sources import Stated

        write_evidence_of(url, evidence, Stated(system, decided_by), campaign, files)
        return
    from apod.files import write_private
    from apod.report.campaign_facts import campaign_facts
    from apod.report.campaign_page import render_campaign

    with opened_campaign(url, campaign, files) as opened:
        facts = campaign_facts(opened)
    if as_json:
        echo_json(facts, indent=1)
        return
    folder = out or Path(f"{facts['campaign']}-report".replace("/", "-"))
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / "report.json", json.dumps(facts, indent=1, allow_nan=False).encode())
    write_private(folder / "report.html", render_campaign(facts).encode())
    echo(f"{folder / 'report.html'} and report.json are written.")
