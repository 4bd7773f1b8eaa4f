"""The campaigns of a database."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sqlalchemy import select

from apod.campaign import schema
from apod.campaign.journal import Journal
from apod.campaign.store import Store
from apod.campaign.upgrade import check_schema


@dataclass(frozen=True)
class CampaignInfo:
    """A line of the list of campaigns."""

    name: str
    answered: int
    pending: int
    budget: int
    finished: bool


def campaigns(url: str | os.PathLike[str]) -> list[CampaignInfo]:
    """The campaigns of a database."""
    store = Store(url)
    try:
        check_schema(store)
        with store.reading() as connection:
            rows = connection.execute(select(schema.campaigns.c.id, schema.campaigns.c.name).order_by("id")).all()
        return [
            Journal(store, row.id).view(
                lambda c, state, at, name=row.name: CampaignInfo(  # type: ignore[misc]
                    name, state.standing, state.pending(state.now(at)), state.budget, state.finished
                )
            )
            for row in rows
        ]
    finally:
        store.dispose()
