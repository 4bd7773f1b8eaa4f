"""The person concerned: what they are told, their answer, and taking it back. Their link is all they need."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, StringConstraints

from apod.campaign.errors import NotFound
from apod.web.annotator_routes import AttributeSeen, Said, seen_attributes
from apod.web.context import Server
from apod.web.errors import Refused
from apod.web.security import Entry, check_origin
from apod.web.settings import sender

_USED = "This link was used before, has expired or was revoked: ask whoever sent it for a new one."


class FormSeen(BaseModel):
    """What a person is told before they answer."""

    campaign: str
    groups: list[str]
    attributes: list[AttributeSeen]
    question: str | None
    purpose: str | None
    legal_basis: str | None


class Reported(Entry):
    """What the person says: a group's name, `cannot_tell` or `declined`."""

    answer: Said


class ReceiptCode(BaseModel):
    """The code by which the answer can be withdrawn; it is shown this once."""

    model_config = ConfigDict(extra="forbid", strict=True)
    receipt: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Withdrawn(BaseModel):
    """That the answer is erased."""

    withdrawn: bool


def same_site(request: Request, server: Server) -> None:
    """Refuse what another site's page made a browser send, before anything else is looked at."""
    check_origin(request, server)


router = APIRouter(tags=["self-report"], dependencies=[Depends(same_site)])


@router.post("/self-report/form")
def form(request: Request, server: Server, body: Entry) -> FormSeen:
    """What the person is told; the link stays good."""
    address = _checked(request, server, body.token)
    found = server.campaign.owner.self_reports.form(body.token)
    if found is None:
        server.attempts.count_wrong(address, body.token)
        raise Refused(401, _USED)
    shown = {"groups": list(found.groups), "attributes": seen_attributes(found.attributes)}
    return FormSeen(**{**vars(found), **shown})


@router.post("/self-report")
def report(request: Request, server: Server, body: Reported) -> ReceiptCode:
    """Answer, or refuse to; uses the link up. Durable when this returns."""
    address = _checked(request, server, body.token)
    code = server.campaign.owner.self_reports.answer(body.token, body.answer)
    if code is None:
        server.attempts.count_wrong(address, body.token)
        raise Refused(401, _USED)
    return ReceiptCode(receipt=code)


@router.post("/self-report/withdrawal")
def withdraw(request: Request, server: Server, body: ReceiptCode) -> Withdrawn:
    """Withdraw an answer by its receipt's code: it is erased."""
    address = _checked(request, server, body.receipt)
    try:
        server.campaign.owner.withdraw(body.receipt)
    except NotFound:
        server.attempts.count_wrong(address, body.receipt)
        raise Refused(401, "There is no answer with this code, or it was withdrawn before.") from None
    return Withdrawn(withdrawn=True)


def _checked(request: Request, server: Server, secret: str) -> str:
    """Who sends it, unless they tried too many wrong ones."""
    address = sender(request, server.settings.proxies)
    server.attempts.check(address, secret)
    return address
