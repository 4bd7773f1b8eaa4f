"""How a server is reached, and how much one visitor may do."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from apod.errors import InputError
from apod.web.settings import ServeSettings, as_networks, network_of, sender


@pytest.mark.parametrize(
    ("settings", "host", "known"),
    [
        (ServeSettings(), "127.0.0.1:8000", True),
        (ServeSettings(), "localhost:8000", True),
        (ServeSettings(), "[::1]:8000", True),
        (ServeSettings(), "192.168.0.5:8000", False),
        (ServeSettings(), "evil.example", False),
        (ServeSettings(), None, False),
        (ServeSettings(host="192.168.0.5"), "192.168.0.5:8000", True),
        (ServeSettings(host="0.0.0.0"), "10.1.2.3:8000", True),
        (ServeSettings(host="0.0.0.0"), "evil.example:8000", False),
        (ServeSettings(url="https://annotate.example.org"), "annotate.example.org", True),
        (ServeSettings(url="https://annotate.example.org"), "annotate.example.org.evil", False),
    ],
)
def test_only_the_servers_own_names_are_known(settings: ServeSettings, host: str | None, known: bool) -> None:
    assert settings.knows(host) is known


@pytest.mark.parametrize(
    ("settings", "origin"),
    [
        (ServeSettings(port=81), "http://127.0.0.1:81"),
        (ServeSettings(host="0.0.0.0", port=81), "http://127.0.0.1:81"),
        (ServeSettings(host="::1", port=81), "http://[::1]:81"),
        (ServeSettings(url="https://a.example/"), "https://a.example"),
    ],
)
def test_links_begin_with_an_address_that_works(settings: ServeSettings, origin: str) -> None:
    assert settings.origin == origin


@pytest.mark.parametrize(
    ("settings", "host", "origin"),
    [
        (ServeSettings(host="0.0.0.0"), "10.1.2.3:8000", "http://10.1.2.3:8000"),
        (ServeSettings(host="0.0.0.0"), "evil.example", "http://127.0.0.1:8000"),
        (ServeSettings(), "localhost:8000", "http://127.0.0.1:8000"),
        (ServeSettings(host="0.0.0.0", url="https://a.example"), "10.1.2.3:8000", "https://a.example"),
    ],
)
def test_a_link_made_on_another_machine_leads_back_there(settings: ServeSettings, host: str, origin: str) -> None:
    assert settings.origin_for(host) == origin


@pytest.mark.parametrize("url", ["annotate.example.org", "ftp://a.example", "https://", "https://a.example/below"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        ServeSettings(url=url)


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
