"""`apod campaign ...`, `apod ask`, `apod tell` and the rest: one method of `Campaign` each."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.campaign_new import new
from apod.cli.campaign_owner import add, archive, backup, expire, extend, restore, review, set_
from apod.cli.campaign_report import latest_audit, report, show_status
from apod.cli.shared import (
    FILES,
    JSON,
    NAME,
    URL,
    WHO,
    echo,
    echo_json,
    offers_settings,
    opened_campaign,
    without_password,
)
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.campaign import Turn
    from apod.campaign.json_types import FullStatusJson


def list_(
    url: str = URL,
    archived: bool = typer.Option(False, "--all", help="Archived ones too."),
    as_json: bool = JSON,
) -> None:
    """List the campaigns of a database.

    Example: apod campaign list hiring.db
    """
    from apod.campaign import campaigns

    found = campaigns(url, archived)
    if as_json:
        echo_json([asdict(info) for info in found])
        return
    for info in found:
        over = "archived" if info.archived else "ended" if info.finished else ""
        state = f", {over}" if over else f", {info.pending} assigned" if info.pending else ""
        echo(f"{info.name}: {info.answered} of {info.budget} answers{state}")


def close(url: str = URL, campaign: str | None = NAME, files: Path | None = FILES) -> None:
    """End a campaign: nothing more is asked, open questions may still be answered.

    Example: apod campaign close hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        opened.owner.finish()
    echo("The campaign is ended; its answers, log and classifier stay.")


def pause(url: str = URL, campaign: str | None = NAME, files: Path | None = FILES) -> None:
    """Ask nothing for now; answers to open questions are still taken.

    Example: apod campaign pause hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        opened.owner.pause()
    echo("The campaign is paused. Resume it with: apod campaign resume.")


def resume(url: str = URL, campaign: str | None = NAME, files: Path | None = FILES) -> None:
    """Resume a campaign that was paused, or paused by itself because of its least gain.

    Example: apod campaign resume hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        if opened.status().finished:
            raise InputError("The campaign has ended and cannot be resumed.")
        opened.owner.pause(False)
    echo("The campaign is resumed.")


def upgrade_(url: str = URL) -> None:
    """Bring a database to this version's schema.

    Example: apod campaign upgrade hiring.db
    """
    from apod.campaign import Store, upgrade

    store = Store(url)
    try:
        echo(f"The schema is at {upgrade(store)}.")
    finally:
        store.dispose()


def ask(
    url: str = URL,
    annotator: str = WHO,
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Get the next question; a second ask gives the same one until it is answered.

    Example: apod ask hiring.db --annotator maria
    """
    with opened_campaign(url, campaign, files) as opened:
        turn = opened.annotator(annotator).turn()
    if as_json:
        echo_json(turn.question.to_json() if turn.question is not None else turn.to_json())
        return
    _show(url, turn)


_NO_QUESTION = {
    "done": "The budget is spent.",
    "wait": "The remaining questions are assigned to others.",
    "preparing": "The next questions are being prepared.",
    "paused": "The campaign is paused: resume it with `apod campaign resume`.",
    "finished": "The campaign was ended.",
    "exhausted": "Nobody is left to ask about.",
}


def _show(url: str, turn: Turn) -> None:
    question = turn.question
    if question is None:
        wait = f" Ask again in {turn.retry_after / 60:.0f} min." if turn.retry_after else ""
        echo(_NO_QUESTION[turn.why] + wait)
        return
    echo(f"question {question.id}: {question.row_id}")
    for column, value in question.display.items():
        echo(f"  {column}: {value}")
    if question.label is not None:
        echo(f"  label: {question.label}")
    if len(question.attributes) > 1:
        said = " ".join(f"{one.name}={'|'.join(one.groups)}|cannot-tell" for one in question.attributes)
    else:
        said = f"{'|'.join(question.groups)}|cannot_tell|declined"
    echo(f"answer: apod tell {without_password(url)} {question.id} {said}")


def tell(
    url: str = URL,
    question: str = typer.Argument(help="The question's id."),
    answer: list[str] = typer.Argument(
        help="A group, cannot_tell or declined; of several attributes each: sex=female race=cannot-tell."
    ),
    annotator: str | None = typer.Option(None, help="Who answers; checked against who was asked."),
    kind: str | None = typer.Option(None, help="self_reported, records or perceived."),
    correct: bool = typer.Option(False, "--correct", help="Replace an answer that was given before."),
    key: str | None = typer.Option(None, help="Idempotency key: the same key twice is one answer."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Answer a question. When this returns, the answer is on disk.

    Example: apod tell hiring.db 3-17 female --annotator maria

    Example: apod tell hiring.db 3-17 sex=female race=cannot-tell
    """
    from apod.campaign.attributes import said_by

    with opened_campaign(url, campaign, files) as opened:
        who = opened.annotator(annotator)
        act = who.correct if correct else who.tell
        receipt = act(question, said_by(opened.settings.asked, answer), kind=kind, key=key)
    if as_json:
        echo_json(asdict(receipt))
        return
    if receipt.erased:
        echo("This answer was erased; nothing was added.")
        return
    late = " It came after the lease had run out." if receipt.late else ""
    counted = "" if receipt.counted else " It does not count: somebody else has the question, or the budget is taken."
    counted = " It was taken back since." if receipt.undone else counted
    echo(("Recorded before; nothing was added." if receipt.repeated else "Recorded.") + late + counted)


def skip(
    url: str = URL,
    question: str = typer.Argument(help="The question's id."),
    annotator: str | None = typer.Option(None, help="Who gives it back."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """Give a question back for somebody else; it costs nothing.

    Example: apod skip hiring.db 3-17
    """
    with opened_campaign(url, campaign, files) as opened:
        given = opened.annotator(annotator).skip(question)
    echo("Given back." if given else "It was given back before.")


def undo(url: str = URL, annotator: str = WHO, campaign: str | None = NAME, files: Path | None = FILES) -> None:
    """Take back an annotator's last answer or skip.

    Example: apod undo hiring.db --annotator maria
    """
    with opened_campaign(url, campaign, files) as opened:
        question = opened.annotator(annotator).undo()
    echo("Taken back." if question is None else f"Taken back; question {question.id} is yours again.")


def status(
    url: str = URL,
    annotators: bool = typer.Option(False, "--annotators", help="Also each annotator's work: for the owner only."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """How far a campaign is; names nobody's group.

    Example: apod status hiring.db --json
    """
    with opened_campaign(url, campaign, files) as opened:
        counts, results = opened.status().to_json(), opened.owner.results
        point = results.operating_point()
        found: FullStatusJson = {
            **counts,
            "audit": latest_audit(opened) if counts["by_purpose"].get("audit") else None,
            "audits": {},
            **results.outlook_shown(),
            "operating_point": None if point is None else point.to_json(),
            "verification": results.verification(),
            "by_annotator": [report.to_json() for report in opened.owner.annotators()] if annotators else [],
        }
        if not annotators:
            del found["by_annotator"]
        if len(counts["attributes"]) > 1 and counts["by_purpose"].get("audit"):
            found["audits"] = {one["name"]: latest_audit(opened, one["name"]) for one in counts["attributes"]}
        if not any(found["audits"].values()):
            del found["audits"]
    if as_json:
        echo_json(found)
        return
    show_status(found)
    for one in found.get("by_annotator", []):
        echo(f"  {one}")
    for reminder in found["reminders"]:
        echo(f"reminder: {reminder}", err=True)


def export(
    url: str = URL,
    path: Path | None = typer.Argument(None, help="Where to: .csv, .parquet, .jsonl, or .json for Label Studio."),
    format: str | None = typer.Option(None, help="csv, parquet, jsonl, label-studio (default: by the ending)."),
    tasks: int = typer.Option(0, help="Label Studio: hand out so many open questions along."),
    config: bool = typer.Option(
        False, "--label-studio-config", help="Print the labelling interface (XML) of a Label Studio project instead."
    ),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """Write all answers that stand. The file holds people's groups: keep it as you keep the campaign.

    Example: apod export hiring.db answers.csv
    """
    with opened_campaign(url, campaign, files) as opened:
        if config:
            echo(opened.owner.label_studio_config())
            return
        if path is None:
            raise InputError("Say where to: a path such as answers.csv, or --label-studio-config.")
        report = opened.owner.export(path, format, tasks=tasks)
    echo(f"{report.answers} answers and {report.handed} open questions in {path}.")
    if report.until is not None:
        echo(f"The open questions are put to nobody else until {report.until}; apod import takes them in.")


def import_(
    url: str = URL,
    path: Path = typer.Argument(help="CSV, Parquet, JSON Lines or Label Studio JSON."),
    format: str | None = typer.Option(None, help="csv, parquet, jsonl, label-studio (default: by the ending)."),
    annotator: str | None = typer.Option(None, help="Who answered, where the file does not say."),
    kind: str | None = typer.Option(None, help="self_reported, records or perceived, where the file does not say."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """Take in answers given elsewhere, all or none.

    Example: apod import hiring.db answers.csv --kind records
    """
    with opened_campaign(url, campaign, files) as opened:
        report = opened.owner.import_(path, format, annotator=annotator, kind=kind)
    conflicts = f", {len(report.conflicts)} left as they were (answered differently before)" if report.conflicts else ""
    echo(f"{report.added} added, {report.repeated} known before, {report.skipped} empty{conflicts}.")


def erase(
    url: str = URL,
    row: int | None = typer.Option(None, help="Erase what was answered about this row."),
    question: str | None = typer.Option(None, help="Erase the answers to this question."),
    annotator: str | None = typer.Option(None, help="Erase everything this annotator answered."),
    attribute: str | None = typer.Option(None, help="Of several attributes, erase what was said of this one alone."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Erase answers and whatever was computed from them; the log keeps that something was erased, not what.

    Example: apod erase hiring.db --row 17

    Example: apod erase hiring.db --row 17 --attribute race
    """
    with opened_campaign(url, campaign, files) as opened:
        done = opened.owner.erase(row=row, question=question, annotator=annotator, attribute=attribute)
    if as_json:
        echo_json(asdict(done))
        return
    echo(f"{done.answers} answers and {done.models} models erased.")
    if done.backups:
        listed = ", ".join(done.backups)
        echo(f"Not erased from {len(done.backups)} backups: {listed}. Delete them, or erase after a restore.")
    if not done.overwritten:
        echo(
            "Their bytes are still in the database's files, because somebody is reading an older state: end that "
            "reader, then run `apod status`, which overwrites them and says so."
        )


def verify(
    url: str = URL,
    noted: str | None = typer.Option(None, help="A head of the chain that was written down earlier."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Check that nobody tampered with the log, nor with the files it names; status 1 where somebody did.

    Example: apod log verify hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        found = opened.owner.verify_log(noted)
    if as_json:
        echo_json(asdict(found))
    else:
        state = "The log is whole" if found.ok else "THE LOG OR ITS FILES WERE CHANGED"
        echo(f"{state}: {found.events} events, head {found.head}")
        for problem in found.problems:
            echo(f"  {problem}")
        for name in found.unverified:
            echo(f"  not verified: {name}, computed by an earlier version, which did not log it")
    if not found.ok:
        raise typer.Exit(1)


def show_log(url: str = URL, campaign: str | None = NAME, files: Path | None = FILES) -> None:
    """Print the log as JSON Lines: who was asked what, when, why, by which model; never an answer.

    Example: apod log show hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        for entry in opened.owner.log():
            echo_json(entry)


def add_commands(app: typer.Typer) -> None:
    """Hang the campaign commands into the application."""
    campaign = typer.Typer(
        help="Create, list, extend, add to, change, pause, end and upgrade campaigns.", no_args_is_help=True
    )
    for name, command in (
        ("new", offers_settings(new, leave_out=("questions_per_round", "least_gain"))),
        ("list", list_),
        ("extend", extend),
        ("add", add),
        ("set", set_),
        ("pause", pause),
        ("resume", resume),
        ("close", close),
        ("expire", expire),
        ("archive", archive),
        ("upgrade", upgrade_),
    ):
        campaign.command(name)(command)
    log = typer.Typer(help="The log of a campaign.", no_args_is_help=True)
    log.command("verify")(verify)
    log.command("show")(show_log)
    app.add_typer(campaign, name="campaign")
    app.add_typer(log, name="log")
    for command in (ask, tell, skip, undo, status, report, export, erase, backup, restore, review):
        app.command()(command)
    app.command("import")(import_)
