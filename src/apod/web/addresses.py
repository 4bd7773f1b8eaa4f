"""Who sends a request, by network address: through a proxy that is trusted, whoever the proxy says."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.requests import HTTPConnection

from apod.errors import InputError

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
