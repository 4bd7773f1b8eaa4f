"""Looks at a campaign that many share."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apod.campaign import Campaign
from apod.campaign.achieved import RefitNews

STALE_SECONDS = 5.0  # then it is taken again even where nothing was answered: refits start and fail, time passes
REST = 2.0  # times as long as a look took, nobody looks again
_LONGEST_REST = 2.0  # seconds


@dataclass(frozen=True)
class _Look:
    """One look: when it was over, how long it took, up to which event, measurement and built classifier it saw."""

    at: float = float("-inf")
    took: float = 0.0
    seq: int = -1
    news: tuple[RefitNews, int] | None = None
    body: bytes = b""


class Looks:
    """Looks at the campaign, shared by all who ask: many tabs cost no more than one.

    Whoever asks after an event gets a look taken after it; while many answers come in, they may wait for it.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign, self._lock = campaign, threading.Lock()
        self._kept: dict[str, _Look] = {}

    def get(self, name: str, make: Callable[[], Any]) -> bytes:
        """The look's JSON."""
        seq, news = self._now()
        with self._lock:
            kept = self._kept.get(name, _Look())
            age = time.monotonic() - kept.at
            if kept.seq >= seq and kept.news == news and age < STALE_SECONDS:
                return kept.body
            time.sleep(max(0.0, min(REST * kept.took, _LONGEST_REST) - age))
            return self._take(name, make).body

    def _take(self, name: str, make: Callable[[], Any]) -> _Look:
        begun, now = time.monotonic(), self._now()
        body = json.dumps(make(), allow_nan=False, separators=(",", ":")).encode()
        over = time.monotonic()
        look = self._kept[name] = _Look(over, over - begun, *now, body)
        return look

    def _now(self) -> tuple[int, tuple[RefitNews, int]]:
        """The latest event; what was measured last, and when a classifier was built last."""
        return self._campaign.head(), (self._campaign.refit_news(), self._campaign.noted_at())
