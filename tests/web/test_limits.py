"""Wrong links and tokens are limited by address and by id, and lock nobody else out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from web_people import House, housed

from apod.campaign import Campaign
from apod.web.errors import Refused
from apod.web.settings import Attempts, Bucket, Limits, ServeSettings


def enter(client: Any, token: str, **headers: str) -> int:
    answer = client.post("/api/v1/session", json={"token": token}, headers={"X-Apod": "1", **headers})
    return int(answer.status_code)


def ask(client: Any, token: str, **headers: str) -> int:
    return int(client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}", **headers}).status_code)


def wrong(number: int) -> str:
    return f"{number:016x}.{'A' * 43}"


def test_wrong_links_of_one_address_lock_out_nobody_with_a_right_one(house: House) -> None:
    stranger = house.stranger()
    assert [enter(stranger, wrong(number)) for number in range(30)] == [401] * 20 + [429] * 10
    assert enter(house.stranger(), house.link()) == 200


def test_wrong_tokens_of_programs_and_sessions_are_limited_too_and_right_ones_go_on(house: House) -> None:
    maria, robot = house.enter(), house.program()
    assert [ask(house.stranger(), wrong(number)) for number in range(30)] == [401] * 20 + [429] * 10
    forged = house.stranger()
    forged.cookies.set(house.app.state.server.cookie, wrong(99))
    assert forged.get("/api/v1/me").status_code == 429
    assert {client.get("/api/v1/me").status_code for client in (maria, robot)} == {200}


def test_of_one_id_ten_wrong_secrets_a_minute_are_answered_and_its_holder_still_comes_in(house: House) -> None:
    token = house.campaign.owner.access.grant("robot", "annotator", "token").token
    other = house.campaign.owner.access.grant("rover", "annotator", "token").token
    id_ = token.split(".")[0]
    found = [ask(house.stranger(), f"{id_}.{'A' * 42}{number}") for number in range(10)]
    assert found == [401] * 10
    assert ask(house.stranger(), f"{id_}.{'A' * 42}x") == 429
    assert [ask(house.stranger(), right) for right in (token, other)] == [200, 200]


def test_a_link_that_was_used_says_so_however_often_it_is_opened(house: House) -> None:
    link = house.link()
    assert enter(house.stranger(), link) == 200
    assert [enter(house.stranger(), link) for _ in range(40)] == [401] * 40
    assert enter(house.stranger(), wrong(1)) == 401


@pytest.fixture
def behind_proxy(new_campaign: Callable[..., Campaign], monkeypatch: pytest.MonkeyPatch) -> Any:
    with housed(new_campaign(), ServeSettings(trusted_proxies=("10.0.0.0/8",))) as house:
        yield house


def client_at(house: House, address: str) -> Any:
    client = house.stranger()
    client._transport.client = (address, 4711)
    return client


def test_behind_a_trusted_proxy_limits_are_those_of_the_person_behind_it(behind_proxy: House) -> None:
    proxy = client_at(behind_proxy, "10.0.0.5")
    for number in range(20):
        assert enter(proxy, wrong(number), **{"X-Forwarded-For": "203.0.113.7"}) == 401
    assert enter(proxy, wrong(50), **{"X-Forwarded-For": "203.0.113.7"}) == 429
    assert enter(proxy, wrong(51), **{"X-Forwarded-For": "made up, 203.0.113.7"}) == 429
    assert enter(proxy, wrong(52), **{"X-Forwarded-For": "203.0.113.7, 10.1.1.1"}) == 429
    assert enter(proxy, wrong(53), **{"X-Forwarded-For": "203.0.113.8"}) == 401
    assert enter(proxy, wrong(54)) == 401


def test_nobody_but_a_trusted_proxy_says_who_sends_a_request(behind_proxy: House) -> None:
    stranger = client_at(behind_proxy, "203.0.113.7")
    found = [enter(stranger, wrong(n), **{"X-Forwarded-For": f"198.51.100.{n}"}) for n in range(22)]
    assert found == [401] * 20 + [429] * 2


class CountedAccess:
    """What Attempts needs of Access; counts how often the database would be read."""

    def __init__(self) -> None:
        self.reads = self.granted = 0

    def recognises(self, token: str) -> bool:
        return token == "known.right"

    def ids(self) -> frozenset[str]:
        self.reads += 1
        return frozenset({"known"})


def test_an_address_without_attempts_left_costs_one_look_a_second_and_gets_them_back() -> None:
    now, access = 0.0, CountedAccess()
    attempts = Attempts(access, Limits(wrong_per_address=6), lambda: now)  # type: ignore[arg-type]
    for number in range(6):
        attempts.check("a", wrong(number))
        attempts.count_wrong("a", wrong(number))
    before = access.reads
    for number in range(1000):
        with pytest.raises(Refused, match="wait a minute"):
            attempts.check("a", wrong(number))
    attempts.check("a", "known.secret")
    attempts.check("b", wrong(1))
    assert access.reads <= before + 1
    now = 10.0  # six a minute
    attempts.check("a", wrong(7))


def test_whoever_knows_the_id_of_a_token_cannot_lock_its_holder_out() -> None:
    attempts = Attempts(CountedAccess(), Limits(wrong_per_id=3), lambda: 0.0)  # type: ignore[arg-type]
    for _ in range(3):
        attempts.check("elsewhere", "known.wrong")
        attempts.count_wrong("elsewhere", "known.wrong")
    with pytest.raises(Refused, match="wait a minute"):
        attempts.check("elsewhere", "known.wrong")
    attempts.check("here", "known.right")


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
