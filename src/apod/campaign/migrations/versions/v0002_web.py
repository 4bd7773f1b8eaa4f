"""What each model achieved, and who may come in over the web."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two tables beside the others; nothing that is there is touched."""
    op.create_table(
        "apod_outcomes",
        sa.Column("campaign", sa.Integer, sa.ForeignKey("apod_campaigns.id"), primary_key=True),
        sa.Column("model", sa.String(32), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("answers", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
    )
    op.create_table(
        "apod_access",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("campaign", sa.Integer, sa.ForeignKey("apod_campaigns.id"), nullable=False),
        sa.Column("what", sa.String(10), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger),
        sa.Column("revoked", sa.BigInteger),
        sa.Column("link", sa.String(32)),
    )
