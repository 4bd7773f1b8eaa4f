"""`apod campaign extend`, `set`, `archive`, ...: what an owner changes while a campaign runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from apod.cli.shared import DECIMAL, ENCODING, FILES, JSON, NAME, SEP, URL, echo, echo_json, opened_campaign
from apod.errors import InputError


def extend(
    url: str = URL,
    budget: int = typer.Option(..., help="How many answers may be asked for in all: the new total."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Give a campaign another budget, the new total; answers so far stay.

    Example: apod campaign extend hiring.db --budget 80
    """
    with opened_campaign(url, campaign, files) as opened:
        opened.owner.extend(budget)
        found = opened.status()
    if as_json:
        echo_json({"budget": found.budget, "answered": found.answered, "remaining": found.remaining})
        return
    echo(f"The budget is {found.budget} answers; {found.answered} are in, {found.remaining} can be asked for.")


def add(
    url: str = URL,
    table: Path = typer.Argument(
        exists=True, help="New rows: a table with the columns of the campaign's, or a .npy matrix as wide as its own."
    ),
    label: str | None = typer.Option(
        None, help="Of a .npy matrix, its .npy labels; the label column, where the campaign does not know it."
    ),
    known_groups: str | None = typer.Option(
        None, help="The same of groups that you hand in: answers that cost nothing."
    ),
    id_column: str | None = typer.Option(
        None, help="Column with an id per person, where the campaign does not know it."
    ),
    pictures: Path | None = typer.Option(
        None, exists=True, help="Folder, tar or zip of the new pictures (default: the folder of the campaign's)."
    ),
    sep: str | None = SEP,
    decimal: str | None = DECIMAL,
    encoding: str | None = ENCODING,
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Add rows that arrived later, all of them or none; answers stay, and the base model is not fitted again.

    Example: apod campaign add hiring.db more.csv
    """
    from apod.campaign.growth import AddOptions
    from apod.cli.progress_lines import shown_progress
    from apod.data.text_files import dialect

    how = dialect(sep, decimal, encoding)
    with opened_campaign(url, campaign, files) as opened, shown_progress("Adding rows") as progress:
        done = opened.owner.add(table, options=AddOptions(label, known_groups, id_column, pictures, how, progress))
    if as_json:
        echo_json(asdict(done))
        return
    last = done.total - 1
    echo(f"{done.rows} rows added, {done.first} to {last}; {done.total} in all. The next questions know them.")
    if done.held_out:
        echo(f"{done.held_out} of them are held out for the audit.")
    if done.known:
        echo(f"{done.known} groups came with them; they cost nothing.")


def set_(
    url: str = URL,
    guidelines: Path | None = typer.Option(None, exists=True, dir_okay=False, help="A text file, Markdown or plain."),
    question: str | None = typer.Option(None, help="What annotators are asked; empty: the usual sentence."),
    legal_basis: str | None = typer.Option(None, help="Why you may ask for this special-category data."),
    purpose: str | None = typer.Option(None, help="What answers are for: told to the person before a self-report."),
    kind: str | None = typer.Option(None, help="Of answers from now on: self_reported, records or perceived."),
    criterion: str | None = typer.Option(None, help='What must hold at the end, as "gap <= 0.05"; needs --reason.'),
    reason: str | None = typer.Option(None, help="Why the criterion changes; it stands in the log."),
    keep_until: str | None = typer.Option(None, help="The day from which answers are to be erased: 2027-06-30."),
    describe: list[str] = typer.Option([], help='A column and what it means, as age="in years". Repeatable.'),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Change what annotators are told; earlier versions stay in the log.

    Example: apod campaign set hiring.db --guidelines guidelines.md --kind records
    """
    changes: dict[str, Any] = {"question": question, "legal_basis": legal_basis, "kind": kind}
    changes |= {"criterion": criterion, "keep_until": keep_until, "purpose": purpose}
    changes["guidelines"] = None if guidelines is None else guidelines.read_text(encoding="utf-8")
    given = {name: value for name, value in changes.items() if value is not None}
    with opened_campaign(url, campaign, files) as opened:
        if describe:
            given["descriptions"] = {**opened.rules().descriptions, **dict(map(_described, describe))}
        if not given:
            raise InputError("Say what to change: --guidelines, --question, --kind, --criterion, ... (--help).")
        now = opened.owner.revise(reason=reason, **given)
    if as_json:
        echo_json({name: getattr(now, name) for name in given})
        return
    echo(f"Changed: {', '.join(name.replace('_', ' ') for name in given)}. Annotators see it with their next question.")


def expire(
    url: str = URL,
    out: Path | None = typer.Option(None, help="Write the certificate of deletion to this file too."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Erase all answers once their day (--keep-until) has come, end the campaign, and certify the deletion.

    Example: apod campaign expire hiring.db --out certificate.json
    """
    from apod.files import write_private

    with opened_campaign(url, campaign, files) as opened:
        certificate = opened.owner.expire()
    if out is not None:
        write_private(out, (json.dumps(certificate, indent=1) + "\n").encode())
    if as_json:
        echo_json(certificate)
        return
    echo(f"{certificate['answers']} answers and {certificate['models']} models are erased; the campaign has ended.")
    echo(f"certificate {certificate['hash']}: it stands in the log, and `apod log verify` checks it.")


def archive(
    url: str = URL,
    back: bool = typer.Option(False, "--undo", help="List it again; it stays ended."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """End a campaign, end everybody's access, and leave it out of lists; its answers, log and classifier stay.

    Example: apod campaign archive hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        opened.owner.archive(not back)
    done = "listed again; it stays ended" if back else "archived: apod campaign list --all shows it"
    echo(f"The campaign is {done}.")


def backup(
    url: str = URL,
    path: Path = typer.Argument(help="Where to, such as backup.tar; readable by you alone."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Write a campaign's database and files into one archive, while others work; the log notes it.

    Example: apod backup hiring.db backup.tar
    """
    with opened_campaign(url, campaign, files) as opened:
        done = opened.owner.backup(path)
    if as_json:
        echo_json(asdict(done))
        return
    echo(f"{done.events} events and {done.files} files in {path}; head {done.head}, SHA-256 {done.sha256}.")


def restore(
    path: Path = typer.Argument(exists=True, dir_okay=False, help="An archive of `apod backup`."),
    url: str = URL,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Bring a campaign back from an archive, all of it or nothing; links have to be made anew.

    Example: apod restore backup.tar new.db
    """
    from apod.campaign import Campaign

    with Campaign.restore(path, url, files=files, refit="demand") as restored:
        check, status = restored.owner.verify_log(), restored.status()
    if as_json:
        echo_json({"name": status.name, "events": check.events, "head": check.head, "answered": status.answered})
        return
    echo(f"{status.name}: {status.answered} of {status.budget} answers, {check.events} events; the log is whole.")


def review(
    url: str = URL,
    question: int | None = typer.Argument(None, help="The question to decide; without it, the next one is shown."),
    answer: list[str] | None = typer.Argument(
        None, help="What is right: a group, cannot_tell or declined; of several attributes each: sex=female."
    ),
    reviewer: str = typer.Option("reviewer-1", help="Who decides; never about rows they were asked about."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Look again at answers that disagree or say nothing: show the next one, or decide it.

    Example: apod review hiring.db 12 female --reviewer rita
    """
    from apod.campaign.attributes import said_by
    from apod.campaign.settings import GROUP_NAME

    if (question is None) != (not answer):
        raise InputError("Say the question and what is right, or neither to see the next one.")
    with opened_campaign(url, campaign, files) as opened:
        if question is not None and answer:
            opened.reviews.decide(reviewer, question, said_by(opened.settings.asked, answer))
        case, summary = opened.reviews.next(reviewer), opened.reviews.summary()
    if as_json:
        echo_json({"case": None if case is None else asdict(case), **asdict(summary)})
        return
    echo(f"{summary.waiting} to decide, {summary.decided} decided.")
    if case is None:
        return
    several = len(case.attributes) > 1 or case.attributes[0].name != GROUP_NAME
    reasons = dict.fromkeys(one.why.replace("_", " ") for one in case.attributes)
    echo(f"question {case.question}: {case.row_id} ({', '.join(reasons)})")
    for column, value in case.display.items():
        echo(f"  {column}: {value}")
    for one in case.attributes:
        what = f"{one.name} answered" if several else "answered"
        echo(f"{what}: {', '.join(f'{said} {count}' for said, count in one.opinions.items())}")


def _described(text: str) -> tuple[str, str]:
    column, found, meaning = text.partition("=")
    if not found:
        raise InputError(f"{text[:40]!r} describes no column: write column=meaning.")
    return column.strip(), meaning.strip()
