"""Who is asking: sessions of browsers, tokens of programs, and what each may do.

A browser sends its cookie along with whatever page made it ask, so everything but looking needs a header that another
site's page cannot set, and an Origin that is ours. A program's token is sent on purpose and needs neither.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from apod.campaign.access import Visitor, What
from apod.web.addresses import sender
from apod.web.desk import Served, Server
from apod.web.errors import Refused

SAFE = ("GET", "HEAD", "OPTIONS")
HEADER = "X-Apod"

# only for the API's description: what is read is read below
_BEARER = HTTPBearer(auto_error=False, description="A program's token (`apod invite --token`).")
_COOKIE = APIKeyCookie(name="apod_session", auto_error=False, description="A browser's session, opened by a link.")


def check_origin(request: Request, server: Server) -> None:
    """Refuse what another site's page made a browser send."""
    if request.headers.get(HEADER) != "1":
        raise Refused(403, f"Requests that change something need the header {HEADER}: 1.", code="csrf")
    origin = request.headers.get("origin")
    foreign = origin is not None and not _ours(origin, request.headers.get("host", ""), server)
    if foreign or request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused(403, "This request comes from another site's page.", code="csrf")


def _ours(origin: str, host: str, server: Server) -> bool:
    try:
        return origin == server.settings.origin or urlsplit(origin).netloc == host
    except ValueError:
        return False


def visitor(
    request: Request,
    server: Served,
    _bearer: Annotated[object, Security(_BEARER)] = None,
    _cookie: Annotated[object, Security(_COOKIE)] = None,
) -> Visitor:
    """Whoever makes the request; 401 where nobody can be made out."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    held = request.cookies.get(server.cookie)
    found = None
    if token and scheme.lower() == "bearer":
        found = _holder(request, server, token.strip(), "token")
    elif held and not token:
        found = _holder(request, server, held, "session")
        if found is not None and request.method not in SAFE:
            check_origin(request, server)
    if found is None:
        raise Refused(401, "This needs a session: open the link you were given, or ask the owner for a new one.")
    wait = server.pace.take(found.id)
    if wait:
        raise Refused(429, "Too many requests at once: slow down.", retry_after=wait)
    return found


def _holder(request: Request, server: Server, token: str, what: What) -> Visitor | None:
    """Who comes with a token; wrong ones are counted, and refused beyond a limit."""
    address = sender(request, server.settings.proxies)
    server.attempts.check(address, token)
    found = server.campaign.access.visitor(token, what)
    if found is None:
        server.attempts.count_wrong(address, token)
    return found


Anybody = Annotated[Visitor, Depends(visitor)]
"""What a handler declares to serve owners and annotators."""


async def owner(who: Anybody) -> Visitor:
    """The owner; 403 for everybody else."""
    if who.role != "owner":
        raise Refused(403, "Only the owner of the campaign may do this.")
    return who


Owner = Annotated[Visitor, Depends(owner)]
"""What a handler declares to serve the owner alone."""
