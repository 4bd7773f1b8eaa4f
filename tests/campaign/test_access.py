"""Links, sessions and tokens, on both databases."""

from __future__ import annotations

import threading

import pytest

from apod.campaign.access import DAY
from apod.campaign.errors import NotFound
from apod.errors import InputError
from apod.testing.engines import Workshop


def test_a_link_opens_one_session_however_many_try_at_once(workshop: Workshop) -> None:
    access = workshop.create().owner.access
    token = access.grant("maria").token
    opened = []

    def redeem() -> None:
        opened.append(access.redeem(token))

    threads = [threading.Thread(target=redeem) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sessions = [found for found in opened if found is not None]
    assert len(opened) == 8
    assert len(sessions) == 1
    visitor = access.visitor(sessions[0].token, "session")
    assert visitor is not None
    assert (visitor.name, visitor.role) == ("maria", "annotator")


def test_time_and_revocation_end_access(workshop: Workshop) -> None:
    access = workshop.create().owner.access
    link, token = access.grant("maria", days=1), access.grant("maria", "owner", "token", days=3)
    session = access.redeem(access.grant("maria").token)
    assert session is not None
    workshop.pass_time(2 * DAY / 1000)
    assert access.redeem(link.token) is None
    assert access.visitor(token.token, "token") is not None
    access.revoke(token.id)
    assert access.visitor(token.token, "token") is None
    assert access.visitor(session.token, "session") is not None
    assert access.revoke_name("maria") == 1
    assert access.visitor(session.token, "session") is None
    states = [(entry.what, entry.state) for entry in access.entries()]
    assert sorted(states) == [("link", "revoked"), ("link", "revoked"), ("session", "revoked"), ("token", "revoked")]


@pytest.mark.parametrize("token", ["abc\0.def", "\0", "é.secret", ".", ""])
def test_a_token_that_is_none_opens_nothing(workshop: Workshop, token: str) -> None:
    access = workshop.create().owner.access
    assert access.redeem(token) is None
    assert access.visitor(token, "token") is None


def test_old_entries_are_swept_away(workshop: Workshop) -> None:
    access = workshop.create().owner.access
    access.grant("maria", days=1)
    workshop.pass_time(40 * DAY / 1000)
    access.grant("bob")
    assert [entry.name for entry in access.entries()] == ["bob"]


def test_one_campaigns_tokens_open_no_other(workshop: Workshop) -> None:
    one = workshop.create(name="one").owner.access
    other = workshop.create(name="other").owner.access
    token = one.grant("maria", "owner", "token").token
    assert one.visitor(token, "token") is not None
    assert other.visitor(token, "token") is None
    assert other.entries() == []
    with pytest.raises(NotFound):
        other.revoke(token.split(".")[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\x00b"},
        {"name": "x" * 201},
        {"name": "owner"},
        {"name": "maria", "role": "king"},
        {"name": "maria", "what": "session"},
        {"name": "maria", "days": 0},
        {"name": "maria", "days": float("nan")},
        {"name": "maria", "days": 1e9},
    ],
)
def test_what_cannot_be_granted_is_refused(on_sqlite: Workshop, wrong: dict[str, object]) -> None:
    access = on_sqlite.create().owner.access
    with pytest.raises(InputError):
        access.grant(**wrong)  # type: ignore[arg-type]
    assert access.entries() == []


def test_nothing_prints_a_secret(on_sqlite: Workshop) -> None:
    granted = on_sqlite.create().owner.access.grant("maria")
    assert granted.token not in repr(granted)
    assert granted.token.split(".")[1] not in repr(granted)


def test_the_marks_move_with_every_change_and_with_nothing_else(workshop: Workshop) -> None:
    access, elsewhere = workshop.create().owner.access, workshop.open().owner.access
    seen = [access.marks()]

    def moved() -> bool:
        seen.append(access.marks())
        return seen[-1] != seen[-2]

    assert not moved()
    link = elsewhere.grant("maria", days=1)
    assert moved()
    session = elsewhere.redeem(link.token)
    assert session is not None
    assert moved()
    assert access.visitor(session.token, "session") is not None
    assert not moved()
    elsewhere.revoke(session.id)
    assert moved()
    elsewhere.grant("bob", days=2)
    assert moved()
    workshop.pass_time(3 * DAY / 1000)
    assert moved()
