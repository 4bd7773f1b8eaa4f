"""Connections that only cost: half-sent requests, too many of them, answers nobody reads. Real sockets on loopback."""

from __future__ import annotations

import logging
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from served_people import serving
from web_people import live

from apod.campaign import Campaign
from apod.web.server import OncePerSecond, connection_limits
from apod.web.settings import Limits, ServeSettings
from support.waiting import PATIENCE, until

HALF = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
BODY = b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Apod: 1\r\nContent-Length: 64\r\n\r\n{"


def connect(origin: str, source: str = "127.0.0.1") -> socket.socket:
    found = re.fullmatch(r"http://(.+):(\d+)", origin)
    assert found is not None
    return socket.create_connection((found[1], int(found[2])), timeout=PATIENCE, source_address=(source, 0))


def everything(line: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    while True:
        try:
            part = line.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


@pytest.mark.parametrize(
    ("what", "sent"),
    [("nothing at all", b""), ("half a head", HALF), ("half a body", BODY), ("one byte", b"G")],
)
def test_a_request_that_does_not_come_to_an_end_is_closed(
    new_campaign: Callable[..., Campaign], what: str, sent: bytes
) -> None:
    limits = Limits(head_seconds=0.2, body_seconds=0.2)
    with live(new_campaign(), ServeSettings(limits=limits)) as server, connect(server.origin) as line:
        line.sendall(sent)
        assert everything(line) == b"", what


def test_a_byte_now_and_then_wins_no_time(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(limits=Limits(head_seconds=0.5))
    with live(new_campaign(), settings) as server, connect(server.origin) as line:
        line.sendall(HALF)
        until(lambda: _broken(line, b"x"))  # closed while we still send


def test_the_next_request_on_a_connection_has_to_come_to_an_end_too(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(limits=Limits(head_seconds=0.3))
    with live(new_campaign(), settings) as server, connect(server.origin) as line:
        line.sendall(WHOLE.replace(b"Connection: close\r\n", b"") * 3 + HALF)
        assert everything(line).count(b"HTTP/1.1 401") == 3


def test_an_answer_that_nobody_reads_is_given_up(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(limits=Limits(unread_seconds=0.2))
    with live(new_campaign(), settings) as server, connect(server.origin) as line:
        line.sendall(b"GET /static/plotly.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until(lambda: _broken(line, b"G"))


def _broken(line: socket.socket, sent: bytes) -> bool:
    """Whether the other side has given the connection up."""
    try:
        line.sendall(sent)
    except OSError:
        return True
    return False


def test_a_body_cut_short_is_not_taken_for_a_request(new_campaign: Callable[..., Campaign]) -> None:
    campaign = new_campaign()
    with live(campaign) as server, connect(server.origin) as line:
        token = campaign.owner.access.grant("maria").token
        body = f'{{"token": "{token}"}}'.encode()
        head = f"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Apod: 1\r\nContent-Length: {len(body) + 9}"
        line.sendall(f"{head}\r\nContent-Type: application/json\r\n\r\n".encode() + body)
        line.shutdown(socket.SHUT_WR)
        everything(line)
        assert campaign.owner.access.redeem(token) is not None


def test_one_address_gets_no_more_than_its_share_and_others_are_served(new_campaign: Callable[..., Campaign]) -> None:
    limits = Limits(connections_per_address=8)
    with live(new_campaign(), ServeSettings(limits=limits)) as server, ExitStack() as stack:
        lines = [stack.enter_context(connect(server.origin)) for _ in range(8)]
        for line in lines:
            line.sendall(HALF)
        with connect(server.origin) as ninth:
            assert everything(ninth) == b""
        with connect(server.origin, "127.0.0.2") as other:
            other.sendall(WHOLE)
            assert everything(other).startswith(b"HTTP/1.1 401")
        lines[0].close()
        until(lambda: _reaches(server.origin))


@pytest.mark.parametrize(
    "sent", [HALF, BODY, WHOLE.replace(b"Connection: close\r\n", b"")], ids=["half a head", "half a body", "idle"]
)
def test_connections_that_wait_for_a_request_make_room_for_one_that_sends_it(
    new_campaign: Callable[..., Campaign], sent: bytes
) -> None:
    limits = Limits(connections=20, connections_per_address=10, head_seconds=600, body_seconds=600)
    with live(new_campaign(), ServeSettings(limits=limits)) as server, ExitStack() as stack:
        for number in range(20):
            line = stack.enter_context(connect(server.origin, f"127.0.1.{number % 4 + 1}"))
            line.sendall(sent)
            if sent.endswith(b"\r\n\r\n"):
                assert line.recv(65536)
        until(lambda: _reaches(server.origin, "127.0.0.2"))  # as soon as the server has read all of it


def test_a_trusted_proxy_has_no_share_of_its_own(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(limits=Limits(connections_per_address=2), trusted_proxies=("127.0.0.1",))
    with live(new_campaign(), settings) as server, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(server.origin)).sendall(HALF)
        with connect(server.origin) as line:
            line.sendall(WHOLE)
            assert everything(line).startswith(b"HTTP/1.1 401")


@pytest.fixture
def crowd() -> Iterator[list[socket.socket]]:
    found: list[socket.socket] = []
    yield found
    for line in found:
        line.close()


FEW = ("sh", "-c", 'ulimit -n 256; exec "$0" "$@"', sys.executable, "-m", "apod")  # descriptors


@pytest.mark.parametrize("addresses", [1, 40])
def test_hundreds_of_half_sent_requests_neither_silence_the_server_nor_fill_its_log(
    database: Path, crowd: list[socket.socket], addresses: int
) -> None:
    with serving(database, command=FEW) as (origin, _, process):
        begun = time.monotonic()
        for number in range(600):
            line = connect(origin, f"127.0.1.{number % addresses + 1}")
            crowd.append(line)
            try:
                line.sendall(HALF)
            except OSError:  # refused at once
                continue
        until(lambda: _reaches(origin, "127.0.0.2"))
        seconds = time.monotonic() - begun
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in err
    kinds = len({re.sub(r"\d+", "", line) for line in err.splitlines()})
    assert err.count("\n") <= (seconds + 2) * kinds
    assert kinds <= 4


def _reaches(origin: str, source: str = "127.0.0.1") -> bool:
    with connect(origin, source) as line:
        try:
            line.sendall(WHOLE)
        except OSError:
            return False
        return everything(line).startswith(b"HTTP/1.1 401")


def test_connections_leave_descriptors_for_files_and_the_database() -> None:
    assert connection_limits(Limits(), 256) == (128, 64)
    assert connection_limits(Limits(), 1024) == (512, 200)
    assert connection_limits(Limits(), 1_000_000) == (1000, 200)
    assert connection_limits(Limits(connections=10, connections_per_address=7), 1024) == (10, 5)


def test_one_line_a_second_of_a_kind_is_logged_and_says_how_many_it_stands_for() -> None:
    now = 0.0
    quiet = OncePerSecond(lambda: now)
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "Invalid request %d", (1,), None)
    other = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "another kind", (), None)
    assert quiet.filter(record)
    now = 0.9
    assert [quiet.filter(record) for _ in range(3)] == [False] * 3
    assert quiet.filter(other)
    now = 1.0
    assert quiet.filter(record)
    assert record.getMessage() == "Invalid request 1 (3 more of them before)"
