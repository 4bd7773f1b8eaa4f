"""Who watches hears of changes, once each, and no more than they may know."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime

import httpx2
import pytest
import web_people
from web_people import GROUPS, Live, live

from apod.campaign import Campaign
from apod.web import events as events_module
from apod.web.settings import Limits, ServeSettings
from support.waiting import PATIENCE, until


def stream(server: Live, role: str, lines: int) -> list[str]:
    """The first lines of a visitor's event stream."""
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
        client.post("/api/v1/session", json={"token": server.link("maria", role).split("#")[1]})
        found: list[str] = []
        with client.stream("GET", "/api/v1/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line:
                    found.append(line)
                if len(found) >= lines:
                    break
    return found


def test_an_owner_hears_of_refits_and_an_annotator_does_not(server: Live) -> None:
    question = until(lambda: server.campaign.ask("bob"))
    server.campaign.tell(question, GROUPS[0])
    until(lambda: server.campaign.status().model_answers == 1)
    owner = stream(server, "owner", 5)
    assert owner[1] == "event: progress"
    assert json.loads(owner[2].removeprefix("data: "))["campaign"]["answered"] == 1
    assert owner[3] == "event: refit"
    assert json.loads(owner[4].removeprefix("data: "))["answers"] == 1
    annotator = stream(server, "annotator", 3)
    assert annotator[1] == "event: progress"
    assert json.loads(annotator[2].removeprefix("data: ")).keys() == {"campaign", "state"}  # no number of events


def test_an_owner_hears_when_the_campaign_cannot_be_looked_at_and_when_it_can_again(
    server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, began = server.campaign.head, time.time()

    def fail() -> int:
        raise RuntimeError(f"{GROUPS[0]} is in the way")

    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
        client.post("/api/v1/session", json={"token": server.link("owner", "owner").split("#")[1]})
        with client.stream("GET", "/api/v1/events") as answer:
            lines = (line for line in answer.iter_lines() if line)
            assert "event: progress" in lines
            monkeypatch.setattr(server.campaign, "head", fail)
            assert "event: stale" in lines
            since = datetime.fromisoformat(json.loads(next(lines).removeprefix("data: "))["since"])
            assert began - 1 <= since.timestamp() <= time.time() + 0.001  # it is said to the millisecond
            monkeypatch.setattr(server.campaign, "head", head)
            assert "event: stale" in lines
            assert json.loads(next(lines).removeprefix("data: ")) == {"since": None}
            server.campaign.tell(until(lambda: server.campaign.ask("bob")), GROUPS[0])
            assert "event: progress" in lines


def test_an_owner_hears_of_a_refit_that_fails(server: Live) -> None:
    server.campaign.engine().fit = lambda answers, start: 1 / 0  # type: ignore[method-assign]
    server.campaign.tell(until(lambda: server.campaign.ask("bob")), GROUPS[0])
    until(lambda: server.campaign.status().refit_failures)
    owner = stream(server, "owner", 5)
    assert owner[3:] == ["event: refit", f'data: {{"answers": null, "seq": {server.campaign.head()}}}']


def test_many_tabs_cost_one_look(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    original = Campaign.head

    def head(campaign: Campaign) -> int:
        looks.append(time.monotonic())
        return original(campaign)

    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
        client.post("/api/v1/session", json={"token": server.link(role="owner").split("#")[1]})
        with ExitStack() as tabs:
            held = [tabs.enter_context(client.stream("GET", "/api/v1/events")).iter_lines() for _ in range(8)]
            assert {next(lines) for lines in held} == {"retry: 2000"}
            monkeypatch.setattr(Campaign, "head", head)
            began = time.monotonic()
            until(lambda: len(looks) > 3)
            seen, seconds = len(looks), time.monotonic() - began
        assert seen <= 2 + 2 * seconds  # twice a second, not eight times as often
        until(lambda: looks[-1] < time.monotonic() - 1.5)  # nobody watches: nobody looks


def test_one_visitor_may_open_so_many_streams(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(limits=Limits(streams=2))
    with (
        live(new_campaign(), settings) as server,
        httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client,
    ):
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        with ExitStack() as tabs:
            held = [tabs.enter_context(client.stream("GET", "/api/v1/events")).iter_lines() for _ in range(2)]
            assert {next(lines) for lines in held} == {"retry: 2000"}
            refused = client.get("/api/v1/events")
            assert refused.status_code == 429
            assert refused.headers["retry-after"]

        def again() -> bool:
            with client.stream("GET", "/api/v1/events") as answer:
                return answer.status_code == 200

        until(again)


def test_a_revoked_session_is_told_goodbye(server: Live) -> None:
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        owner = httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE)
        owner.post("/api/v1/session", json={"token": server.link(role="owner").split("#")[1]})
        with client.stream("GET", "/api/v1/events") as answer:
            heard = []
            for line in answer.iter_lines():
                heard.append(line)
                if line == "event: progress":
                    assert owner.post("/api/v1/access/revoke", json={"name": "maria"}).json() == {"revoked": 1}
                if line.startswith("event: bye"):
                    break
        owner.close()
        assert "event: refit" not in heard
        assert client.get("/api/v1/me").status_code == 401


def test_whom_another_process_revokes_hears_it_at_the_next_look(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "BEAT_SECONDS", 3600.0)  # the check now and then must not be what ends it
    elsewhere = Campaign.open(server.campaign.store.url, engine=web_people.build_quick)
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        with client.stream("GET", "/api/v1/events") as answer:
            heard = []
            for line in answer.iter_lines():
                heard.append(line)
                if line == "event: progress":
                    assert elsewhere.owner.access.revoke_name("maria") == 1
                if line.startswith("event: bye"):
                    break
        assert heard[-1] == "event: bye"
    elsewhere.close()


def test_a_server_that_ends_says_goodbye_and_does_not_hang(new_campaign: Callable[..., Campaign]) -> None:
    with live(new_campaign()) as server:
        client = httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE)
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        held = client.stream("GET", "/api/v1/events")
        answer = held.__enter__()
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
    rest = list(lines)
    assert "event: bye" in rest
    client.close()
