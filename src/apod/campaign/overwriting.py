"""Erased values leave the database's files too: at once, or as soon as nobody reads an older state any more.

A deleted row is still there for whoever began to read before, in SQLite's write-ahead log or in a page of PostgreSQL.
An erasure therefore notes in its own transaction that its bytes are due (`apod_erasures`), tries to overwrite them
without keeping anybody waiting for more than a moment, and otherwise leaves that to the next calls and to whoever opens
the campaign next.

SQLite: `secure_delete` overwrites a deleted row, but leaves copies where it moved rows between pages before; so the
tables are written anew by the erasure itself, and what is due is the truncation of the write-ahead log. PostgreSQL:
VACUUM FULL writes a table into a new file; it leaves out a deleted row only where no snapshot is older than that.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, insert, select, text

from apod.campaign import schema
from apod.campaign.journal import Desk
from apod.campaign.store import Store

TABLES = tuple(
    table.name for table in (schema.answers, schema.reasons, schema.models, schema.outcomes, schema.proposals)
)
"""Where answers stand, and what was computed from them."""

_HELD = text("""
    SELECT count(*) FROM (
        SELECT backend_xmin AS held FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (datid IS NULL OR datname = current_database())
        UNION ALL SELECT backend_xid FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND datname = current_database()
        UNION ALL SELECT xmin FROM pg_replication_slots
        UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()
    ) AS holders WHERE age(held) >= age(CAST(CAST(:erased_by AS bigint) % 4294967296 AS text)::xid)
""")  # whoever may still see what that transaction deleted; any role may look


def count_due(connection: Connection, campaign: int) -> int:
    """How many erasures have left bytes in the database's files."""
    query = select(func.count()).select_from(schema.erasures).where(schema.erasures.c.campaign == campaign)
    return int(connection.execute(query).scalar_one())


def note_due(desk: Desk, seq: int) -> None:
    """Note, in the transaction that erases, that its bytes are to be overwritten."""
    row: dict[str, Any] = {"campaign": desk.campaign, "seq": seq}
    if desk.connection.dialect.name == "sqlite":
        rewrite(desk.connection)
    else:
        row["erased_by"] = int(desk.connection.execute(text("SELECT txid_current()")).scalar_one())
    desk.connection.execute(insert(schema.erasures), row)


def rewrite(connection: Connection) -> None:
    """SQLite: write the tables anew into pages without a past; those they leave are overwritten."""
    connection.exec_driver_sql("PRAGMA temp_store=MEMORY")  # the copy must not lie in a file of its own
    for table in TABLES:
        connection.exec_driver_sql(f"CREATE TEMP TABLE apod_kept AS SELECT * FROM {table} ORDER BY rowid")
        connection.exec_driver_sql(f"DELETE FROM {table}")
        connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM apod_kept ORDER BY rowid")
        connection.exec_driver_sql("DROP TABLE temp.apod_kept")


def overwrite(store: Store, erased_by: int, seconds: float) -> bool:
    """Leave no copy of deleted rows in the database's files; False where somebody still reads an older state."""
    with store.at_once(seconds) as connection:
        if store.dialect == "sqlite":
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, and nobody waits for it
            return not connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
        if connection.execute(_HELD, {"erased_by": erased_by}).scalar_one():
            return False
        before = _file_numbers(connection)
        for table in TABLES:
            connection.exec_driver_sql(f"VACUUM (FULL) {table}")
        return not before & _file_numbers(connection)  # a role that may not rewrite a table is only warned


def _file_numbers(connection: Connection) -> set[int]:
    query = text("SELECT pg_relation_filenode(CAST(:name AS regclass))")
    return {int(connection.execute(query, {"name": table}).scalar_one()) for table in TABLES}
