"""What every command on a campaign takes, and how it opens one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from apod.campaign import Campaign

URL = typer.Argument(help="A SQLite file such as hiring.db, or the URL of a PostgreSQL database.", metavar="CAMPAIGN")
NAME = typer.Option(None, "--campaign", help="Which one, where a database holds several.")
FILES = typer.Option(None, help="Folder of the matrices (default: beside the SQLite file, or APOD_FILES).")
WHO = typer.Option("annotator-1", help="Who answers.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@contextmanager
def opened_campaign(url: str, name: str | None, files: Path | None) -> Iterator[Campaign]:
    """The campaign for the length of one command; models are fitted when a question needs one."""
    from apod.campaign import Campaign

    campaign = Campaign.open(url, name, files=files, refit="demand")
    try:
        yield campaign
    finally:
        campaign.close()


def without_password(url: str) -> str:
    """The database as it may stand on a screen."""
    return re.sub(r"(://[^:@/]*):[^@/]*@", r"\1:***@", url)
