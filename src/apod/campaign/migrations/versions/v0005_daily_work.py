"""Self-report links name their row; and events of daily work (revised, reviewed, backup) that 0004 cannot read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One column beside the others; nothing that is there is touched."""
    op.add_column("apod_access", sa.Column("row", sa.BigInteger))
