"""Who sends a request, by network address."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from apod.errors import InputError
from apod.web.addresses import as_networks, network_of, sender
from apod.web.settings import ServeSettings

PROXIES = ("10.0.0.5", "fd00::/8")


@pytest.mark.parametrize(
    ("client", "forwarded", "expected"),
    [
        ("203.0.113.7", [], "203.0.113.7"),
        ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),
        ("10.0.0.5", [], "10.0.0.5"),
        ("10.0.0.5", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.5", ["192.0.2.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["192.0.2.9", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.5", ["198.51.100.1, 10.0.0.5, fd00::1"], "198.51.100.1"),
        ("10.0.0.5", ["unknown"], "10.0.0.5"),
        ("10.0.0.5", ["198.51.100.1, unknown"], "10.0.0.5"),
        ("10.0.0.5", ["", " , "], "10.0.0.5"),
        ("::ffff:10.0.0.5", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["[2001:db8:1:2:3::4]:4711"], "2001:db8:1:2::/64"),
        ("fd00::1", ["2001:db8:1:2::9"], "2001:db8:1:2::/64"),
    ],
)
def test_the_sender_is_the_last_address_that_no_trusted_proxy_has(
    client: str, forwarded: list[str], expected: str
) -> None:
    headers = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    request = Request({"type": "http", "client": (client, 4711), "headers": headers})
    assert sender(request, as_networks(PROXIES)) == expected


def test_a_customer_of_ipv6_is_one_sender_and_what_is_no_address_is_itself() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("") == ""


def test_a_proxy_that_is_no_address_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"'proxy\.local' is not an address or a network: use one like 10\.0\.0\.5"):
        ServeSettings(trusted_proxies=("proxy.local",))
