"""`apod serve`, `apod invite`, `apod access`: a campaign in the browser, and who may come in."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.shared import FILES, JSON, NAME, URL, echo, echo_json, opened_campaign
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.web.settings import ServeSettings

WHERE = typer.Option(None, "--url", help="The address people use, where it is not the one listened on (a proxy).")


def serve(
    url: str = URL,
    host: str = typer.Option("127.0.0.1", help="Where to listen; anything but this machine is warned about."),
    port: int = typer.Option(8000, help="0 takes any free port."),
    address: str | None = WHERE,
    trusted_proxy: list[str] = typer.Option(
        [], help="Address or network of your proxy: its X-Forwarded-For says who sends a request. Repeatable."
    ),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """Serve the annotation page and the dashboard; prints a one-time link for the owner.

    Example: apod serve hiring.db
    """
    _check_installed()
    from apod.campaign import Campaign
    from apod.web.server import serve as run
    from apod.web.settings import ServeSettings

    settings = ServeSettings(host, port, address, trusted_proxies=tuple(trusted_proxy))
    opened = Campaign.open(url, campaign, files=files, refit="process")

    def ready(found: ServeSettings) -> None:
        opened.owner.note_address(found.origin)
        link = opened.owner.access.grant("owner", "owner", days=1)
        echo(f"{opened.name} on {found.origin} (Ctrl-C stops the server, not the campaign)")
        echo(f"owner: {found.origin}/enter#{link.token}")
        echo("This link opens one session, within a day. For annotators: apod invite.")
        if address is not None and not trusted_proxy:
            echo("note: name your proxy with --trusted-proxy, so that limits count by person.", err=True)
        if not found.loopback:
            echo(
                f"warning: {host} can be reached from other machines, and nothing is encrypted: people's groups travel "
                "in the open. Put a proxy with HTTPS before it and pass --url.",
                err=True,
            )

    try:
        with suppress(KeyboardInterrupt):  # Ctrl-C is how a server ends
            run(opened, settings, ready)
    finally:
        opened.close()


def invite(
    url: str = URL,
    name: str = typer.Argument(help="Whom: a pseudonym; it stands in the log."),
    owner: bool = typer.Option(
        False, "--owner", help="Let them in as owner; what an owner answers is the answer of `owner`."
    ),
    reviewer: bool = typer.Option(False, "--reviewer", help="A link for whoever decides where answers disagree."),
    token: bool = typer.Option(False, "--token", help="A token for a program instead of a link."),
    days: float = typer.Option(7.0, help="How long it can be used."),
    address: str | None = typer.Option(None, "--url", help="The server's address (default: where it was served last)."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Make a link that lets an annotator in, once; or a token for a program.

    Example: apod invite hiring.db maria --url https://annotate.example.org
    """
    from apod.web.settings import ServeSettings

    with opened_campaign(url, campaign, files) as opened:
        origin = ServeSettings(url=address or opened.owner.address()).origin
        role = "owner" if owner else "reviewer" if reviewer else "annotator"
        made = opened.owner.access.grant(name, role, "token" if token else "link", days)
    shown = made.token if token else f"{origin}/enter#{made.token}"
    if as_json:
        what = "token" if token else "link"
        echo_json({"id": made.id, "name": made.name, what: shown, "expires_at": made.expires_at})
        return
    echo(shown)
    echo(f"{'The token is' if token else 'The link opens one session,'} good until {made.expires_at}.", err=True)


def list_(url: str = URL, campaign: str | None = NAME, files: Path | None = FILES, as_json: bool = JSON) -> None:
    """List links, sessions and tokens; their secrets are stored nowhere.

    Example: apod access list hiring.db
    """
    with opened_campaign(url, campaign, files) as opened:
        found = opened.owner.access.entries()
    if as_json:
        echo_json([asdict(entry) for entry in found])
        return
    for entry in found:
        echo(f"{entry.id} {entry.what} {entry.state} {entry.role} {entry.name} until {entry.expires_at}")


def revoke(
    url: str = URL,
    which: str = typer.Argument(help="An id of `apod access list`, or a name: all that person has."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """End a link, a session or a token, or all of somebody's, at once.

    Example: apod access revoke hiring.db maria
    """
    with opened_campaign(url, campaign, files) as opened:
        access = opened.owner.access
        known = {entry.id for entry in access.entries()}
        count = access.revoke_name(which) if which not in known else 1
        if which in known:
            access.revoke(which)
    if not count:
        raise InputError("There is nothing to end under that id or name: see `apod access list`.")
    echo(f"{count} ended.")


def self_report_links(
    url: str = URL,
    path: Path = typer.Argument(help="A CSV to write for your mail merge: row, id, link, expires_at."),
    rows: str = typer.Option(..., help="Rows of the people concerned, comma-separated."),
    days: float = typer.Option(30.0, help="How long the links can be used."),
    address: str | None = typer.Option(None, "--url", help="The server's address (default: where it was served last)."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """Make links by which the people concerned answer about themselves; only their answer uses one up.

    Example: apod self-report links hiring.db links.csv --rows 3,17,40
    """
    from apod.web.settings import ServeSettings

    if not all(word.strip().isdigit() for word in rows.split(",")):
        raise InputError("--rows takes row numbers, comma-separated: 3,17,40.")
    with opened_campaign(url, campaign, files) as opened:
        origin = ServeSettings(url=address or opened.owner.address()).origin
        count = opened.owner.self_reports.mail_merge(path, [int(word) for word in rows.split(",")], origin, days)
    echo(f"{count} links in {path}: whoever has one can answer for that person, so send each to its person alone.")


def self_report_withdraw(
    url: str = URL,
    code: str = typer.Argument(help="The code the person was given as a receipt."),
    attribute: str | None = typer.Option(None, help="Of several attributes, withdraw what was said of this one alone."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
) -> None:
    """Withdraw a self-report by its code, on the person's behalf: it is erased.

    Example: apod self-report withdraw hiring.db 0f3a...
    """
    with opened_campaign(url, campaign, files) as opened:
        opened.owner.withdraw(code, attribute)
    echo("The answer is withdrawn and erased.")


def add_commands(app: typer.Typer) -> None:
    """Hang the commands into the application."""
    access = typer.Typer(help="Who may come in over the web.", no_args_is_help=True)
    access.command("list")(list_)
    access.command("revoke")(revoke)
    app.add_typer(access, name="access")
    reports = typer.Typer(help="Links for the people concerned.", no_args_is_help=True)
    reports.command("links")(self_report_links)
    reports.command("withdraw")(self_report_withdraw)
    app.add_typer(reports, name="self-report")
    app.command()(serve)
    app.command()(invite)


def _check_installed() -> None:
    for package in ("fastapi", "h11", "plotly", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise InputError(f"{package} is not installed: pip install 'apod-fairness[serve]'.")
