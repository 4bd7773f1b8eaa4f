"""Running the application: one process, a socket, connections that may only cost so much, and a quiet end.

uvicorn limits how long a connection may be idle between two requests, and nothing else: a request that never comes to
an end, or an answer that nobody reads, would hold a connection for good. Connections stay below the number of
descriptors that the process may open, so that files and the database can always be opened beside them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from apod.campaign import Campaign
from apod.errors import InputError
from apod.web.app import create_app
from apod.web.context import ServerContext
from apod.web.settings import Limits, ServeSettings, network_of

log = logging.getLogger(__name__)
WANTED_DESCRIPTORS = 4096
_NOISY = ("uvicorn.error", "asyncio", "apod.web.server", "apod.web.errors", "apod.web.events")

Phase = Literal["head", "body", "answer"]


class LimitedProtocol(H11Protocol):
    """One connection. `make_runner` puts the limits onto the configuration that uvicorn hands to each."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self._settings: ServeSettings = config.settings
        limits: tuple[int, int] = config.connection_limits
        self._most, self._most_per_address = limits
        self._network = ""
        self._phase: Phase | None = None
        self._since = 0.0  # when the phase began
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or close it where there are enough."""
        super().connection_made(transport)
        self._network = network_of(self.client[0] if self.client else "")
        if self._address_is_full() or (len(self.connections) > self._most and not self._make_room()):
            log.warning("a connection was refused: there are too many")
            transport.abort()
            return
        self._enter("head")

    def _make_room(self) -> bool:
        """Close the connection that has waited longest without a whole request: real ones send theirs at once."""
        others = [other for other in self.connections if isinstance(other, LimitedProtocol) and other is not self]
        waiting = [other for other in others if other._phase != "answer"]
        if not waiting:
            return False
        log.warning("a connection that waited for a request was closed: there are too many")
        min(waiting, key=lambda other: other._since)._give_up()
        return True

    def _address_is_full(self) -> bool:
        if self.client is not None and self._settings.trusts(self.client[0]):
            return False
        same = [other for other in self.connections if getattr(other, "_network", None) == self._network]
        return len(same) > self._most_per_address

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self._enter(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data; a request that has begun has to come to an end in time."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, whose first bytes may have arrived already."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The client does not read what it asked for."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self._settings.limits.unread_seconds, self._give_up)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _look(self) -> None:
        """Which part of a request is awaited now."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._enter("body")
        elif state is h11.IDLE:  # without a byte of the next request, uvicorn's own clock ticks
            self._enter("head" if self.timeout_keep_alive_task is None or self.conn.trailing_data[0] else None)
        else:
            self._enter("answer")

    def _enter(self, phase: Phase | None) -> None:
        """Set the clock for a phase; one that goes on keeps its clock, however many bytes come in."""
        if phase == self._phase:
            return
        self._phase, self._since = phase, self.loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        limits = self._settings.limits
        if phase in ("head", "body"):
            seconds = limits.head_seconds if phase == "head" else limits.body_seconds
            self._timer = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._enter(None)
        self.transport.abort()


def connection_limits(limits: Limits, descriptors: int) -> tuple[int, int]:
    """How many connections there may be, in all and from one address: each may need a file besides."""
    most = max(2, min(limits.connections, descriptors // 2))
    return most, min(limits.connections_per_address, most // 2)


def allowed_descriptors() -> int:
    """How many files and connections this process may have open; raised where the system allows it without asking."""
    if sys.platform == "win32":
        return WANTED_DESCRIPTORS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < min(WANTED_DESCRIPTORS, ceiling):
        soft = min(WANTED_DESCRIPTORS, ceiling)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class OncePerSecond(logging.Filter):
    """Lets one record of a kind pass in a second; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}  # by the record's text before its values are filled in

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        kind, now = str(record.msg), self._clock()
        at, left_out = self._last.get(kind, (float("-inf"), 0))
        if now - at < 1:
            self._last[kind] = at, left_out + 1
            return False
        self._last[kind] = now, 0
        if left_out:
            record.msg = f"{kind} ({left_out} more of them before)"
        return True


@contextmanager
def quiet_logs() -> Iterator[None]:
    """One line a second of whatever anybody on the network can cause."""
    quiet, loggers = OncePerSecond(), [logging.getLogger(name) for name in _NOISY]
    for logger in loggers:
        logger.addFilter(quiet)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(quiet)


BACKLOG = 512
LEAVE_SECONDS = 5  # for requests under way when the server is told to end


def serve(campaign: Campaign, settings: ServeSettings, ready: Callable[[ServeSettings], None]) -> None:
    """Serve until told to end. `ready` gets the settings with the port there is, before the first request."""
    listening = listen(settings)
    settings = replace(settings, port=listening.getsockname()[1])
    runner = make_runner(campaign, settings)
    with listening:
        ready(settings)
        runner.run(sockets=[listening])


def listen(settings: ServeSettings) -> socket.socket:
    """The server's socket."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # named in full: asyncio turns Nagle's algorithm off only then, and each answer would wait 40 ms for nothing
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
    except OSError as error:
        found.close()
        raise InputError(
            f"{settings.host}:{settings.port} cannot be listened on ({error.strerror}): choose another --port, or 0."
        ) from None
    found.listen(BACKLOG)
    return found


class Runner(uvicorn.Server):
    """A server that ends its event streams before it waits for the last request."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to end."""
        with quiet_logs():
            await super().serve(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say goodbye to all who watch, then close."""
        context: ServerContext = self.config.app.state.server  # type: ignore[union-attr]
        context.hub.stop()
        await super().shutdown(sockets)


class Config(uvicorn.Config):
    """uvicorn's configuration, and what our protocol needs besides."""

    def __init__(self, app: FastAPI, settings: ServeSettings, descriptors: int) -> None:
        self.settings = settings
        self.connection_limits = connection_limits(settings.limits, descriptors)
        super().__init__(
            app,
            http=LimitedProtocol,
            log_config=None,  # warnings go where the caller's go
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=LEAVE_SECONDS,
            backlog=max(16, min(BACKLOG, descriptors // 8)),  # so many may be accepted before one can be closed
            limit_concurrency=self.connection_limits[0] + 1,
            proxy_headers=False,  # `settings.sender` reads them
        )


def make_runner(campaign: Campaign, settings: ServeSettings) -> Runner:
    """The server, ready to run."""
    # whatever logging the caller sets up: who asks for what is nobody's business, and a link may be pasted wrongly
    logging.getLogger("uvicorn.access").disabled = True
    return Runner(Config(create_app(campaign, settings), settings, allowed_descriptors()))
