"""Coming in: a one-time link opens a session; who one is; leaving."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from apod.web.addresses import sender
from apod.web.desk import Served
from apod.web.errors import Refused
from apod.web.guard import Anybody, check_origin


class Entry(BaseModel):
    """The token of a one-time link: what stands after the #."""

    model_config = ConfigDict(extra="forbid", strict=True)
    token: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Me(BaseModel):
    """Who one is."""

    role: str
    name: str
    campaign: str
    expires_at: str


router = APIRouter(tags=["session"])


@router.post("/session")
def enter(request: Request, response: Response, server: Served, body: Entry) -> Me:
    """Open a session with a one-time link; the cookie comes along."""
    check_origin(request, server)
    address = sender(request, server.settings.proxies)
    server.attempts.check(address, body.token)
    session = server.campaign.access.redeem(body.token)
    if session is None:
        server.attempts.count_wrong(address, body.token)
        raise Refused(401, "This link was used before, ran out or was revoked: ask the owner for a new one.")
    response.set_cookie(
        server.cookie,
        session.token,
        max_age=session.seconds,
        path="/",
        secure=server.settings.secure,
        httponly=True,
        samesite="strict",
    )
    return Me(role=session.role, name=session.name, campaign=server.campaign.name, expires_at=session.expires_at)


@router.delete("/session", status_code=204)
def leave(response: Response, server: Served, who: Anybody) -> None:
    """End one's own session."""
    server.campaign.access.revoke(who.id)
    response.delete_cookie(server.cookie, path="/", secure=server.settings.secure, httponly=True, samesite="strict")


@router.get("/me")
def me(server: Served, who: Anybody) -> Me:
    """Who one is."""
    return Me(role=who.role, name=who.name, campaign=server.campaign.name, expires_at=who.expires_at)
