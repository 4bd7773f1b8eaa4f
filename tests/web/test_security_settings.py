"""How a server is reached, and how much one visitor may do."""

from __future__ import annotations

import socket

import pytest

from apod.errors import InputError
from apod.web.cases import field_of, title_of
from apod.web.limits import Bucket
from apod.web.pictures import content_type
from apod.web.server import listen
from apod.web.settings import ServeSettings


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


def test_answers_do_not_wait_for_nagle() -> None:
    """asyncio sets TCP_NODELAY on connections of sockets that name their protocol, and on no others."""
    with listen(ServeSettings(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_bucket_gives_a_burst_and_then_a_pace_to_each() -> None:
    now = 0.0
    bucket = Bucket(2.0, 3, clock=lambda: now)
    assert [bucket.take("a") > 0 for _ in range(5)] == [False, False, False, True, True]
    assert bucket.take("b") == 0
    assert bucket.take("a") == pytest.approx(0.5)
    now = 0.5
    assert bucket.take("a") == 0
    assert bucket.take("a") > 0
    now = 1000.0
    assert [bucket.take("a") > 0 for _ in range(4)] == [False, False, False, True]


def test_a_bucket_forgets_whoever_was_seen_longest_ago() -> None:
    bucket = Bucket(1e-9, 1, clock=lambda: 0.0)
    for number in range(10_001):
        bucket.take(str(number))
    assert bucket.take("10000") > 0
    assert bucket.take("0") == 0


@pytest.mark.parametrize(
    ("name", "title", "unit"),
    [
        ("hours_per_week (h)", "Hours per week", "h"),
        ("capital-gain [USD]", "Capital gain", "USD"),
        ("eduYears", "Edu Years", None),
        ("GPA", "GPA", None),
        ("x", "X", None),
        ("(h)", "(h)", None),
        ("___", "___", None),
        ("price (net) (EUR)", "Price (net)", "EUR"),
    ],
)
def test_columns_are_titled_for_people(name: str, title: str, unit: str | None) -> None:
    assert title_of(name) == (title, unit)


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (40, "number", 40),
        ("40", "number", 40),
        ("-0.5", "number", -0.5),
        ("007", "text", "007"),
        ("1e5", "text", "1e5"),
        (True, "flag", True),
        (None, "missing", None),
        ("", "missing", None),
        ("word " * 30, "long", "word " * 30),
        ("two\nlines", "long", "two\nlines"),
    ],
)
def test_values_keep_what_they_are(value: object, kind: str, shown: object) -> None:
    field = field_of("x", value)
    assert (field.kind, field.value) == (kind, shown)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF1234WEBPrest", "image/webp"),
        (b"RIFF1234WAVErest", None),
        (b"<svg onload=alert(1)>", None),
        (b"<!doctype html>", None),
        (b"%PDF-1.7", None),
        (b"", None),
    ],
)
def test_a_picture_is_known_by_its_beginning(data: bytes, kind: str | None) -> None:
    assert content_type(data) == kind
