"""How a server is reached, which proxies it trusts, and how much one visitor may send.

Whoever holds the right token comes in, however many wrong ones others send from the same address (an office, or a
proxy that is not named with --trusted-proxy): when an address has used up its attempts, only tokens whose id exists
are looked up at all, and each id has attempts of its own.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from apod.campaign.access import Access
from apod.errors import InputError
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
        if wait and self._exists(id_) and self._access.recognises(token):
            wait = 0.0  # whoever knows the id alone cannot lock its holder out
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


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServeSettings:
    """Where a server listens, under which address people reach it, and its bounds.

    url              the address annotators use, where it is not the one the server listens on (behind a proxy)
    trusted_proxies  addresses or networks of proxies whose X-Forwarded-For says who sends a request
    """

    host: str = "127.0.0.1"
    port: int = 8000
    url: str | None = None
    limits: Limits = field(default_factory=Limits)
    trusted_proxies: tuple[str, ...] = ()
    proxies: tuple[Network, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "proxies", as_networks(self.trusted_proxies))
        if not 0 <= self.port <= 65535:
            raise InputError(f"{self.port} is not a valid port: use 0 (any free one) to 65535.")
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
                raise InputError(f"{self.url!r} is no address of a server: use one like https://annotate.example.org.")

    @property
    def origin(self) -> str:
        """What links begin with."""
        if self.url is not None:
            return self.url.rstrip("/")
        host = "127.0.0.1" if self._wildcard() else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def origin_for(self, host: str | None) -> str:
        """What links begin with for whoever reached the server under this name: one of several, where it has many."""
        return f"http://{host}" if self.url is None and self._wildcard() and self.knows(host) else self.origin

    @property
    def secure(self) -> bool:
        """Whether browsers speak HTTPS to it."""
        return self.origin.startswith("https:")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in _LOOPBACK

    def trusts(self, address: str) -> bool:
        """Whether a proxy of ours has this address."""
        return is_in(address, self.proxies)

    def knows(self, host: str | None) -> bool:
        """Whether a request asks for one of this server's names: a stranger's name may be made to point here."""
        name = _hostname(host)
        if name is None:
            return False
        known = {*_LOOPBACK, self.host, urlsplit(self.origin).hostname}
        return name in known or (self._wildcard() and _is_address(name))

    def _wildcard(self) -> bool:
        return self.host in ("0.0.0.0", "::", "")


def _hostname(host: str | None) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname if host else None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def as_networks(names: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks (10.0.0.0/8) as people write them."""
    found = []
    for name in names:
        try:
            found.append(ipaddress.ip_network(name.strip(), strict=False))
        except ValueError:
            raise InputError(f"{name!r} is not an address or a network: use one like 10.0.0.5 or 10.0.0.0/8.") from None
    return tuple(found)


def is_in(address: str, networks: Iterable[Network]) -> bool:
    """Whether an address belongs to one of the networks."""
    found = _parsed(address)
    return found is not None and any(found in network for network in networks)


def sender(request: HTTPConnection, trusted: Iterable[Network]) -> str:
    """The network a request comes from.

    X-Forwarded-For counts only where a trusted proxy sent it: each proxy adds whom it heard from at the end, so the
    last address that is no trusted proxy is the one that nobody could make up.
    """
    address = request.client.host if request.client is not None else ""
    hops = [hop for line in request.headers.getlist("x-forwarded-for") for hop in line.split(",")]
    while hops and is_in(address, trusted):
        said = _without_port(hops.pop().strip())
        if _parsed(said) is None:
            break
        address = said
    return network_of(address)


def network_of(address: str) -> str:
    """What limits are counted by: an IPv4 address, or the /64 network that one customer has of IPv6."""
    found = _parsed(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address if found is None else str(found)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _without_port(hop: str) -> str:
    """An address as proxies write it: 192.0.2.1, 192.0.2.1:4711, 2001:db8::1, [2001:db8::1]:4711."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
