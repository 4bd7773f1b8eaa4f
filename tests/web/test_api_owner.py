"""What the owner's page can do: watch, choose, pause, let people in, download."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime

import httpx2
import pandas as pd
import pytest
import web_people
from web_people import GROUPS, STRENGTHS, House, Live, housed, live, turn, until

from apod.campaign import Campaign
from apod.web import stream as stream_module
from apod.web.limits import Limits
from apod.web.settings import ServeSettings


def annotate(client, count: int) -> None:
    for _ in range(count):
        question = turn(client)["questions"][0]
        group = GROUPS[int(question["row_id"].split()[1]) % 2]
        body = {"answer": group, "key": question["id"]}
        assert client.post(f"/api/v1/questions/{question['id']}/answer", json=body).status_code == 200


def fitted(house: House, answers: int) -> None:
    until(lambda: house.campaign.status().model_answers == answers)


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
            for item in house.campaign.answers()
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
    assert found["campaign"]["remaining"] == 0  # two are in maria's hands
    assert found["pace"]["seconds_left"] > 0


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
    assert house.campaign.log()[-1]["what"] == "chosen"
    assert owner.put("/api/v1/operating-point", json={"strength": None}).json() == {"chosen": None}


def test_erasing_an_answer_erases_what_was_measured_with_it(house: House) -> None:
    maria = house.enter()
    annotate(maria, 1)
    fitted(house, 1)
    annotate(maria, 1)
    fitted(house, 2)
    row = house.campaign.answers()[1].row
    house.campaign.erase(row=row)
    kept = house.owner().get("/api/v1/dashboard").json()["history"]
    assert [entry["answers"] for entry in kept if entry["answers"] > 1] == []


def test_pausing_and_going_on(house: House) -> None:
    owner, maria = house.owner(), house.enter()
    assert owner.put("/api/v1/state", json={"state": "paused"}).json() == {"state": "paused"}
    turn(maria, "paused")
    assert owner.put("/api/v1/state", json={"state": "open"}).json() == {"state": "open"}
    turn(maria)
    assert [entry["what"] for entry in house.campaign.log()].count("paused") == 2


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


def test_a_download_that_cannot_be_built_says_why(house: House) -> None:
    owner = house.owner()
    assert owner.get("/api/v1/downloads/classifier").json()["state"] == "none"
    assert owner.get("/api/v1/downloads/classifier/file").status_code == 404
    assert owner.post("/api/v1/downloads/classifier", json={}).status_code == 202
    found = until(lambda: _done(owner), seconds=600)
    assert found["state"] == "failed"
    assert "fewer than two groups" in found["message"]


@pytest.mark.slow
def test_the_report_can_be_downloaded(house: House) -> None:
    annotate(house.enter(), 2)
    owner = house.owner()
    assert owner.post("/api/v1/downloads/report", json={}).json()["state"] == "running"
    found = until(lambda: _done(owner, "report"), seconds=600)
    assert (found["state"], found["answers"], found["stale"]) == ("ready", 2, False)
    answer = owner.get("/api/v1/downloads/report/file")
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.text.lower().startswith("<!doctype html>")
    annotate(house.enter(), 1)
    assert owner.get("/api/v1/downloads/report").json()["stale"] is True


def _done(owner, what: str = "classifier") -> object:
    found = owner.get(f"/api/v1/downloads/{what}").json()
    return None if found["state"] == "running" else found


def stream(server: Live, role: str, lines: int) -> list[str]:
    """The first lines of a visitor's event stream."""
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20) as client:
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
    head = server.campaign.head

    def fail() -> int:
        raise RuntimeError(f"{GROUPS[0]} is in the way")

    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=60) as client:
        client.post("/api/v1/session", json={"token": server.link("owner", "owner").split("#")[1]})
        with client.stream("GET", "/api/v1/events") as answer:
            lines = (line for line in answer.iter_lines() if line)
            assert "event: progress" in lines
            began = time.time()
            monkeypatch.setattr(server.campaign, "head", fail)
            assert "event: stale" in lines
            since = datetime.fromisoformat(json.loads(next(lines).removeprefix("data: "))["since"])
            assert began - 2 <= since.timestamp() <= time.time()
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

    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20) as client:
        client.post("/api/v1/session", json={"token": server.link(role="owner").split("#")[1]})
        with ExitStack() as tabs:
            held = [tabs.enter_context(client.stream("GET", "/api/v1/events")).iter_lines() for _ in range(8)]
            assert {next(lines) for lines in held} == {"retry: 2000"}
            monkeypatch.setattr(Campaign, "head", head)
            time.sleep(2.0)
            seen = len(looks)
        assert 1 <= seen <= 6  # twice a second, not eight times as often
        until(lambda: looks[-1] < time.monotonic() - 1.5)  # nobody watches: nobody looks


def test_one_visitor_may_open_so_many_streams(new_campaign: Callable[..., Campaign]) -> None:
    settings = ServeSettings(limits=Limits(streams=2))
    with (
        live(new_campaign(), settings) as server,
        httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20) as client,
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


def test_a_server_loads_no_numerics() -> None:
    code = "import sys, apod.web.server; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_revoked_session_is_told_goodbye(server: Live) -> None:
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20) as client:
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        owner = httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20)
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
    monkeypatch.setattr(stream_module, "BEAT_SECONDS", 3600.0)  # the check now and then must not be what ends it
    elsewhere = Campaign.open(server.campaign.store.url, engine=web_people.build_quick)
    with httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20) as client:
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        with client.stream("GET", "/api/v1/events") as answer:
            heard = []
            for line in answer.iter_lines():
                heard.append(line)
                if line == "event: progress":
                    assert elsewhere.access.revoke_name("maria") == 1
                if line.startswith("event: bye"):
                    break
        assert heard[-1] == "event: bye"
    elsewhere.close()


def test_a_server_that_ends_says_goodbye_and_does_not_hang(new_campaign: Callable[..., Campaign]) -> None:
    with live(new_campaign()) as server:
        client = httpx2.Client(base_url=server.origin, headers={"X-Apod": "1"}, timeout=20)
        client.post("/api/v1/session", json={"token": server.link().split("#")[1]})
        held = client.stream("GET", "/api/v1/events")
        answer = held.__enter__()
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
    rest = list(lines)
    assert "event: bye" in rest
    client.close()
