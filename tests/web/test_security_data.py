"""Attacks through data and requests: scripts in cells, paths, sizes, types; and what must never go out."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from web_people import GROUPS, XSS, House, Live, fitted, housed, nasty, turn

from apod.campaign import Campaign
from apod.errors import InputError
from support.waiting import PATIENCE

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40


def test_scripts_in_data_travel_as_plain_json_and_unchanged(new_campaign: Callable[..., Campaign]) -> None:
    with housed(nasty(new_campaign)) as house:
        maria = house.enter(XSS[1])
        for path in ("campaign", "me", "answers", "progress"):
            answer = maria.get(f"/api/v1/{path}")
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
        about = maria.get("/api/v1/campaign").json()
        assert about["groups"] == XSS[:3]
        assert about["guidelines"] == "\n".join(XSS)
        case = turn(maria)["questions"][0]
        shown = {field["name"]: field["value"] for field in case["fields"]}
        row = int(case["row_id"].split()[-1])
        assert all(shown[f"{text} column"] == f"{text} {row}" for text in XSS)
        body = {"answer": XSS[1], "key": XSS[2]}
        assert maria.post(f"/api/v1/questions/{case['id']}/answer", json=body).status_code == 200
        fitted(house, 1)
        owner = house.owner()
        for path in ("dashboard", "dashboard/map", "access"):
            answer = owner.get(f"/api/v1/{path}")
            assert answer.headers["content-type"] == "application/json"
        assert owner.get("/api/v1/dashboard").json()["annotators"][0]["name"] == XSS[1]


POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/enter",
        "/dashboard",
        "/static/plotly.min.js",
        "/static/none.js",
        "/api/v1/me",
        "/nowhere",
        "/api/v1/openapi.json",
    ],
)
def test_every_answer_has_the_strict_headers(house: House, path: str) -> None:
    answer = house.stranger().get(path)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert {name: policy[name] for name in POLICY} == POLICY
    assert "unsafe" not in policy["script-src"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "server" not in answer.headers
    if path.startswith("/api"):
        assert answer.headers["cache-control"] == "no-store"


@pytest.fixture
def gallery(tmp_path: Path, new_campaign: Callable[..., Campaign]) -> Callable[[dict[int, str]], Campaign]:
    """Makes picture campaigns; every row has a right picture but those named otherwise."""

    def make(names: dict[int, str]) -> Campaign:
        root = tmp_path / "pictures"
        root.mkdir()
        frame = pd.DataFrame({"file": [f"{row}.png" for row in range(20)], "age": range(20)})
        for row in range(20):
            (root / f"{row}.png").write_bytes(PNG + str(row).encode())
        for row, name in names.items():
            frame.loc[row, "file"] = name
        features = [[float(row), float(row % 3)] for row in range(20)]
        import numpy as np

        return new_campaign_of(new_campaign, frame, np.array(features), root)

    return make


def new_campaign_of(new_campaign: Callable[..., Campaign], frame: pd.DataFrame, features: Any, root: Path) -> Campaign:
    return new_campaign(
        rows=20, display=frame, image_column="file", image_root=str(root), show=["age"], lookahead=20, budget=20
    )


def pictures(client: Any) -> dict[int, Any]:
    """Every row's picture, by answering through the campaign."""
    found = {}
    for number in range(20):
        case = turn(client)["questions"][0]
        assert [field["name"] for field in case["fields"]] == ["age"]
        found[int(case["fields"][0]["value"])] = client.get(case["picture"])
        client.post(f"/api/v1/questions/{case['id']}/answer", json={"answer": GROUPS[0], "key": str(number)})
    return found


def test_pictures_come_with_fixed_types_and_without_their_paths(
    gallery: Callable[[dict[int, str]], Campaign], tmp_path: Path
) -> None:
    (tmp_path / "secret.png").write_bytes(PNG)
    campaign = gallery({1: "page.png", 2: "missing.png", 3: "vector.svg"})
    (tmp_path / "pictures" / "page.png").write_bytes(b"<html><script>alert(1)</script>")
    (tmp_path / "pictures" / "vector.svg").write_bytes(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    with housed(campaign) as house:
        found = pictures(house.enter())
    assert found[0].content == PNG + b"0"
    assert found[0].headers["content-type"] == "image/png"
    assert [found[row].status_code for row in (1, 2, 3)] == [415, 404, 415]
    assert all(str(tmp_path) not in answer.text for answer in found.values() if answer.status_code != 200)


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd"])
def test_a_campaign_with_a_picture_outside_the_folder_is_not_created(
    gallery: Callable[[dict[int, str]], Campaign], name: str
) -> None:
    with pytest.raises(InputError, match=r"has 3 paths .* the first in row 4 "):
        gallery(dict.fromkeys((4, 9, 11), name))


def exchange(path: Path, form: str, outside: Path) -> None:
    """Put something in a picture's place that is none."""
    path.unlink()
    if form == "link":
        path.symlink_to(outside)
    elif form == "pipe":
        os.mkfifo(path)
    elif form == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            os.chdir(path.parent)  # the address of a socket is short
            server.bind(path.name)


@pytest.mark.parametrize("form", ["link", "pipe", "folder", "socket"])
def test_what_took_a_pictures_place_is_never_shown_and_others_are_asked_about_instead(
    gallery: Callable[[dict[int, str]], Campaign], tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.png").write_bytes(PNG + b"secret")
    campaign = gallery({})
    bad = set(range(0, 20, 3))
    for row in bad:
        exchange(tmp_path / "pictures" / f"{row}.png", form, tmp_path / "secret.png")
    with housed(campaign) as house:
        client, met = house.enter(), set()
        for _ in range(20 - len(bad)):
            case = turn(client)["questions"][0]
            answer = client.get(case["picture"])
            assert answer.status_code == 200
            assert b"secret" not in answer.content
            met.add(int(case["fields"][0]["value"]))
            key = {"answer": GROUPS[0], "key": case["id"]}
            assert client.post(f"/api/v1/questions/{case['id']}/answer", json=key).status_code == 200
        assert met == set(range(20)) - bad
        assert turn(client, "exhausted")["questions"] == []
    assert set(campaign.status().withdrawn) == bad
    assert campaign.status().answered == 20 - len(bad)
    assert campaign.owner.verify_log().ok


def test_pipes_in_place_of_pictures_hold_no_thread_of_the_server(
    gallery: Callable[[dict[int, str]], Campaign], tmp_path: Path
) -> None:
    campaign = gallery({})
    with housed(campaign) as house:
        client = house.enter()
        case = turn(client)["questions"][0]
        picture = tmp_path / "pictures" / f"{case['fields'][0]['value']}.png"
        exchange(picture, "pipe", tmp_path)
        with ThreadPoolExecutor(60) as crowd:
            answers = list(crowd.map(lambda _: client.get(case["picture"]), range(60)))
        assert {answer.status_code for answer in answers} == {404}
        assert turn(client)["questions"][0]["id"] != case["id"]


def test_a_body_too_large_is_refused_however_it_is_sent(house: House) -> None:
    maria = house.enter()
    huge = b'{"key": "' + b"x" * 70_000 + b'"}'
    said = maria.post("/api/v1/undo", content=huge, headers={"Content-Type": "application/json"})
    assert said.status_code == 413

    def parts() -> Any:
        for start in range(0, len(huge), 1000):
            yield huge[start : start + 1000]

    chunked = maria.post("/api/v1/undo", content=parts(), headers={"Content-Type": "application/json"})
    assert chunked.status_code == 413
    lying = maria.post("/api/v1/undo", content=b"{}", headers={"Content-Length": "99999999"})
    assert lying.status_code == 413


def keys_of(value: Any) -> set[str]:
    """All keys anywhere in a JSON value."""
    if isinstance(value, dict):
        return set(value) | {key for part in value.values() for key in keys_of(part)}
    return {key for part in value for key in keys_of(part)} if isinstance(value, list) else set()


def test_an_annotator_learns_neither_predictions_nor_labels_nor_others_answers(house: House) -> None:
    bob, maria = house.enter("bob"), house.enter("maria")
    for key in "abc":
        body = {"answer": GROUPS[1], "key": key}
        bob.post(f"/api/v1/questions/{turn(bob)['questions'][0]['id']}/answer", json=body)
    fitted(house, 3)
    question = turn(maria)["questions"][0]["id"]
    told = maria.post(f"/api/v1/questions/{question}/answer", json={"answer": GROUPS[0], "key": "m"})
    answers = [
        told,
        maria.post("/api/v1/turn", json={}),
        maria.get(f"/api/v1/questions/{question}"),
        maria.get("/api/v1/answers"),
        maria.get("/api/v1/progress"),
        maria.get("/api/v1/me"),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert GROUPS[1] not in answer.text
        assert '"label":"' not in answer.text
        assert not keys_of(answer.json()) & {
            "prediction", "probability", "reason", "purpose", "rule", "model", "distance", "accuracy", "gap", "kappa",
        }  # fmt: skip


def test_the_label_is_shown_only_where_the_campaign_says_so(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(show_label=True)) as house:
        case = turn(house.enter())["questions"][0]
        row = int(case["row_id"].split()[1])
        assert case["label"] == house.campaign.settings.label_names[house.campaign.materials.label(row)]


def test_gold_questions_look_like_any_other(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(gold={5: GROUPS[0]}, gold_every=2)) as house:
        maria = house.enter()
        shapes = set()
        rows = []
        for number in range(5):
            case = turn(maria)["questions"][0]
            rows.append(case["row_id"])
            shapes.add((frozenset(keys_of(case)), case["picture"], case["label"]))
            body = {"answer": GROUPS[0], "key": str(number)}
            receipt = maria.post(f"/api/v1/questions/{case['id']}/answer", json=body).json()["receipt"]
            assert receipt | {"question": ""} == {"question": "", "late": False, "counted": True, "repeated": False}
    assert "person 5" in rows
    assert len(shapes) == 1


def test_neither_groups_nor_tokens_stand_in_a_log_line(server: Live, caplog: pytest.LogCaptureFixture) -> None:
    import httpx2

    caplog.set_level(logging.DEBUG)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "apod", "fastapi", "asyncio"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    link = server.link()
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=PATIENCE) as client:
        client.get(f"/enter?token={link.split('#')[1]}")  # somebody pasted it wrongly
        client.post("/api/v1/session", json={"token": link.split("#")[1]})
        question = turn(client)["questions"][0]["id"]
        client.post(f"/api/v1/questions/{question}/answer", json={"answer": GROUPS[0], "key": "k"})
        client.post(f"/api/v1/questions/{question}/answer", json={"answer": GROUPS[1], "key": "k"})
        cookie = next(iter(client.cookies.values()))
    lines = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    text = "\n".join(lines)
    for secret in (*GROUPS, link.split(".")[-1], cookie.split(".")[-1]):
        assert secret not in text
