"""The log's guards hold against REPLACE and TRUNCATE too; erasures whose bytes are still in the files are listed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One table beside the others, and two guards; nothing that is there is touched."""
    op.create_table(
        "apod_erasures",
        sa.Column("campaign", sa.Integer, sa.ForeignKey("apod_campaigns.id"), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("erased_by", sa.BigInteger),
    )
    if op.get_bind().dialect.name == "sqlite":
        # REPLACE deletes without any trigger for it, by the key and by SQLite's own number of the row
        op.execute(
            "CREATE TRIGGER apod_events_no_replace BEFORE INSERT ON apod_events "
            "WHEN NEW.seq <= (SELECT coalesce(max(seq), 0) FROM apod_events WHERE campaign = NEW.campaign) "
            "OR EXISTS (SELECT 1 FROM apod_events WHERE rowid = NEW.rowid) "
            "BEGIN SELECT RAISE(ABORT, 'the log only grows'); END"
        )
    elif op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE TRIGGER apod_events_no_truncate BEFORE TRUNCATE ON apod_events "
            "FOR EACH STATEMENT EXECUTE FUNCTION apod_only_grows()"
        )
        for name in ("apod_events_only_grows", "apod_events_no_truncate"):  # for replicas' sessions as well
            op.execute(f"ALTER TABLE apod_events ENABLE ALWAYS TRIGGER {name}")
