"""What stands around every request: whose name is asked for, how much is sent, and the headers of every answer."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apod.web.errors import problem
from apod.web.settings import ServeSettings

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


class Shield:
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

        async def send_shielded(message: Message) -> None:
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
            await refusal(scope, receive, send_shielded)
            return
        try:
            body = await self._read(headers, receive)
        except ConnectionError:
            return  # nobody is there to hear an answer
        if body is None:
            too_large = problem(413, f"The body is longer than {self._most} bytes.")
            await too_large(scope, receive, send_shielded)
            return
        await self._app(scope, _replay(body, receive), send_shielded)

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
