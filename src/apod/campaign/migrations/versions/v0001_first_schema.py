"""Campaigns, their append-only log, sealed values, and the caches beside it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables and make the log append-only."""
    _campaigns()
    _log()
    _caches()
    _append_only()


def _owner() -> sa.Column[int]:
    return sa.Column("campaign", sa.Integer, sa.ForeignKey("apod_campaigns.id"), primary_key=True)


def _number() -> sa.Column[int]:
    return sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False)


def _campaigns() -> None:
    op.create_table(
        "apod_campaigns",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("materials", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("last_hash", sa.String(64), nullable=False),
        sa.Column("queue", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("name", name="uq_apod_campaigns_name"),
    )


def _log() -> None:
    op.create_table(
        "apod_events",
        _owner(),
        _number(),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("commitment", sa.String(64)),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    for name in ("apod_answers", "apod_reasons"):
        op.create_table(
            name,
            _owner(),
            _number(),
            sa.Column("salt", sa.LargeBinary, nullable=False),
            sa.Column("value", sa.Text, nullable=False),
        )


def _caches() -> None:
    op.create_table(
        "apod_proposals",
        _owner(),
        sa.Column("rank", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("row", sa.BigInteger, nullable=False),
        sa.Column("purpose", sa.String(20), nullable=False),
        sa.Column("probability", sa.Float),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("model", sa.String(32)),
    )
    op.create_table(
        "apod_models",
        _owner(),
        sa.Column("model", sa.String(32), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("inputs", sa.Text, nullable=False),
        sa.Column("file", sa.String(64), nullable=False),
        sa.Column("meta", sa.Text, nullable=False),
    )
    op.create_table(
        "apod_refits",
        _owner(),
        sa.Column("leader", sa.String(32)),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failure", sa.String(200)),
        sa.Column("running", sa.Boolean, nullable=False),
    )
    op.create_table(
        "apod_artifacts",
        _owner(),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("files", sa.Text, nullable=False),
    )


def _append_only() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER apod_events_no_{verb.lower()} BEFORE {verb} ON apod_events "
                "BEGIN SELECT RAISE(ABORT, 'the log only grows'); END"
            )
    elif op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION apod_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the log only grows'; END $$"
        )
        op.execute(
            "CREATE TRIGGER apod_events_only_grows BEFORE UPDATE OR DELETE ON apod_events "
            "FOR EACH ROW EXECUTE FUNCTION apod_only_grows()"
        )
