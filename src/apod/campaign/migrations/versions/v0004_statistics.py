"""PostgreSQL samples no answers for its planner: samples stand in its own tables, where no erasure reaches them."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SAMPLED = {
    "apod_answers": {"salt": "bytea", "value": "text"},
    "apod_reasons": {"salt": "bytea", "value": "text"},
    "apod_models": {"inputs": "text", "file": "varchar(64)", "meta": "text"},
    "apod_outcomes": {"outcome": "text"},
    "apod_proposals": {"reason": "text"},
}
"""Columns that hold answers or what was computed from them, with their types."""


def upgrade() -> None:
    """Sample these columns no more, and forget what was; SQLite samples nothing by itself."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, columns in SAMPLED.items():
        for column, kind in columns.items():
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE {kind}")  # the same type: drops the samples
