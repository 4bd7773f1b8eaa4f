"""The reviewer's door: a role of its own, opinions without names, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from web_people import GROUPS, House, housed, people, turn

from apod.campaign import Campaign


@pytest.fixture
def disagreed(new_campaign: Callable[..., Campaign]) -> House:
    """Two annotators said different things about one person."""
    with housed(new_campaign(overlap=2)) as house:
        for name, answer in (("maria", GROUPS[0]), ("bob", GROUPS[1])):
            client = house.enter(name)
            question = turn(client)["questions"][0]["id"]
            body = {"answer": answer, "key": "k"}
            assert client.post(f"/api/v1/questions/{question}/answer", json=body).status_code == 200
        yield house  # type: ignore[misc]


def test_a_reviewer_sees_opinions_without_names_and_decides(disagreed: House) -> None:
    rita = disagreed.enter("rita", "reviewer")
    found = rita.get("/api/v1/review")
    case = found.json()["case"]
    assert case["why"] == "disagreement"
    assert sorted((one["answer"], one["count"]) for one in case["opinions"]) == sorted((name, 1) for name in GROUPS)
    assert "maria" not in found.text
    assert "bob" not in found.text
    done = rita.post(f"/api/v1/review/{case['question']}", json={"answer": GROUPS[1], "key": "k"}).json()
    assert (done["case"], done["waiting"], done["decided"]) == (None, 0, 1)


def test_annotators_decide_nothing_and_reviewers_answer_nothing(disagreed: House) -> None:
    body = {"answer": GROUPS[1], "key": "k"}
    for client in (disagreed.enter("maria"), disagreed.program("robot")):
        assert client.get("/api/v1/review").status_code == 403
        assert client.post("/api/v1/review/1", json=body).status_code == 403
    rita = disagreed.enter("rita", "reviewer")
    assert rita.post("/api/v1/turn", json={}).status_code == 403
    assert rita.get("/api/v1/answers").status_code == 403
    assert rita.get("/api/v1/dashboard").status_code == 403
    assert disagreed.campaign.reviews.summary().decided == 0


def test_a_reviewer_who_answered_the_row_is_not_shown_it(disagreed: House) -> None:
    maria = disagreed.enter("maria", "reviewer")
    assert maria.get("/api/v1/review").json()["case"] is None
    refused = maria.post("/api/v1/review/1", json={"answer": GROUPS[0], "key": "another"})
    assert (refused.status_code, disagreed.campaign.reviews.summary().decided) == (404, 0)


def test_a_decision_needs_the_header_that_other_sites_cannot_set(disagreed: House) -> None:
    rita = disagreed.enter("rita", "reviewer")
    del rita.headers["X-Apod"]
    answer = rita.post("/api/v1/review/1", json={"answer": GROUPS[0], "key": "k"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "csrf")


def test_a_reviewer_gets_the_picture_of_a_question_to_decide_and_no_other(
    new_campaign: Callable[..., Campaign], tmp_path: Path
) -> None:
    picture = b"\x89PNG\r\n\x1a\nrest"
    (tmp_path / "face.png").write_bytes(picture)
    frame, _ = people()
    shown = frame.assign(photo="face.png")
    with housed(new_campaign(overlap=2, display=shown, image_column="photo", image_root=str(tmp_path))) as house:
        for name, answer in (("maria", GROUPS[0]), ("bob", GROUPS[1])):
            client = house.enter(name)
            question = turn(client)["questions"][0]["id"]
            client.post(f"/api/v1/questions/{question}/answer", json={"answer": answer, "key": "k"})
        rita = house.enter("rita", "reviewer")
        case = rita.get("/api/v1/review").json()["case"]
        found = rita.get(case["picture"])
        assert (found.status_code, found.content, found.headers["content-type"]) == (200, picture, "image/png")
        assert rita.get("/api/v1/review/2/picture").status_code == 404  # not to be decided
        assert house.enter("maria", "reviewer").get(case["picture"]).status_code == 404  # she was asked herself
        assert house.enter("bob").get(case["picture"]).status_code == 403
