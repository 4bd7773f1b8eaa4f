"""What the handlers of one server share, hung onto the application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from apod.campaign import Campaign
from apod.web.attempts import Attempts
from apod.web.building import Builds
from apod.web.limits import Bucket
from apod.web.looks import Looks
from apod.web.settings import ServeSettings
from apod.web.stream import Hub


@dataclass(frozen=True, eq=False)
class Server:
    """One campaign being served."""

    campaign: Campaign
    settings: ServeSettings
    hub: Hub
    pace: Bucket  # by visitor
    attempts: Attempts
    cookie: str
    looks: Looks
    builds: Builds


async def _server(request: Request) -> Server:
    return cast(Server, request.app.state.server)


Served = Annotated[Server, Depends(_server)]
"""What a handler declares to get at the server."""
