"""Running the application: one process, a socket, and a quiet end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from apod.campaign import Campaign
from apod.errors import InputError
from apod.web.app import create_app
from apod.web.connections import LimitedProtocol, allowed_descriptors, connection_limits, quiet_logs
from apod.web.context import ServerContext
from apod.web.settings import ServeSettings

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
