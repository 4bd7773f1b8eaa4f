"""The tables, the same on every database, and bringing a database to this version of them.

`apod_events` is the truth and only ever grows (triggers refuse changes). What may have to be erased stands apart:
`apod_answers` (group values) and `apod_reasons` (why a row was asked, which model did it), each row with the salt of
the commitment its event carries. `apod_proposals` and `apod_models` are caches that can be computed again;
`apod_outcomes` keeps what each model achieved, and goes with the answers it knew. `apod_erasures` lists erasures whose
bytes are still in the database's files. `apod_access` says who may come in over the web; tokens stand there hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

from apod.campaign.errors import NotFound, SchemaError
from apod.campaign.store import BUSY_SECONDS, Store

if TYPE_CHECKING:
    from alembic.config import Config


HEAD_REVISION = "0005"
"""The schema this version of the package reads and writes."""

VERSION_TABLE = "apod_version"

metadata = MetaData()

campaigns = Table(
    "apod_campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("settings", Text, nullable=False),  # JSON, as in the log's first event
    Column("materials", Text, nullable=False),  # JSON: hashes of the files
    Column("folder", Text, nullable=False),  # where the files were put when it was created
    Column("last_seq", BigInteger, nullable=False),  # head of the log; its row is the campaign's write lock
    Column("last_hash", String(64), nullable=False),
    Column("queue", BigInteger, nullable=False),  # generation of the proposals, so that readers may cache them
    UniqueConstraint("name", name="uq_apod_campaigns_name"),
)

events = Table(
    "apod_events",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),  # milliseconds since 1970 by the database's clock
    Column("kind", String(20), nullable=False),
    Column("body", Text, nullable=False),  # canonical JSON
    Column("commitment", String(64)),  # of the sealed value, if there is one
    Column("hash", String(64), nullable=False),
)


def _sealed(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
        Column("seq", BigInteger, primary_key=True, autoincrement=False),
        Column("salt", LargeBinary, nullable=False),
        Column("value", Text, nullable=False),  # canonical JSON
    )


answers = _sealed("apod_answers")
reasons = _sealed("apod_reasons")

proposals = Table(
    "apod_proposals",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("row", BigInteger, nullable=False),
    Column("purpose", String(20), nullable=False),
    Column("probability", Float),
    Column("reason", Text, nullable=False),
    Column("model", String(32)),
)

models = Table(
    "apod_models",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("model", String(32), primary_key=True),
    Column("seq", BigInteger, nullable=False),  # its event
    Column("inputs", Text, nullable=False),  # JSON: the answers it was fitted on, as [answer, value] event numbers
    Column("file", String(64), nullable=False),
    Column("meta", Text, nullable=False),
)

refits = Table(
    "apod_refits",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("leader", String(32)),
    Column("fence", BigInteger, nullable=False),  # grows with every change of leader; an old leader publishes nothing
    Column("expires", BigInteger, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("failure", String(200)),  # the type of the last error, never its text
    Column("running", Boolean, nullable=False),
)

artifacts = Table(
    "apod_artifacts",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("files", Text, nullable=False),  # JSON: array name -> hash
)

outcomes = Table(
    "apod_outcomes",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("model", String(32), primary_key=True),
    Column("seq", BigInteger, nullable=False),  # no later event is known to it
    Column("at", BigInteger, nullable=False),
    Column("answers", Integer, nullable=False),
    Column("outcome", Text, nullable=False),  # JSON: curve, rates, bound
)

erasures = Table(
    "apod_erasures",
    metadata,
    Column("campaign", ForeignKey("apod_campaigns.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # the event of the erasure
    Column("erased_by", BigInteger),  # PostgreSQL: the number of the transaction
)

access = Table(
    "apod_access",
    metadata,
    Column("id", String(32), primary_key=True),  # the open half of a token: finds the row
    Column("campaign", ForeignKey("apod_campaigns.id"), nullable=False),
    Column("what", String(10), nullable=False),  # link, session or token
    Column("role", String(10), nullable=False),  # owner, annotator, reviewer or person
    Column("name", String(200), nullable=False),
    Column("hash", String(64), nullable=False),  # of the secret half
    Column("created", BigInteger, nullable=False),  # times by the database's clock
    Column("expires", BigInteger, nullable=False),
    Column("used", BigInteger),  # a link opens one session
    Column("revoked", BigInteger),
    Column("link", String(32)),  # of a session: the link that opened it
    Column("row", BigInteger),  # of a self-report link: the person it is for
)


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
