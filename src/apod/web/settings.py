"""How a server is reached."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from apod.errors import InputError
from apod.web.addresses import Network, as_networks, is_in
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
