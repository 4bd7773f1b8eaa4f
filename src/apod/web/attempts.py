"""Wrong links and tokens: how many may be tried, from one address and with one id.

Whoever holds the right one comes in, however many wrong ones others send from the same address (an office, or a proxy
that is not named with --trusted-proxy): when an address has used up its attempts, only tokens whose id exists are
looked up at all, and each id has attempts of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from apod.campaign.access import Access
from apod.web.errors import Refused
from apod.web.limits import Bucket, Limits

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
