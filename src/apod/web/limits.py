"""How much one visitor may send and how often, and how many wrong links and tokens may be tried.

Whoever holds the right token comes in, however many wrong ones others send from the same address (an office, or a
proxy that is not named with --trusted-proxy): when an address has used up its attempts, only tokens whose id exists
are looked up at all, and each id has attempts of its own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from apod.campaign.access import Access
from apod.web.errors import Refused

_REMEMBERED = 10_000  # visitors; the one seen longest ago is forgotten first


@dataclass(frozen=True)
class Limits:
    """Bounds of a server."""

    body_bytes: int = 65_536
    picture_bytes: int = 20_000_000
    requests_per_second: float = 50.0  # by one visitor, lastingly
    burst: int = 200
    wrong_per_address: float = 20.0  # links and tokens in a minute
    wrong_per_id: float = 10.0  # secrets in a minute, tried with the id of one link, session or token
    connections: int = 1000
    connections_per_address: int = 200  # an office of fifty annotators may share one
    head_seconds: float = 10.0  # for a request to arrive, but for its body
    body_seconds: float = 30.0
    unread_seconds: float = 60.0  # for the next part of an answer to be read
    streams: int = 20  # open event streams by one visitor
    all_streams: int = 500


class Bucket:
    """Token buckets by key: so many at once, then so many per second."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, float(burst), clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, key: str) -> float:
        """0, or how many seconds to wait before one may be taken."""
        with self._lock:
            level = self._level(key, self._clock())
        return 0.0 if level >= 1 else (1 - level) / self._per_second

    def take(self, key: str) -> float:
        """Take one; 0, or how many seconds to wait for the next."""
        now = self._clock()
        with self._lock:
            level = self._level(key, now)
            wait = 0.0 if level >= 1 else (1 - level) / self._per_second
            self._levels.pop(key, None)
            self._levels[key] = (level - 1 if wait == 0 else level, now)
            if len(self._levels) > _REMEMBERED:
                self._levels.popitem(last=False)
        return wait

    def _level(self, key: str, now: float) -> float:
        level, since = self._levels.get(key, (self._burst, now))
        return min(self._burst, level + (now - since) * self._per_second)


IDS_SECONDS = 1.0  # after so long, the list of ids may lack one that another process has made


class Attempts:
    """The wrong links and tokens of one server."""

    def __init__(self, access: Access, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._access, self._clock, self._lock = access, clock, threading.Lock()
        self._of_address = Bucket(limits.wrong_per_address / 60, round(limits.wrong_per_address), clock)
        self._of_id = Bucket(limits.wrong_per_id / 60, round(limits.wrong_per_id), clock)
        self._ids, self._read_at, self._granted = frozenset[str](), float("-inf"), -1

    def check(self, address: str, token: str) -> None:
        """Refuse a token before it is looked up where too many wrong ones came with its id, or from its address."""
        id_ = _id(token)
        wait = self._of_id.wait(id_)
        if not wait and (wait := self._of_address.wait(address)) and self._exists(id_):
            wait = 0.0
        if wait:
            raise Refused(429, "Too many wrong links or tokens: wait a minute.", retry_after=wait)

    def count_wrong(self, address: str, token: str) -> None:
        """A token opened nothing. One that did once (used, expired, revoked) was not guessed and does not count."""
        if self._access.recognises(token):
            return
        self._of_address.take(address)
        if self._exists(id_ := _id(token)):
            self._of_id.take(id_)

    def _exists(self, id_: str) -> bool:
        with self._lock:
            old = self._clock() - self._read_at >= IDS_SECONDS or self._granted != self._access.granted
            if old and id_ not in self._ids:
                self._granted, self._read_at = self._access.granted, self._clock()
                self._ids = self._access.ids()
            return id_ in self._ids


def _id(token: str) -> str:
    return token[:200].partition(".")[0]
