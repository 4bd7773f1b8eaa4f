"""Schema versions: which one a database has, and bringing it to this package's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from apod.campaign.errors import NotFound, SchemaError
from apod.campaign.schema import HEAD_REVISION, VERSION_TABLE
from apod.campaign.store import BUSY_SECONDS, Store

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x61706F64  # "apod": PostgreSQL's advisory lock around schema changes


def upgrade(store: Store) -> str:
    """Bring the database to this package's schema, creating it where there is none; return its version.

    All in one transaction: an interrupted upgrade leaves the database as it was.
    """
    from alembic import command

    store.make()
    with store.writing() as connection:
        if store.dialect == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        found = revision(connection)
        if found is not None:
            _refuse_newer(store, found)
        if found != HEAD_REVISION:
            config = migrations()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    if store.dialect == "postgresql" and found not in (None, HEAD_REVISION):
        with store.at_once(BUSY_SECONDS) as connection:  # samples of answers that an earlier version let it take
            connection.exec_driver_sql("VACUUM (FULL) pg_statistic")
    return HEAD_REVISION


def migrations() -> Config:
    """Alembic's configuration: the schema versions shipped with the package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "apod.campaign:migrations")
    return config


def check_schema(store: Store) -> None:
    """Refuse a database that holds no campaign, or one of another version."""
    if not store.exists():
        raise NotFound(f"There is no campaign at {store.label}: create one with `apod campaign new`.")
    with store.reading() as connection:
        found = revision(connection)
    if found is None:
        raise NotFound(f"There is no campaign at {store.label}: create one with `apod campaign new`.")
    _refuse_newer(store, found)
    if found != HEAD_REVISION:
        raise SchemaError(
            f"{store.label} has schema {found}, this version needs {HEAD_REVISION}: make a backup and run "
            "`apod campaign upgrade`."
        )


def revision(connection: Connection) -> str | None:
    """The schema version of a database; None where there is no campaign at all."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def _refuse_newer(store: Store, found: str) -> None:
    if not found.isdigit() or int(found) > int(HEAD_REVISION):
        raise SchemaError(
            f"{store.label} was made by a newer version (schema {found[:40]!r}, this one knows up to "
            f"{HEAD_REVISION}): upgrade the package. The database was not touched."
        )
