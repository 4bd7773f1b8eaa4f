"""Somebody who sees all that the API gives an annotator cannot tell a gold question from another.

Every scenario is played on many questions. What the annotator sees of it is written down without what is about the
person on the sheet or the time of day, counts as how far they moved; then the owner's log says which were gold.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from web_people import GROUPS, House, housed, turn

from apod.campaign import Campaign
from apod.web.settings import Limits, ServeSettings

LEASE = 60
ABOUT_A_PERSON = {"row_id", "fields", "label", "picture"}
ABOUT_TIME = {"at", "expires_at", "expires_in"}
COUNTS = {"answered", "skipped", "pending", "budget"}


@dataclass
class Adversary:
    """An annotator who writes everything down."""

    house: House
    client: Any
    shift: list[int]  # the database's clock, moved by so many ms
    seen: list[Any] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)
    keys: int = 0

    def begin(self) -> dict[str, Any]:
        """The question at hand."""
        found = turn(self.client)
        self.before, self.seen = found["progress"], []
        assert len(found["questions"]) == 2
        return dict(found["questions"][0])

    def note(self, answer: Any, subject: dict[str, Any]) -> Any:
        """Write an answer of the server down."""
        body = answer.json()
        self.seen.append([answer.status_code, sorted(answer.headers.keys()), self.plain(body, subject)])
        return body

    def plain(self, body: Any, subject: dict[str, Any], path: tuple[str, ...] = ()) -> Any:
        """What is left to tell questions apart by."""
        if isinstance(body, list):
            return [self.plain(item, subject, path) for item in body]
        if not isinstance(body, dict):
            if path[-1] in COUNTS and "progress" in path:
                kept = self.before
                for name in path[path.index("progress") + 1 :]:
                    kept = kept[name]
                return body - kept  # type: ignore[operator]
            if path[-1] in ("id", "question") and body is not None:
                return int(body.split("-")[0]) - int(subject["id"].split("-")[0])
            return body
        hidden = ABOUT_A_PERSON | ABOUT_TIME | {"percent"}  # which is answered over budget, rounded
        found = {name: self.plain(item, subject, (*path, name)) for name, item in body.items() if name not in hidden}
        if "row_id" in body:
            found["same person"] = body["row_id"] == subject["row_id"]
        return found

    def send(self, path: str, subject: dict[str, Any], **body: str) -> Any:
        """Post something with a key of its own, and look at everything there is to see."""
        self.keys += 1
        found = self.note(self.client.post(f"/api/v1/{path}", json={"key": str(self.keys), **body}), subject)
        self.look(subject)
        return found

    def act(self, subject: dict[str, Any], what: str, **body: str) -> Any:
        """Post something about a question."""
        return self.send(f"questions/{subject['id']}/{what}", subject, **body)

    def look(self, subject: dict[str, Any]) -> None:
        """Everything an annotator may ask for."""
        for path in ("progress", "answers", f"questions/{subject['id']}"):
            answer = self.client.get(f"/api/v1/{path}")
            body = answer.json()
            if path == "progress":
                body = {"progress": body}
            if path == "answers":
                body = {"answers": [own for own in body["answers"] if own["row_id"] == subject["row_id"]]}
            self.seen.append([path.split("/")[0], answer.status_code, self.plain(body, subject)])
        self.note(self.client.post("/api/v1/turn", json={}), subject)

    def wait(self) -> None:
        """Let the leases run out."""
        self.shift[0] += 1000 * (LEASE + 1)

    def others_ask(self) -> None:
        """Somebody comes and answers what is free."""
        self.keys += 1
        found = self.house.campaign.annotator(f"carl {self.keys}").hand(3).questions
        assert len(found) == 3
        for question in found:
            self.house.campaign.tell(question, GROUPS[0])


def answers(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "answer", answer=GROUPS[0])


def cannot_tell(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "answer", answer="cannot_tell")


def changes_their_mind(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "answer", answer="declined")
    one.act(case, "answer", answer=GROUPS[1])  # a conflict
    one.act(case, "correction", answer=GROUPS[1])
    again = one.send("undo", case)["question"]
    one.act(again, "answer", answer=GROUPS[0])


def skips(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "skip")


def skips_and_takes_it_back(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "skip")
    again = one.send("undo", case)["question"]
    one.act(again, "answer", answer=GROUPS[0])


def skips_and_takes_it_back_after_others_asked(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "skip")
    one.others_ask()
    assert one.send("undo", case)["question"] is None


def undoes_the_answer_before(one: Adversary, case: dict[str, Any]) -> None:
    one.act(case, "answer", answer=GROUPS[0])
    following = one.begin()  # shown, and waits while the answer is taken back
    again = one.send("undo", following)["question"]
    one.act(again, "answer", answer=GROUPS[1])
    assert turn(one.client)["questions"][0]["row_id"] == following["row_id"]


def comes_back_late(one: Adversary, case: dict[str, Any]) -> None:
    one.wait()
    one.look(case)
    again = turn(one.client)["questions"][0]
    assert again["row_id"] == case["row_id"]
    one.act(again, "answer", answer=GROUPS[0])


def answers_late(one: Adversary, case: dict[str, Any]) -> None:
    one.wait()
    told = one.act(case, "answer", answer=GROUPS[0])
    assert (told["receipt"]["late"], told["receipt"]["counted"]) == (True, True)
    again = one.send("undo", case)["question"]
    one.act(again, "answer", answer=GROUPS[0])


def answers_late_after_others_asked(one: Adversary, case: dict[str, Any]) -> None:
    one.wait()
    one.others_ask()
    told = one.act(case, "answer", answer=GROUPS[0])
    assert (told["receipt"]["late"], told["receipt"]["counted"]) == (True, False)
    one.send("undo", case)


SCENARIOS = (
    answers, cannot_tell, changes_their_mind, skips, skips_and_takes_it_back,
    skips_and_takes_it_back_after_others_asked, undoes_the_answer_before, comes_back_late, answers_late,
    answers_late_after_others_asked,
)  # fmt: skip


@contextmanager
def adversary(new_campaign: Callable[..., Campaign], **settings: Any) -> Iterator[Adversary]:
    gold = {row: GROUPS[row % 2] for row in range(0, 200, 4)}
    options = {"rows": 400, "budget": 300, "gold": gold, "gold_every": 2, "lease_seconds": LEASE, "refit": "demand"}
    campaign = new_campaign(**(options | settings))
    shift = [0]
    campaign.store.skew = lambda: shift[0]
    campaign.refitter.ahead = None
    campaign.refitter.supply()
    for number in range(10):  # how much is expected in all depends on how many there are
        for question in campaign.annotator(f"colleague {number}").hand(1).questions:
            campaign.tell(question, GROUPS[0])
    with housed(campaign, ServeSettings(limits=Limits(burst=100_000))) as house:
        yield Adversary(house, house.enter(), shift)


OVERLAP = {"overlap": 2, "audit_share": 0.4}
PLAYED = [(scenario, settings) for scenario in SCENARIOS for settings in ({}, OVERLAP, {"unanswered_costs": False})]
ALONE = [played for played in PLAYED if played[1] != OVERLAP or "others" not in played[0].__name__]
"""With overlap it depends on the others' questions too whether one that was left is theirs now."""


@pytest.mark.parametrize(("scenario", "settings"), ALONE, ids=lambda item: getattr(item, "__name__", str(item)))
def test_gold_questions_cannot_be_told_apart(
    new_campaign: Callable[..., Campaign], scenario: Callable[[Adversary, dict[str, Any]], None], settings: Any
) -> None:
    with adversary(new_campaign, **settings) as one:
        written: dict[str, str] = {}
        for _ in range(14):
            case = one.begin()
            scenario(one, case)
            written[case["id"]] = json.dumps(one.seen, sort_keys=True)
        purposes = {
            entry["id"]: entry["purpose"] for entry in one.house.campaign.owner.log() if entry["what"] == "asked"
        }
    kinds = defaultdict(set)
    for question, seen in written.items():
        kinds[purposes[question]].add(seen)
    assert kinds.keys() >= {"gold", "training"}
    assert len(set.union(*kinds.values())) == 1, _difference(kinds)


def _difference(kinds: dict[str, set[str]]) -> list[str]:
    """Where what was seen differs, for whoever has to mend it."""
    found = [(kind, json.dumps(json.loads(seen), indent=1).splitlines()) for kind in kinds for seen in kinds[kind]]
    return [
        f"{kind}: {a} | {b}" for kind, lines in found[1:] for a, b in zip(found[0][1], lines, strict=False) if a != b
    ][:20]
