"""How much one visitor may send, and how often."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_REMEMBERED = 10_000  # visitors; the one seen longest ago is forgotten first


@dataclass(frozen=True)
class Limits:
    """Bounds of a server."""

    body_bytes: int = 65_536
    picture_bytes: int = 20_000_000
    requests_per_second: float = 50.0  # by one visitor, lastingly
    burst: int = 200
    entries_per_minute: float = 20.0  # attempts to come in, by one address
    streams: int = 20  # open event streams by one visitor
    all_streams: int = 500


class Bucket:
    """Token buckets by key: so many at once, then so many per second."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, float(burst), clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """Take one; 0, or how many seconds to wait for the next."""
        now = self._clock()
        with self._lock:
            level, since = self._levels.pop(key, (self._burst, now))
            level = min(self._burst, level + (now - since) * self._per_second)
            wait = 0.0 if level >= 1 else (1 - level) / self._per_second
            self._levels[key] = (level - 1 if wait == 0 else level, now)
            if len(self._levels) > _REMEMBERED:
                self._levels.popitem(last=False)
        return wait
