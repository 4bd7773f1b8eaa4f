"""How a server is reached: its address, the names it answers to, and the proxies it trusts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from apod.errors import InputError
from apod.web.limits import Limits

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
            raise InputError(f"{self.port} is no port: use 0 (any free one) to 65535.")
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
