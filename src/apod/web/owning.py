"""The owner's endpoints: what the answers achieved, who may come in, pausing, downloads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from apod.campaign.access import OWNER
from apod.web.annotating import Text
from apod.web.desk import Served
from apod.web.guard import Owner

AccessId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


class StateBody(BaseModel):
    """Whether the campaign asks."""

    model_config = ConfigDict(extra="forbid", strict=True)
    state: Literal["open", "paused"]


class StateSeen(BaseModel):
    """Whether the campaign asks, and if not, why."""

    state: Literal["open", "paused", "done", "finished"]


class OperatingPoint(BaseModel):
    """The strength of the head to use; null leaves the choice to the classifier."""

    model_config = ConfigDict(extra="forbid", strict=True)
    strength: float | None


class Chosen(BaseModel):
    """The operating point."""

    chosen: float | None


class Invitation(BaseModel):
    """Whom to let in, how, and for how long."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Text
    role: Literal["owner", "annotator"] = "annotator"
    what: Literal["link", "token"] = "link"
    days: float = Field(default=7.0, gt=0, le=366)


class Invited(BaseModel):
    """A link, or a program's token; it can be seen this once."""

    id: str
    link: str | None
    token: str | None
    expires_at: str


class Entry(BaseModel):
    """A link, session or token."""

    id: str
    what: Literal["link", "session", "token"]
    role: Literal["owner", "annotator"]
    name: str
    created_at: str
    expires_at: str
    used_at: str | None
    state: Literal["active", "used", "expired", "revoked"]
    current: bool


class Entries(BaseModel):
    """All links, sessions and tokens."""

    access: list[Entry]


class Whose(BaseModel):
    """Whose access."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Text


class Revoked(BaseModel):
    """How many links, sessions and tokens were ended."""

    revoked: int


router = APIRouter(tags=["owner"])


@router.put("/state")
def state(server: Served, who: Owner, body: StateBody) -> StateSeen:
    """Pause the campaign, or go on."""
    server.campaign.pause(body.state == "paused")
    return StateSeen(state=server.campaign.progress().phase)


@router.put("/operating-point")
def operating_point(server: Served, who: Owner, body: OperatingPoint) -> Chosen:
    """Choose the point on the curve at which the classifier decides."""
    server.campaign.choose(body.strength)
    return Chosen(chosen=server.campaign.chosen())


@router.get("/access")
def access(server: Served, who: Owner) -> Entries:
    """Links, sessions and tokens; secrets are not among them."""
    found: list[dict[str, Any]] = [vars(entry) for entry in server.campaign.access.entries()]
    return Entries(access=[Entry(**entry, current=entry["id"] == who.id) for entry in found])


@router.post("/access", status_code=201)
def invite(request: Request, server: Served, who: Owner, body: Invitation) -> Invited:
    """Make a link for a person, or a token for a program."""
    name = OWNER if body.role == "owner" else body.name
    made = server.campaign.access.grant(name, body.role, body.what, body.days)
    is_link = body.what == "link"
    link = f"{server.settings.origin_for(request.headers.get('host'))}/enter#{made.token}"
    return Invited(
        id=made.id,
        link=link if is_link else None,
        token=None if is_link else made.token,
        expires_at=made.expires_at,
    )


@router.post("/access/revoke")
def revoke_name(server: Served, who: Owner, body: Whose) -> Revoked:
    """End everything somebody has."""
    count = server.campaign.access.revoke_name(body.name)
    return Revoked(revoked=count)


@router.delete("/access/{id}", status_code=204)
def revoke(server: Served, who: Owner, id: AccessId) -> None:
    """End a link, a session or a token."""
    server.campaign.access.revoke(id)
