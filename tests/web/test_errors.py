"""Every failure is a status and one sentence, and never repeats what was sent."""

from __future__ import annotations

from typing import Any

import pytest
from web_people import GROUPS, House, turn

from apod.campaign import Annotator


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"not json", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'{"key": 5}', 422),
        (b'{"key": ""}', 422),
        (b'{"key": null}', 422),
        (b'{"key": "' + b"x" * 201 + b'"}', 422),
        (b'{"key": "k", "more": 1}', 422),
        (b"\xff\xfe\x00", 400),
        (b'{"key": "\xff"}', 400),
        (b"[" * 30_000, 400),
        (b'{"key": "\\ud800"}', (404, 422)),
        (b'{"key": "a\\u0000b"}', (404, 422)),
    ],
)
def test_malformed_and_wrong_bodies_are_errors_of_the_sender(house: House, body: bytes, status: Any) -> None:
    maria = house.enter()
    answer = maria.post("/api/v1/undo", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), answer.text
    assert set(answer.json()["error"]) == {"code", "message"}


def test_no_error_repeats_what_was_sent(house: House) -> None:
    maria = house.enter()
    question = turn(maria)["questions"][0]["id"]
    for body in ({"answer": {"Nachtigall": 1}, "key": "k"}, {"answer": "Nachtigall", "key": "k"}, {"Nachtigall": 1}):
        assert "Nachtigall" not in maria.post(f"/api/v1/questions/{question}/answer", json=body).text


def test_a_failure_nobody_foresaw_tells_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: Any) -> None:
        raise ValueError(f"{GROUPS[0]} at /secret/place")

    monkeypatch.setattr(Annotator, "progress", burst)
    answer = house.enter().get("/api/v1/progress")
    assert answer.status_code == 500
    assert GROUPS[0] not in answer.text
    assert "/secret" not in answer.text
    assert answer.json()["error"]["code"] == "internal"
