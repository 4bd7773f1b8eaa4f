"""Attacks on the door: no token, wrong tokens, used links, other people's questions, other sites' pages."""

from __future__ import annotations

import hmac
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import web_people
from sqlalchemy import select
from web_people import GROUPS, House, housed, turn

from apod.campaign import Campaign, access, schema
from apod.web.app import create_app
from apod.web.settings import Limits, ServeSettings

OPEN = {("POST", "/api/v1/session")} | {("POST", f"/api/v1/self-report{path}") for path in ("", "/form", "/withdrawal")}
"""What can be called without a session: coming in, and self-report, which has a secret of its own."""


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, list[str]]]:
    """(method, path, tags) of every operation, by the API's own description."""
    campaign = web_people.make_campaign(tmp_path_factory.mktemp("routes"), refit="demand")
    paths = create_app(campaign).openapi()["paths"]
    campaign.close()
    return [
        (method.upper(), path, operation.get("tags", []))
        for path, item in paths.items()
        for method, operation in item.items()
    ]


def filled(path: str) -> str:
    """A path with plausible parameters."""
    values = {"number": "1", "question": "1-2", "id": "0" * 16, "format": "csv", "what": "classifier"}
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], path)


def wrong_tokens(house: House) -> dict[str, dict[str, str]]:
    """Headers of visitors who must not come in."""
    campaign = house.campaign
    good = campaign.owner.access.grant("robot", "annotator", "token").token
    link = campaign.owner.access.grant("eve", "owner").token
    revoked = campaign.owner.access.grant("old", "owner", "token")
    campaign.owner.access.revoke(revoked.id)
    session = campaign.owner.access.redeem(campaign.owner.access.grant("sid", "owner").token)
    assert session is not None
    cookie = house.app.state.server.cookie
    return {
        "nothing": {},
        "an empty bearer": {"Authorization": "Bearer "},
        "nonsense": {"Authorization": "Bearer nonsense"},
        "a right id with a wrong secret": {"Authorization": f"Bearer {good.split('.')[0]}.{'A' * 43}"},
        "a right secret with a wrong id": {"Authorization": f"Bearer {'0' * 16}.{good.split('.')[1]}"},
        "another scheme": {"Authorization": f"Basic {good}"},
        "a link instead of a token": {"Authorization": f"Bearer {link}"},
        "a session instead of a token": {"Authorization": f"Bearer {session.token}"},
        "a token instead of a session": {"Cookie": f"{cookie}={good}"},
        "a revoked token": {"Authorization": f"Bearer {revoked.token}"},
        "another cookie": {"Cookie": f"apod_00000000={session.token}"},
        "SQL": {"Authorization": "Bearer ' OR '1'='1"},
        "letters beyond ASCII": {"Cookie": f"{cookie}=\u00e9.\u00e9"},
    }


def test_every_endpoint_refuses_every_wrong_token(
    new_campaign: Callable[..., Campaign], routes: list[tuple[str, str, list[str]]]
) -> None:
    assert len(routes) >= 25
    limits = Limits(wrong_per_address=1e6, wrong_per_id=1e6)
    with housed(new_campaign(), ServeSettings(limits=limits)) as house:
        _refuses_every_wrong_token(house, routes)


def _refuses_every_wrong_token(house: House, routes: list[tuple[str, str, list[str]]]) -> None:
    stranger = house.stranger()
    for what, headers in wrong_tokens(house).items():
        encoded = {name: value.encode("utf-8") for name, value in headers.items()} | {"X-Apod": b"1"}
        for method, path, _ in routes:
            if (method, path) in OPEN:
                continue
            body = b"{}" if method in ("POST", "PUT") else b""
            answer = stranger.request(
                method, filled(path), content=body, headers=encoded | {"Content-Type": b"application/json"}
            )
            assert answer.status_code == 401, (what, method, path, answer.status_code)
            assert answer.json()["error"]["code"] == "unauthenticated"


def test_every_owner_endpoint_refuses_annotators(house: House, routes: list[tuple[str, str, list[str]]]) -> None:
    owners = [(method, path) for method, path, tags in routes if "owner" in tags]
    assert len(owners) >= 12
    for visitor in (house.enter(), house.program()):
        for method, path in owners:
            answer = visitor.request(method, filled(path), json={} if method in ("POST", "PUT") else None)
            assert answer.status_code == 403, (method, path)
    status = house.campaign.status()
    assert status.finished is False
    assert house.campaign.progress().phase == "open"


def test_every_route_is_described_and_belongs_to_somebody(
    house: House, routes: list[tuple[str, str, list[str]]]
) -> None:
    described = {(method, path) for method, path, _ in routes}
    served = {
        (method, route.path)
        for route in house.app.routes
        for method in getattr(route, "methods", set()) or set()
        if route.path.startswith("/api/") and method != "HEAD" and route.path != "/api/v1/openapi.json"
    }
    assert described >= served
    assert all(
        set(tags) & {"owner", "annotator", "reviewer", "self-report", "session", "events"} for _, _, tags in routes
    )


def test_an_error_does_not_tell_which_questions_there_are(
    house: House, routes: list[tuple[str, str, list[str]]]
) -> None:
    maria, bob = house.enter("maria"), house.enter("bob")
    held, own = turn(bob)["questions"], turn(maria)["questions"][0]["id"]
    bob.post(f"/api/v1/questions/{held[0]['id']}/answer", json={"answer": GROUPS[0], "key": "k"})
    bob.post(f"/api/v1/questions/{held[1]['id']}/skip", json={"key": "s"})
    foreign = [case["id"] for case in held]
    absent = ["1-1", "999-999999", "0-0", f"77-{own.split('-')[1]}", f"77-{foreign[0].split('-')[1]}"]
    paths = [(method, path) for method, path, _ in routes if "{question}" in path]
    assert len(paths) >= 5
    for method, path in paths:
        body = {"answer": GROUPS[0], "key": "mine"} if path.endswith(("answer", "correction")) else {"key": "mine"}
        heard = set()
        for question in (*foreign, *absent):
            address = path.replace("{question}", question)
            found = maria.request(method, address, json=body if method == "POST" else None)
            headers = {name: value for name, value in found.headers.items() if name != "date"}
            heard.add((found.status_code, found.text, frozenset(headers.items())))
        assert len(heard) == 1, (method, path)
        assert heard.pop()[0] == 404


def test_a_link_opens_one_session_only(house: House) -> None:
    token = house.link()
    first, second = house.stranger(), house.stranger()
    for client in (first, second):
        client.headers["X-Apod"] = "1"
    assert first.post("/api/v1/session", json={"token": token}).status_code == 200
    refused = second.post("/api/v1/session", json={"token": token})
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers
    assert first.get("/api/v1/me").status_code == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(house: House) -> None:
    client = house.stranger()
    header = client.post("/api/v1/session", json={"token": house.link()}, headers={"X-Apod": "1"}).headers["set-cookie"]
    assert "HttpOnly" in header
    assert "samesite=strict" in header.lower()
    assert "Path=/" in header
    assert "Secure" not in header


def test_behind_https_the_cookie_is_secure_and_the_browser_told_so(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(url="https://annotate.example.org")
    with housed(new_campaign(), settings) as house:
        client = house.stranger()
        client.base_url = "https://annotate.example.org"  # type: ignore[assignment]
        answer = client.post("/api/v1/session", json={"token": house.link()}, headers={"X-Apod": "1"})
        assert "Secure" in answer.headers["set-cookie"]
        assert "strict-transport-security" in answer.headers


def test_sessions_links_and_tokens_run_out(new_campaign: Callable[..., Campaign]) -> None:
    campaign = new_campaign(refit="demand")
    moved = 0
    campaign.store.skew = lambda: moved
    with housed(campaign) as house:
        maria, robot, link = house.enter(), house.program(), house.link("bob")
        moved = 8 * access.DAY
        assert maria.get("/api/v1/me").status_code == 200
        assert robot.get("/api/v1/me").status_code == 401
        assert house.stranger().post(
            "/api/v1/session", json={"token": link}, headers={"X-Apod": "1"}
        ).status_code == 401  # fmt: skip
        moved = 31 * access.DAY
        assert maria.get("/api/v1/me").status_code == 401


def test_revoking_somebody_ends_all_they_have_at_once(house: House) -> None:
    maria, robot, bob = house.enter("maria"), house.program("maria"), house.enter("bob")
    link = house.link("maria")
    owner = house.owner()
    assert owner.post("/api/v1/access/revoke", json={"name": "maria"}).json() == {"revoked": 3}
    assert {client.get("/api/v1/me").status_code for client in (maria, robot)} == {401}
    assert house.campaign.owner.access.redeem(link) is None
    assert bob.get("/api/v1/me").status_code == 200


def test_revoking_a_link_ends_the_session_it_opened(house: House) -> None:
    maria = house.enter()
    link = next(entry for entry in house.campaign.owner.access.entries() if entry.what == "link")
    assert house.owner().delete(f"/api/v1/access/{link.id}").status_code == 204
    assert maria.get("/api/v1/me").status_code == 401


def test_leaving_ends_the_session_on_the_server(house: House) -> None:
    maria = house.enter()
    kept = dict(maria.cookies)
    assert maria.delete("/api/v1/session").status_code == 204
    again = house.stranger()
    again.cookies.update(kept)
    assert again.get("/api/v1/me").status_code == 401


def test_tokens_are_stored_hashed_in_a_file_for_its_owner_alone(house: House) -> None:
    granted = [house.campaign.owner.access.grant("robot", "annotator", what).token for what in ("link", "token")]
    path = Path(str(house.campaign.store.path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = b"".join(found.read_bytes() for found in path.parent.glob(f"{path.name}*") if found.is_file())
    for token in granted:
        id_, secret = token.split(".")
        assert len(secret) == 43  # 256 bits
        assert id_.encode() in data
        assert secret.encode() not in data
    with house.campaign.store.reading() as connection:
        assert {len(value) for value in connection.execute(select(schema.access.c.hash)).scalars()} == {64}


def test_every_comparison_is_timing_safe_and_a_miss_compares_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    original = hmac.compare_digest

    def spy(a: Any, b: Any) -> bool:
        compared.append((len(a), len(b)))
        return original(a, b)

    token = house.campaign.owner.access.grant("robot", "annotator", "token").token
    monkeypatch.setattr(access.hmac, "compare_digest", spy)
    id_ = token.split(".")[0]
    for attempt in (token, f"{id_}.wrong", f"{'0' * 16}.wrong", "nonsense", f"{id_}.{token.split('.')[1][:-1]}"):
        house.campaign.owner.access.visitor(attempt, "token")
    assert compared == [(64, 64)] * 5
    source = Path(access.__file__).read_text()
    assert not re.search(r"(hash|secret)\w*\s*[!=]=|[!=]=\s*\w*\.?(hash|secret)\b", source)


class TestOtherPeoplesQuestions:
    """Ids can be guessed: they must open nothing."""

    @pytest.fixture
    def two(self, house: House) -> tuple[Any, Any, str]:
        maria, eve = house.enter("maria"), house.enter("eve")
        return maria, eve, turn(maria)["questions"][0]["id"]

    @pytest.mark.parametrize(
        ("method", "what", "body"),
        [
            ("GET", "", None),
            ("GET", "/picture", None),
            ("POST", "/answer", {"answer": GROUPS[0], "key": "k"}),
            ("POST", "/correction", {"answer": GROUPS[0], "key": "k"}),
            ("POST", "/skip", {"key": "k"}),
        ],
    )
    def test_nobody_reaches_anothers_question(
        self, two: tuple[Any, Any, str], house: House, method: str, what: str, body: Any
    ) -> None:
        maria, eve, question = two
        real = eve.request(method, f"/api/v1/questions/{question}{what}", json=body)
        invented = eve.request(method, f"/api/v1/questions/999-999{what}", json=body)
        assert real.status_code == invented.status_code == 404
        assert turn(maria)["questions"][0]["id"] == question
        assert house.campaign.status().answered == 0

    def test_nobody_undoes_anothers_answer(self, two: tuple[Any, Any, str], house: House) -> None:
        maria, eve, question = two
        maria.post(f"/api/v1/questions/{question}/answer", json={"answer": GROUPS[0], "key": "k"})
        assert eve.post("/api/v1/undo", json={"key": "u"}).status_code == 404
        assert house.campaign.status().answered == 1

    def test_a_recorded_request_replayed_by_somebody_else_does_nothing(
        self, two: tuple[Any, Any, str], house: House
    ) -> None:
        maria, eve, question = two
        body = {"answer": GROUPS[0], "key": "recorded"}
        maria.post(f"/api/v1/questions/{question}/answer", json=body)
        assert eve.post(f"/api/v1/questions/{question}/answer", json=body).status_code == 404
        again = maria.post(f"/api/v1/questions/{question}/answer", json=body).json()
        assert again["receipt"]["repeated"] is True
        assert house.campaign.status().answered == 1

    def test_a_forged_token_number_on_ones_own_question_is_refused(self, two: tuple[Any, Any, str]) -> None:
        maria, _, question = two
        number, token = question.split("-")
        body = {"answer": GROUPS[0], "key": "k"}
        for forged in (f"{number}-{int(token) + 1}", f"{int(number) + 1}-{token}", f"{number}-0", "0-0"):
            assert maria.post(f"/api/v1/questions/{forged}/answer", json=body).status_code == 404

    def test_an_annotator_cannot_name_somebody_else_as_the_annotator(self, two: tuple[Any, Any, str]) -> None:
        maria, _, question = two
        body = {"answer": GROUPS[0], "key": "k", "annotator": "eve"}
        assert maria.post(f"/api/v1/questions/{question}/answer", json=body).status_code == 422


class TestOtherSites:
    """A page of another site makes the annotator's browser send requests."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"X-Apod": ""},
            {"X-Apod": "0"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:9999"},
            {"Origin": "http://127.0.0.1:8000.evil.example"},
            {"Origin": "http://[bad"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    def test_nothing_changes_at_another_sites_request(
        self, house: House, routes: list[tuple[str, str, list[str]]], headers: dict[str, str]
    ) -> None:
        owner = house.owner()
        before = house.campaign.head()
        for method, path, _ in routes:
            if method != "GET":
                answer = owner.request(method, filled(path), json={"token": house.link()}, headers=headers)
                assert answer.status_code == 403, (method, path)
                assert answer.json()["error"]["code"] == "csrf"
        assert house.campaign.head() == before
        assert owner.get("/api/v1/me").status_code == 200

    def test_our_own_page_may(self, house: House) -> None:
        maria = house.enter()
        own = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
        assert maria.post("/api/v1/turn", json={}, headers=own).status_code == 200

    def test_a_form_cannot_be_sent(self, house: House) -> None:
        maria = house.enter()
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = maria.post("/api/v1/turn", content="{}", headers={"Content-Type": kind})
            assert answer.status_code in (415, 422)

    def test_no_answer_invites_other_origins(self, house: House) -> None:
        preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        answer = house.stranger().options("/api/v1/turn", headers=preflight)
        assert not [name for name in answer.headers if name.startswith("access-control")]

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::"])
    def test_a_name_made_to_point_here_is_refused(self, house: House, host: str) -> None:
        answer = house.stranger().get("/", headers={"Host": host})
        assert answer.status_code in (400, 421)


def test_a_visitor_in_a_hurry_is_slowed_down_and_others_are_not(new_campaign: Callable[..., Campaign]) -> None:
    limits = Limits(requests_per_second=0.5, burst=5)
    with housed(new_campaign(), ServeSettings(limits=limits)) as house:
        maria, bob = house.enter("maria"), house.enter("bob")
        statuses = [maria.get("/api/v1/me").status_code for _ in range(8)]
        assert statuses == [200] * 5 + [429] * 3
        assert int(maria.get("/api/v1/me").headers["retry-after"]) >= 1
        assert bob.get("/api/v1/me").status_code == 200


def test_guessing_links_is_slowed_down(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(), ServeSettings(limits=Limits(wrong_per_address=4))) as house:
        stranger = house.stranger()
        stranger.headers["X-Apod"] = "1"
        statuses = [stranger.post("/api/v1/session", json={"token": f"{n}.x"}).status_code for n in range(6)]
        assert statuses == [401] * 4 + [429] * 2
