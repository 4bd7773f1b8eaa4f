"""What the handlers of one server share: the campaign, its settings, and answers computed once for many tabs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from apod.campaign import Campaign
from apod.campaign.outcomes import RefitNews
from apod.web.downloads import Downloads
from apod.web.events import Hub
from apod.web.settings import Attempts, Bucket, ServeSettings


@dataclass(frozen=True, eq=False)
class ServerContext:
    """One campaign being served."""

    campaign: Campaign
    settings: ServeSettings
    hub: Hub
    pace: Bucket  # by visitor
    attempts: Attempts
    cookie: str
    responses: ResponseCache
    downloads: Downloads


async def _server(request: Request) -> ServerContext:
    return cast(ServerContext, request.app.state.server)


Server = Annotated[ServerContext, Depends(_server)]
"""What a handler declares to get at the server."""


STALE_SECONDS = 5.0  # then it is taken again even where nothing was answered: refits start and fail, time passes
REST = 2.0  # times as long as it took to make, it is not made again
_LONGEST_REST = 2.0  # seconds


@dataclass(frozen=True)
class _Response:
    """When it was ready, how long that took, up to which event, measurement and built classifier it goes."""

    at: float = float("-inf")
    took: float = 0.0
    seq: int = -1
    news: tuple[RefitNews, int] | None = None
    body: bytes = b""


class ResponseCache:
    """JSON shared by all who ask for it: many tabs cost no more than one.

    Whoever asks after an event gets a response made after it; while many answers come in, they may wait for it.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign, self._lock = campaign, threading.Lock()
        self._kept: dict[str, _Response] = {}

    def get(self, name: str, make: Callable[[], Any]) -> bytes:
        """The JSON of `make()`, not older than the latest event."""
        seq, news = self._now()
        with self._lock:
            kept = self._kept.get(name, _Response())
            age = time.monotonic() - kept.at
            if kept.seq >= seq and kept.news == news and age < STALE_SECONDS:
                return kept.body
            time.sleep(max(0.0, min(REST * kept.took, _LONGEST_REST) - age))
            return self._make(name, make).body

    def _make(self, name: str, make: Callable[[], Any]) -> _Response:
        begun, now = time.monotonic(), self._now()
        body = json.dumps(make(), allow_nan=False, separators=(",", ":")).encode()
        over = time.monotonic()
        made = self._kept[name] = _Response(over, over - begun, *now, body)
        return made

    def _now(self) -> tuple[int, tuple[RefitNews, int]]:
        """The latest event; what was measured last, and when a classifier was built last."""
        return self._campaign.head(), (
            self._campaign.owner.results.refit_news(),
            self._campaign.owner.results.noted_at(),
        )
