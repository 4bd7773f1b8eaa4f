"""What the owner's page can do: watch, choose, pause, let people in, download."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from web_people import GROUPS, STRENGTHS, House, annotate, build_quick, fitted, housed, people, turn

from apod.campaign import Campaign
from support.waiting import until


def test_the_dashboard_moves_with_the_answers(house: House) -> None:
    owner = house.owner()
    empty = owner.get("/api/v1/dashboard").json()
    assert (empty["history"], empty["strengths"], empty["chosen"]) == ([], [], None)
    maria = house.enter()
    annotate(maria, 3)
    fitted(house, 3)
    first = owner.get("/api/v1/dashboard").json()
    annotate(maria, 2)
    fitted(house, 5)
    found = owner.get("/api/v1/dashboard").json()
    assert [found["history"][-1]["answers"], first["history"][-1]["answers"]] == [5, 3]
    assert found["history"][: len(first["history"]) - 1] == first["history"][:-1]
    assert found["strengths"] == list(STRENGTHS)
    assert found["history"][-1]["curve"][1]["gap"] == pytest.approx(0.3 / (1 + 5 * 0.5))
    assert found["operating"] is None  # nobody chose, and no classifier was built
    assert (found["campaign"]["audit_planned"], found["campaign"]["audit_needed"]) == (0, 40)
    assert found["campaign"]["answered"] == 5


def test_a_dashboard_that_stands_still_because_models_cannot_be_measured_says_so(house: House) -> None:
    owner, maria = house.owner(), house.enter()
    annotate(maria, 2)
    fitted(house, 2)
    engine = house.campaign.engine()
    working = engine.measure  # type: ignore[attr-defined]
    engine.measure = lambda model, answers: 1 / 0  # type: ignore[attr-defined]
    annotate(maria, 1)
    fitted(house, 3)
    until(lambda: house.campaign.status().measuring_failure)
    found = owner.get("/api/v1/dashboard").json()
    assert found["campaign"]["measuring_failure"] == "ZeroDivisionError"
    assert found["campaign"]["refit_failures"] == 0
    assert found["history"][-1]["answers"] == 2  # since then
    engine.measure = working  # type: ignore[attr-defined]
    annotate(maria, 1)
    until(lambda: owner.get("/api/v1/dashboard").json()["history"][-1]["answers"] == 4)
    until(lambda: owner.get("/api/v1/dashboard").json()["campaign"]["measuring_failure"] is None)


def test_subgroup_counts_are_those_of_the_answers(house: House) -> None:
    annotate(house.enter(), 8)
    found = house.owner().get("/api/v1/dashboard").json()["subgroups"]
    assert found["answers"] == list(range(1, 9))
    labels = house.campaign.materials.labels()
    names = house.campaign.settings.label_names
    for entry in found["counts"]:
        cell = [
            (GROUPS[item.group], names[labels[item.row]]) == (entry["group"], entry["label"])
            for item in house.campaign.owner.answers()
        ]
        assert entry["counts"] == [sum(cell[:n]) for n in range(1, 9)]


def test_annotators_are_told_with_pace_and_agreement(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(budget=10, overlap=2)) as house:
        for name in ("maria", "bob"):
            annotate(house.enter(name), 4)
        found = house.owner().get("/api/v1/dashboard").json()
    assert [entry["name"] for entry in found["annotators"]] == ["bob", "maria"]
    bob = found["annotators"][0]
    assert bob["answered"] == 4
    assert bob["per_hour"] > 0
    assert bob["kappa"] == {"maria": 1.0}
    assert found["campaign"]["agreement"] == 1.0
    assert found["pace"]["per_hour"] > 0
    assert found["campaign"]["remaining"] == 0  # two are assigned to maria
    assert found["pace"]["seconds_left"] == pytest.approx(2 / found["pace"]["per_hour"] * 3600, abs=0.1)


def test_whom_we_asked_and_why_is_told_with_the_newest_first(house: House) -> None:
    annotate(house.enter(), 2)
    asked = house.owner().get("/api/v1/dashboard").json()["asked"]
    assert [entry["question"] for entry in asked] == sorted((entry["question"] for entry in asked), reverse=True)
    assert asked[-1]["rule"] == "quick"
    assert (asked[-1]["group"], asked[-1]["distance"], asked[-1]["answered"]) == (GROUPS[0], 1.5, True)
    assert asked[0]["answered"] is False


def test_the_map_comes_with_the_first_model_and_is_bounded(new_campaign: Callable[..., Campaign]) -> None:
    with housed(new_campaign(rows=2500)) as house:
        owner = house.owner()
        assert owner.get("/api/v1/dashboard/map").status_code == 404
        annotate(house.enter(), 2)
        fitted(house, 2)
        found = owner.get("/api/v1/dashboard/map").json()
    assert (found["rows"], found["shown"], len(found["points"]["x"]), len(found["points"]["label"])) == (
        2500,
        *[2000] * 3,
    )
    assert [answer is not None for answer in found["asked"]["answer"]].count(True) == 2
    rows = [int(name.split()[1]) for name in found["asked"]["row_id"]]
    assert found["asked"]["x"] == [float(row) for row in rows]
    assert found["asked"]["y"] == [float(row % 7) for row in rows]


def test_the_operating_point_is_one_of_the_strengths_and_is_kept(house: House) -> None:
    owner = house.owner()
    annotate(house.enter(), 2)
    fitted(house, 2)
    assert owner.put("/api/v1/operating-point", json={"strength": 0.5}).json() == {"chosen": 0.5}
    assert owner.put("/api/v1/operating-point", json={"strength": 0.7}).status_code == 422
    assert owner.get("/api/v1/dashboard").json()["chosen"] == 0.5
    assert house.campaign.owner.log()[-1]["what"] == "chosen"
    assert owner.put("/api/v1/operating-point", json={"strength": None}).json() == {"chosen": None}


def test_erasing_an_answer_erases_what_was_measured_with_it(house: House) -> None:
    maria = house.enter()
    annotate(maria, 1)
    fitted(house, 1)
    annotate(maria, 1)
    fitted(house, 2)
    row = house.campaign.owner.answers()[1].row
    house.campaign.owner.erase(row=row)
    kept = house.owner().get("/api/v1/dashboard").json()["history"]
    assert [entry["answers"] for entry in kept if entry["answers"] > 1] == []


def test_pausing_and_going_on(house: House) -> None:
    owner, maria = house.owner(), house.enter()
    assert owner.put("/api/v1/state", json={"state": "paused"}).json() == {"state": "paused"}
    turn(maria, "paused")
    assert owner.put("/api/v1/state", json={"state": "open"}).json() == {"state": "open"}
    turn(maria)
    assert [entry["what"] for entry in house.campaign.owner.log()].count("paused") == 2


def test_inviting_gives_a_link_once_and_the_list_has_no_secrets(house: House) -> None:
    owner = house.owner()
    made = owner.post("/api/v1/access", json={"name": "bob"})
    assert made.status_code == 201
    link = made.json()["link"]
    assert link.startswith("http://127.0.0.1:8000/enter#")
    token = link.split("#")[1]
    bob = house.stranger()
    bob.headers["X-Apod"] = "1"
    assert bob.post("/api/v1/session", json={"token": token}).json()["name"] == "bob"
    listed = owner.get("/api/v1/access")
    assert token.split(".")[1] not in listed.text
    states = {(entry["name"], entry["what"]): entry["state"] for entry in listed.json()["access"]}
    assert states[("bob", "link")] == "used"
    assert states[("bob", "session")] == "active"
    assert [entry["name"] for entry in listed.json()["access"] if entry["current"]] == ["owner"]


def test_a_token_for_a_program_is_shown_once_and_works(house: House) -> None:
    made = house.owner().post("/api/v1/access", json={"name": "robot", "what": "token", "days": 1}).json()
    assert made["link"] is None
    robot = house.stranger()
    robot.headers["Authorization"] = f"Bearer {made['token']}"
    assert robot.get("/api/v1/me").json() | {"expires_at": ""} == {
        "role": "annotator", "name": "robot", "campaign": "hiring", "expires_at": "",
    }  # fmt: skip


@pytest.mark.parametrize(("format_", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_all_answers_can_be_downloaded_as_a_table(
    house: House, format_: str, read: Callable[..., pd.DataFrame]
) -> None:
    annotate(house.enter(), 3)
    answer = house.owner().get(f"/api/v1/export/{format_}")
    assert "attachment" in answer.headers["content-disposition"]
    table = read(io.BytesIO(answer.content))
    assert table["group"].tolist() == [GROUPS[row % 2] for row in table["row"]]
    assert len(table) == 3


def test_all_answers_can_be_downloaded_as_json(house: House) -> None:
    annotate(house.enter(), 3)
    owner = house.owner()
    lines = owner.get("/api/v1/export/jsonl").text.splitlines()
    assert [json.loads(line)["annotator"] for line in lines] == ["maria"] * 3
    assert len(owner.get("/api/v1/export/label-studio").json()) == 3
    assert owner.get("/api/v1/export/pickle").status_code == 422


def test_the_owner_extends_the_budget_and_changes_what_annotators_are_told(house: House) -> None:
    owner, maria = house.owner(), house.enter()
    assert owner.put("/api/v1/budget", json={"budget": 25}).json() == {"budget": 25}
    assert owner.put("/api/v1/budget", json={"budget": 10**6}).status_code == 409
    before = maria.get("/api/v1/campaign").json()
    told = {"guidelines": "**Read** the letter.", "kind": "records", "descriptions": {"education": "highest"}}
    assert owner.put("/api/v1/settings", json=told).json()["guidelines"] == "**Read** the letter."
    after = maria.get("/api/v1/campaign").json()
    assert (after["guidelines"], after["kind"], after["descriptions"]) == tuple(told.values())
    assert after["version"] == before["version"] + 1
    assert after["legal_basis"] == before["legal_basis"]
    assert owner.get("/api/v1/settings").json()["columns"]
    assert house.campaign.status().budget == 25


def test_ending_and_archiving_from_the_dashboard(house: House) -> None:
    owner = house.owner()
    assert owner.put("/api/v1/state", json={"state": "finished"}).json() == {"state": "finished"}
    assert owner.put("/api/v1/state", json={"state": "open"}).json() == {"state": "finished"}  # ended is ended
    assert owner.put("/api/v1/state", json={"state": "archived"}).status_code == 200
    assert owner.get("/api/v1/me").status_code == 401
    assert house.campaign.status().archived


def test_an_owner_with_a_used_link_is_told_how_to_make_another(house: House) -> None:
    for role, said in (("owner", "apod invite"), ("annotator", "ask the owner")):
        token, client = house.link("somebody", role), house.stranger()
        client.headers["X-Apod"] = "1"
        assert client.get("/enter").status_code == 200  # looking uses nothing up
        assert client.post("/api/v1/session", json={"token": token}).status_code == 200
        again = client.post("/api/v1/session", json={"token": token})
        assert (again.status_code, said in again.json()["error"]["message"]) == (401, True)


def test_rows_are_added_over_the_page_and_asked_about(tmp_path: Path) -> None:
    frame, labels = people(40)
    table = frame.assign(hired=labels, person=[f"p{row}" for row in range(40)])
    table.to_csv(tmp_path / "people.csv", index=False)
    campaign = Campaign.create_from_table(
        tmp_path / "trial.db", tmp_path / "people.csv", label="hired", groups=GROUPS, budget=20, id_column="person",
        engine=build_quick,
    )  # fmt: skip
    with campaign, housed(campaign) as house:
        owner = house.owner()
        more = table.assign(person=[f"q{row}" for row in range(40)]).to_csv(index=False)
        done = owner.post("/api/v1/rows", json={"csv": more})
        assert (done.status_code, done.json()["rows"], done.json()["total"]) == (201, 40, 80)
        assert owner.get("/api/v1/dashboard").json()["campaign"]["rows"] == 80
        again = owner.post("/api/v1/rows", json={"csv": more})
        assert again.status_code == 422
        assert "40 ids are in the campaign already" in again.json()["error"]["message"]
        assert house.enter().post("/api/v1/rows", json={"csv": more}).status_code == 403
        assert not [path for path in campaign.files.folder.iterdir() if path.name.startswith(".new")]


def test_links_for_self_reports_are_a_file_for_the_owner_alone(house: House) -> None:
    owner = house.owner()
    found = owner.post("/api/v1/links", json={"rows": [3, 17, 3]})
    links = pd.read_csv(io.BytesIO(found.content))
    assert list(links["row"]) == [3, 17]
    token = links["link"][0].split("#")[1]
    form = house.stranger().post("/api/v1/self-report/form", json={"token": token}, headers={"X-Apod": "1"})
    assert form.status_code == 200
    assert owner.post("/api/v1/links", json={"rows": [999]}).status_code == 422
    assert house.enter().post("/api/v1/links", json={"rows": [4]}).status_code == 403
