"""Which of a campaign's database files hold some bytes."""

from __future__ import annotations

from pathlib import Path

import psycopg
from sqlalchemy import text

from apod.campaign import Campaign


def holders(campaign: Campaign, wanted: bytes) -> list[str]:
    """The database's files in which these bytes stand, PostgreSQL's write-ahead log apart."""
    if campaign.store.path is not None:
        files = [path for path in campaign.store.path.parent.glob(f"{campaign.store.path.name}*") if path.is_file()]
    else:
        with psycopg.connect(campaign.store.url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")  # what is in shared memory goes to the files
            folder = Path(connection.execute("SHOW data_directory").fetchone()[0])  # type: ignore[index]
        files = [path for path in (folder / "base").rglob("*") if path.is_file()]
    return sorted(path.name for path in files if wanted in path.read_bytes())


def salt_of(campaign: Campaign, row: int) -> bytes:
    """What is stored beside the answer about a row, and nowhere else: 32 random bytes."""
    given = next(given for given in campaign.journal.view(lambda c, state, at: state).current() if given.row == row)
    with campaign.store.reading() as connection:
        query = text(f"SELECT salt FROM apod_answers WHERE seq = {given.values[-1]}")
        return bytes(connection.execute(query).scalar_one())
