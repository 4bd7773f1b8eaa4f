"""`apod report`, and the estimate that `apod status` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apod.cli.campaign_options import FILES, JSON, NAME, URL, opened_campaign

if TYPE_CHECKING:
    from apod.campaign import Campaign


def latest_audit(opened: Campaign) -> dict[str, Any] | None:
    """The audit of the latest model; None where the engine has no decisions to audit."""
    from apod.errors import InputError

    try:
        found = opened.audit()
    except InputError:
        return None
    return None if found is None else found.to_dict() | {"asking_strength": opened.asking_strength()}


def show_status(found: dict[str, Any]) -> None:
    """Counts, the groups as answers spell them, what more answers would bring, and the audit."""
    from apod.report.numbers import decimal
    from apod.report.outlook import outlook_sentence

    typer.echo(f"{found['name']}: {found['standing']} of {found['budget']} answers, {found['pending']} in hands")
    if found["finished"]:
        typer.echo("  closed: nothing more is asked")
    elif found["paused"]:
        why = " by itself, the rest of the budget is expected to gain less than its least gain"
        itself = why if found["paused_because"] else ""
        typer.echo(f"  paused{itself}: nobody is asked until it goes on (`apod campaign resume`, or the owner's page)")
    if found["answered"] > found["standing"]:
        gone = found["answered"] - found["standing"]
        typer.echo(f"  {gone} more erased; they stay paid from the budget, which has {found['remaining']} left")
    if found["erasures_due"]:
        typer.echo(
            f"  {found['erasures_due']} erasures are still to be overwritten in the database's files: somebody reads "
            "an older state; it happens at the first call after that reader has ended"
        )
    typer.echo(f"  groups: {', '.join(found['groups'])}")
    for name in ("cannot_tell", "declined", "skipped", "late", "erased", "model_answers", "behind", "agreement"):
        if found[name]:
            typer.echo(f"  {name.replace('_', ' ')}: {found[name]}")
    if found["outlook"]:
        typer.echo(f"  {outlook_sentence(found['outlook'], decimal, '')}")
    if found["audit"] is not None:
        show_audit(found["audit"])


def show_audit(found: dict[str, Any]) -> None:
    """Gap, change and plan in a few lines."""
    strength = found["asking_strength"]
    if found["change"] is not None:
        of = "" if strength is None else f" (strength {strength:g})"
        typer.echo(f"  mitigation here: the head that asks{of}; `apod report` audits the classifier and names its own")
    for name, view in found["predictions"].items():
        gap = view["gap"]
        typer.echo(f"  gap {name} mitigation: {gap['value']:.3f} [{gap['low']:.3f}, {gap['high']:.3f}]")
    if found["change"] is not None:
        gap = found["change"]["gap"]
        typer.echo(f"  change of the gap: {gap['value']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]")
    for entry in found["plan"]:
        if entry["more"]:
            typer.echo(f"  plan: {entry['more']} more audit answers for the differences within +-{entry['within']:g}")


def report(
    url: str = URL,
    out: Path | None = typer.Option(None, help="Folder of report.html and report.json (default: NAME-report)."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Write the report: before and after per group from the audit answers, whom we asked, how many more to ask.

    Example: apod report hiring.db --out report
    """
    from apod.files import write_private
    from apod.report.campaign import render_campaign
    from apod.report.campaign_facts import campaign_facts

    with opened_campaign(url, campaign, files) as opened:
        facts = campaign_facts(opened)
    text = json.dumps(facts, indent=1, allow_nan=False)
    if as_json:
        typer.echo(text)
        return
    folder = out or Path(f"{facts['campaign']}-report".replace("/", "-"))
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / "report.json", text.encode())
    write_private(folder / "report.html", render_campaign(facts).encode())
    typer.echo(f"{folder / 'report.html'} and report.json are written.")
