"""What an annotator's page can do: questions with leases, answers with keys, truthful states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import web_people
from web_people import GROUPS, House, housed, turn

from apod.campaign import Campaign
from apod.web.annotator_routes import content_type
from support.waiting import until


def answer(client, question: str, what: str = GROUPS[0], key: str = "k") -> object:
    return client.post(f"/api/v1/questions/{question}/answer", json={"answer": what, "key": key})


def test_a_turn_holds_the_current_question_and_the_next_and_stays_the_same(house: House) -> None:
    maria = house.enter()
    first = turn(maria)
    assert len(first["questions"]) == 2
    again = turn(maria)
    assert [q["id"] for q in again["questions"]] == [q["id"] for q in first["questions"]]
    assert house.campaign.status().pending == 2


def test_after_an_answer_the_prefetched_question_is_the_current_one(house: House) -> None:
    maria = house.enter()
    current, following = turn(maria)["questions"]
    told = answer(maria, current["id"]).json()
    assert told["receipt"] == {"question": current["id"], "late": False, "counted": True, "repeated": False}
    assert told["turn"]["questions"][0]["id"] == following["id"]
    assert told["turn"]["progress"]["mine"] == {"answered": 1, "skipped": 0}
    assert told["turn"]["progress"]["campaign"] == {"answered": 1, "pending": 2, "budget": 20, "percent": 5}


@pytest.mark.parametrize("overlap", [1, 2, 3])
def test_with_any_overlap_an_annotator_meets_every_person_once(
    new_campaign: Callable[..., Campaign], overlap: int
) -> None:
    with housed(new_campaign(budget=24, overlap=overlap)) as house:
        met: dict[str, list[str]] = {"maria": [], "bob": []}
        people = {name: house.enter(name) for name in met}
        for step in range(12):
            for name, client in people.items():
                held = turn(client)["questions"]
                assert len({case["row_id"] for case in held}) == len(held)
                given = answer(client, held[0]["id"], key=f"{name} {step}").json()["receipt"]
                assert (given["late"], given["counted"]) == (False, True)
                met[name].append(held[0]["row_id"])
        assert [len(set(rows)) for rows in met.values()] == [12, 12]
        assert len(set(met["maria"]) & set(met["bob"])) == (0 if overlap == 1 else 12)
        assert house.campaign.status().answered == 24


def test_a_case_has_titles_units_and_kinds(house: House) -> None:
    case = turn(house.enter())["questions"][0]
    fields = {field["name"]: field for field in case["fields"]}
    assert fields["age (years)"]["title"] == "Age"
    assert fields["age (years)"]["unit"] == "years"
    assert fields["hours_per_week (h)"]["title"] == "Hours per week"
    assert [fields[name]["kind"] for name in ("age (years)", "education", "cover_letter")] == ["number", "text", "long"]
    assert case["label"] is None
    assert case["picture"] is None
    assert case["row_id"].startswith("person ")
    assert 1700 < case["expires_in"] <= 1800


def test_the_same_key_is_one_answer_and_a_second_answer_is_a_conflict(house: House) -> None:
    maria = house.enter()
    question = turn(maria)["questions"][0]["id"]
    assert answer(maria, question, key="one").json()["receipt"]["repeated"] is False
    assert answer(maria, question, key="one").json()["receipt"]["repeated"] is True
    assert answer(maria, question, GROUPS[1], key="two").status_code == 409
    assert answer(maria, question, GROUPS[1], key="one").status_code == 409
    assert house.campaign.status().answered == 1


def test_keys_of_two_annotators_do_not_meet(house: House) -> None:
    maria, bob = house.enter("maria"), house.enter("bob")
    assert answer(maria, turn(maria)["questions"][0]["id"], key="same").status_code == 200
    assert answer(bob, turn(bob)["questions"][0]["id"], key="same").status_code == 200
    assert house.campaign.status().answered == 2


@pytest.mark.parametrize("what", ["cannot_tell", "declined"])
def test_outcomes_without_a_group_are_answers(house: House, what: str) -> None:
    maria = house.enter()
    assert answer(maria, turn(maria)["questions"][0]["id"], what).status_code == 200
    assert getattr(house.campaign.status(), what) == 1
    assert maria.get("/api/v1/answers").json()["answers"][0]["answer"] == what


def test_an_unknown_group_is_refused_without_being_repeated(house: House) -> None:
    maria = house.enter()
    refused = answer(maria, turn(maria)["questions"][0]["id"], "Nachtigall")
    assert refused.status_code == 422
    assert "Nachtigall" not in refused.text


def test_skip_undo_and_correction(house: House) -> None:
    maria = house.enter()
    cases = turn(maria)["questions"]
    first, second = (case["id"] for case in cases)
    skipped = maria.post(f"/api/v1/questions/{first}/skip", json={"key": "s"}).json()
    assert skipped["given_back"]
    assert skipped["turn"]["questions"][0]["id"] == second
    answer(maria, second, GROUPS[0], "a")
    undone = maria.post("/api/v1/undo", json={"key": "u"}).json()
    assert undone["question"]["row_id"] == cases[1]["row_id"]
    assert undone["turn"]["questions"][0]["id"] == undone["question"]["id"]
    assert len(undone["turn"]["questions"]) == 2
    answer(maria, undone["question"]["id"], GROUPS[0], "b")
    corrected = maria.post(
        f"/api/v1/questions/{undone['question']['id']}/correction", json={"answer": GROUPS[1], "key": "c"}
    )
    assert corrected.status_code == 200
    mine = maria.get("/api/v1/answers").json()["answers"]
    assert [entry["answer"] for entry in mine] == [GROUPS[1]]
    assert house.campaign.status().answered == 1


def test_an_undo_repeated_with_its_key_takes_back_one_answer_only(house: House) -> None:
    maria = house.enter()
    for key in "ab":
        answer(maria, turn(maria)["questions"][0]["id"], key=key)
    for _ in range(3):
        assert maria.post("/api/v1/undo", json={"key": "u"}).status_code == 200
    assert house.campaign.status().answered == 1


def test_the_last_ten_answers_are_ones_own_newest_first(house: House) -> None:
    maria, bob = house.enter("maria"), house.enter("bob")
    given = []
    for number in range(12):
        question = turn(maria)["questions"][0]
        answer(maria, question["id"], GROUPS[number % 2], f"k{number}")
        given.append((question["id"], GROUPS[number % 2]))
    answer(bob, turn(bob)["questions"][0]["id"])
    mine = maria.get("/api/v1/answers").json()["answers"]
    assert [(entry["question"], entry["answer"]) for entry in mine] == given[:-11:-1]
    assert len(bob.get("/api/v1/answers").json()["answers"]) == 1


def test_a_case_can_be_looked_at_again_after_it_was_answered(house: House) -> None:
    maria = house.enter()
    case = turn(maria)["questions"][0]
    answer(maria, case["id"])
    again = maria.get(f"/api/v1/questions/{case['id']}").json()
    assert again["fields"] == case["fields"]


def test_waiting_says_how_many_questions_are_with_others_and_until_when(
    new_campaign: Callable[..., Campaign],
) -> None:
    with housed(new_campaign(budget=2, lease_seconds=24_000)) as house:
        turn(house.enter("maria"))
        waiting = turn(house.enter("bob"), "wait")
    assert waiting["questions"] == []
    assert waiting["with_others"] == 2
    assert 20_000 < waiting["retry_after"] <= 24_000


def test_a_lease_that_ran_out_comes_back_to_whoever_asks(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(budget=1)) as house:
        maria, bob = house.enter("maria"), house.enter("bob")
        question = turn(maria)["questions"][0]
        assert turn(bob, "wait")["questions"] == []
        house.campaign.store.skew = lambda: 1_801_000  # half an hour later
        found = until(lambda: bob.post("/api/v1/turn", json={}).json()["questions"])
        assert found[0]["row_id"] == question["row_id"]
        late = answer(maria, question["id"]).json()["receipt"]
        assert (late["late"], late["counted"]) == (True, False)


def test_states_tell_the_truth(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(budget=2)) as house:
        maria = house.enter()
        question = turn(maria)["questions"][0]["id"]
        house.campaign.owner.pause()
        assert turn(maria, "paused")["questions"] == []
        paused = answer(maria, question)
        assert paused.status_code == 200
        assert paused.json()["turn"]["state"] == "paused"
        house.campaign.owner.pause(False)
        done = answer(maria, turn(maria)["questions"][0]["id"], key="last").json()["turn"]
        assert done["state"] == "done"
        assert maria.get("/api/v1/progress").json()["state"] == "done"
        house.campaign.owner.extend(5)
        house.campaign.owner.finish()
        assert turn(maria, "finished")["questions"] == []


def test_a_pool_asked_through_is_exhausted(new_campaign: Callable[..., Campaign]) -> None:
    campaign = new_campaign(rows=4, budget=4)
    with housed(campaign) as house:
        maria = house.enter()
        for key in "abcd":
            answer(maria, turn(maria)["questions"][0]["id"], key=key)
        campaign.journal.submit(lambda desk: desk.append("budget", {"budget": 9}))
        assert turn(maria, "exhausted")["questions"] == []


def test_guidelines_and_legal_basis_are_told(house: House) -> None:
    about = house.enter().get("/api/v1/campaign").json()
    assert about["guidelines"] == "Decide by the application alone."
    assert about["legal_basis"] == "Consent, Art. 9(2)(a)"
    assert about["groups"] == list(GROUPS)
    assert about["reminders"] == []


def test_a_program_annotates_with_a_token_alone(house: House) -> None:
    robot = house.program()
    question = turn(robot)["questions"][0]["id"]
    assert answer(robot, question).status_code == 200
    assert robot.get("/api/v1/me").json()["name"] == "robot"


def test_the_owner_may_answer_too(house: House) -> None:
    owner = house.owner()
    assert answer(owner, turn(owner)["questions"][0]["id"]).status_code == 200
    assert [report.name for report in house.campaign.owner.annotators()] == ["owner"]


def test_two_servers_of_one_campaign_share_sessions_and_leases(house: House) -> None:
    maria = house.enter()
    first = turn(maria)["questions"]
    other = Campaign.open(house.campaign.store.url, engine=web_people.build_quick)
    try:
        with housed(other) as elsewhere:
            again = elsewhere.stranger()
            again.headers["X-Apod"] = "1"
            again.cookies = maria.cookies
            assert [q["id"] for q in turn(again)["questions"]] == [q["id"] for q in first]
    finally:
        other.close()


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
