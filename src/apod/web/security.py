"""Who sends a request and what it may do: host names, sizes and headers, sessions of browsers, tokens of programs.

A browser sends its cookie along with whatever page made it ask, so everything but reading needs a header that another
site's page cannot set, and an Origin that is ours. A program's token is sent on purpose and needs neither.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from pydantic import BaseModel, ConfigDict, StringConstraints
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apod.campaign.access import Visitor, What
from apod.web.context import Server
from apod.web.errors import Refused, problem
from apod.web.settings import ServeSettings, sender

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class SecurityMiddleware:
    """The outermost layer: plain ASGI, so that event streams pass through it unhindered."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings
        self._most = settings.limits.body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    out.setdefault(name, value)
                out.setdefault("Cache-Control", "no-store")
                if self._settings.secure:
                    out.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        if not self._settings.knows(headers.get("host")):
            refusal = problem(421, "This server is not reached under that name: use the address it printed.")
            await refusal(scope, receive, send_with_headers)
            return
        try:
            body = await self._read(headers, receive)
        except ConnectionError:
            return  # nobody is there to hear an answer
        if body is None:
            too_large = problem(413, f"The body is longer than {self._most} bytes.")
            await too_large(scope, receive, send_with_headers)
            return
        await self._app(scope, _replay(body, receive), send_with_headers)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body, or None where it is too long; nothing beyond the limit is kept.

        Half a body is no request: ConnectionError where the client left before its end.
        """
        length = headers.get("content-length")
        if length is not None and (not length.isdigit() or int(length) > self._most):
            return None
        if length is None and "transfer-encoding" not in headers:
            return b""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionError
            body += message.get("body", b"")
            if len(body) > self._most:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand the body on, then whatever comes after it (that the client has left)."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


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
    server: Server,
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
    found = server.campaign.owner.access.visitor(token, what)
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


_NEW_LINK = {
    True: "This link was used before, ran out or was revoked. Make a new one where the campaign lies: apod invite "
    "CAMPAIGN owner --owner, or start apod serve again.",
    False: "This link was used before, ran out or was revoked: ask the owner for a new one.",
}

router = APIRouter(tags=["session"])


@router.post("/session")
def enter(request: Request, response: Response, server: Server, body: Entry) -> Me:
    """Open a session with a one-time link; the cookie comes along."""
    check_origin(request, server)
    address = sender(request, server.settings.proxies)
    server.attempts.check(address, body.token)
    session = server.campaign.owner.access.redeem(body.token)
    if session is None:
        server.attempts.count_wrong(address, body.token)
        raise Refused(401, _NEW_LINK[server.campaign.owner.access.role_of(body.token) == "owner"])
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
def leave(response: Response, server: Server, who: Anybody) -> None:
    """End one's own session."""
    server.campaign.owner.access.revoke(who.id)
    response.delete_cookie(server.cookie, path="/", secure=server.settings.secure, httponly=True, samesite="strict")


@router.get("/me")
def me(server: Server, who: Anybody) -> Me:
    """Who one is."""
    return Me(role=who.role, name=who.name, campaign=server.campaign.name, expires_at=who.expires_at)
