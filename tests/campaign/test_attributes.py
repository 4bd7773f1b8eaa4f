"""Several attributes in one answer: told, undone, corrected, disagreed about, reviewed, erased one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from apod.campaign import Campaign, GroupAnswer, Question
from apod.campaign.attributes import said_by
from apod.campaign.errors import Conflict, NotFound, UnknownGroup
from apod.campaign.settings import Attribute
from apod.errors import InputError
from apod.testing.engines import Workshop

TWO = {"sex": ["Zwergelin", "Riesenhaft"], "race": ["Silberblau", "Moosgruen", "Erdbraun"]}
SEX, RACE = (tuple(names) for names in TWO.values())


@pytest.fixture
def campaign(on_sqlite: Workshop) -> Campaign:
    return on_sqlite.create(groups=TWO, budget=6)


def asked(campaign: Campaign, annotator: str = "a") -> Question:
    question = campaign.ask(annotator)
    assert question is not None
    return question


def codes(campaign: Campaign) -> set[tuple[int, int, int]]:
    return {(answer.row, answer.attribute, answer.group) for answer in campaign.owner.answers()}


def test_one_question_asks_about_all_attributes_and_costs_one_of_the_budget(campaign: Campaign) -> None:
    question = asked(campaign)
    assert [(one.name, one.groups) for one in question.attributes] == [("sex", SEX), ("race", RACE)]
    campaign.tell(question, {"sex": SEX[1], "race": RACE[2]})
    second = asked(campaign)
    campaign.tell(second, {"sex": SEX[0], "race": None})
    status = campaign.status()
    assert (status.answered, status.values_told, status.questions) == (2, 3, 2)
    by_name = {one.name: (one.told, one.cannot_tell, one.groups) for one in status.attributes}
    assert by_name == {"sex": (2, 0, SEX), "race": (1, 1, RACE)}
    assert codes(campaign) == {(question.row, 0, 1), (question.row, 1, 2), (second.row, 0, 0)}
    assert campaign.owner.verify_log().ok


def test_an_answer_names_every_attribute_by_its_own_groups(campaign: Campaign) -> None:
    question = asked(campaign)
    with pytest.raises(InputError, match="says nothing of race"):
        campaign.tell(question, {"sex": SEX[0]})
    with pytest.raises(UnknownGroup):
        campaign.tell(question, {"sex": RACE[0], "race": RACE[0]})
    with pytest.raises(InputError, match="does not ask about 'age'"):
        campaign.tell(question, {"sex": SEX[0], "race": None, "age": "old"})
    with pytest.raises(UnknownGroup, match="say a group of each"):
        campaign.tell(question, SEX[0])
    assert campaign.status().answered == 0


def test_the_same_answer_twice_is_one_and_another_is_a_conflict(campaign: Campaign) -> None:
    question = asked(campaign)
    campaign.tell(question, {"sex": SEX[0], "race": None})
    assert campaign.tell(question, {"sex": SEX[0], "race": "cannot_tell"}).repeated
    for other in ({"sex": SEX[0], "race": RACE[0]}, {"sex": SEX[0], "race": "declined"}, "declined"):
        with pytest.raises(Conflict):
            campaign.tell(question, other)
    assert campaign.status().events == campaign.status().events


def test_undo_takes_all_attributes_back_and_a_correction_changes_one_of_them(campaign: Campaign) -> None:
    first = asked(campaign)
    campaign.tell(first, {"sex": SEX[0], "race": RACE[0]})
    campaign.annotator("a").undo()
    assert codes(campaign) == set()
    assert (campaign.status().answered, campaign.status().values_told) == (0, 0)
    again = asked(campaign)
    assert again.row == first.row
    campaign.tell(again, {"sex": SEX[0], "race": RACE[0]})
    campaign.annotator("a").correct(again, {"sex": SEX[0], "race": RACE[1]})
    assert codes(campaign) == {(first.row, 0, 0), (first.row, 1, 1)}
    own = campaign.annotator("a").answers()
    assert [one.answer for one in own] == [{"sex": SEX[0], "race": RACE[1]}]
    assert campaign.annotator("a").correct(again, {"sex": SEX[0], "race": RACE[1]}).repeated
    assert campaign.owner.verify_log().ok


def test_declined_is_said_of_the_whole_person(campaign: Campaign) -> None:
    question = asked(campaign)
    campaign.tell(question, "declined")
    assert [one.declined for one in campaign.status().attributes] == [1, 1]
    assert campaign.status().declined == 1
    assert codes(campaign) == set()


def test_votes_are_weighed_by_a_model_of_each_attribute(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(groups=TWO, budget=24, overlap=3)
    for _ in range(8):
        held = [asked(campaign, name) for name in "abc"]
        assert len({one.row for one in held}) == 1
        for name, question in zip("abc", held, strict=True):
            race = RACE[1] if name == "c" else RACE[0]  # c is at odds with the others about race alone
            campaign.tell(question, {"sex": SEX[0], "race": race})
    by_name = {one.name: one.by_attribute for one in campaign.owner.annotators()}
    assert by_name["c"]["race"] is not None
    assert by_name["c"]["sex"] is not None
    assert by_name["c"]["race"] < 0.5 < 0.8 < by_name["c"]["sex"]
    race = [answer for answer in campaign.owner.answers() if answer.attribute == 1 and answer.group == 0]
    assert len(race) == 8
    assert min(answer.weight for answer in race) > 0.9
    sums: dict[tuple[int, int], float] = {}
    for answer in campaign.owner.answers():
        sums[answer.row, answer.attribute] = sums.get((answer.row, answer.attribute), 0) + answer.weight
    assert np.allclose(list(sums.values()), 1)
    agreement = {one.name: one.agreement for one in campaign.status().attributes}
    assert agreement["race"] is not None
    assert agreement["race"] < 0


def test_a_review_decides_the_attribute_that_is_disagreed_about(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(groups=TWO, budget=4, overlap=2)
    one, two = asked(campaign, "a"), asked(campaign, "b")
    campaign.tell(one, {"sex": SEX[0], "race": RACE[0]})
    campaign.tell(two, {"sex": SEX[0], "race": RACE[1]})
    case = campaign.reviews.next("rita")
    assert case is not None
    assert [(part.name, part.why) for part in case.attributes] == [("race", "disagreement")]
    assert dict(case.attributes[0].opinions) == {RACE[0]: 1, RACE[1]: 1}
    with pytest.raises(InputError, match="Decide race"):
        campaign.reviews.decide("rita", case.question, {"sex": SEX[0]})
    campaign.reviews.decide("rita", case.question, {"race": RACE[1]})
    assert campaign.reviews.next("rita") is None
    assert {(answer.attribute, answer.group) for answer in campaign.owner.answers() if answer.weight > 0.5} == {
        (0, 0),
        (1, 1),
    }
    assert GroupAnswer(one.row, 1, 1.0, 1) in campaign.owner.answers()
    assert campaign.owner.verify_log().ok


def test_gold_checks_annotators_about_each_attribute_that_is_known(on_sqlite: Workshop) -> None:
    gold = {3: {"sex": SEX[0], "race": RACE[0]}, 5: {"race": RACE[1]}}
    campaign = on_sqlite.create(groups=TWO, budget=8, gold=gold, gold_every=2)
    while (question := campaign.ask("a")) is not None:
        campaign.tell(question, {"sex": SEX[0], "race": RACE[2]})
    (report,) = campaign.owner.annotators()
    assert report.gold_answered == 2
    assert report.by_attribute["sex"] is not None
    assert report.by_attribute["race"] is not None
    assert report.by_attribute["race"] < report.by_attribute["sex"]
    assert campaign.status().answered == 8


def test_one_attribute_of_a_row_is_erased_and_the_other_stays(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create(groups=TWO, budget=6)
    first, second = asked(campaign), None
    campaign.tell(first, {"sex": SEX[0], "race": RACE[0]})
    second = asked(campaign)
    campaign.tell(second, {"sex": SEX[1], "race": RACE[2]})
    before = stored(tmp_path)
    done = campaign.owner.erase(row=first.row, attribute="race")
    assert (done.answers, done.overwritten) == (1, True)
    assert codes(campaign) == {(first.row, 0, 0), (second.row, 0, 1), (second.row, 1, 2)}
    check = on_sqlite.open().owner.verify_log()
    assert check.ok, check.problems
    after = stored(tmp_path)
    gone = json.loads(before[0])["parts"][1]["salt"]
    assert gone not in "".join(after)
    assert gone.encode() not in (tmp_path / "trial.db").read_bytes()
    assert set(json.loads(after[0])["parts"][1]) == {"commitment"}
    assert campaign.annotator("a").answers()[1].answer == {"sex": SEX[0], "race": None}
    with pytest.raises(Conflict, match="erased"):
        campaign.annotator("a").correct(first, {"sex": SEX[0], "race": RACE[1]})
    assert campaign.tell(first, {"sex": SEX[0], "race": RACE[0]}).repeated
    with pytest.raises(NotFound):
        campaign.owner.erase(row=first.row, attribute="race")
    campaign.owner.erase(row=first.row, attribute="sex")  # what was left
    assert codes(campaign) == {(second.row, 0, 1), (second.row, 1, 2)}
    assert on_sqlite.open().owner.verify_log().ok
    with pytest.raises(InputError, match="does not ask about 'age'"):
        campaign.owner.erase(row=second.row, attribute="age")


def decided_race(on_sqlite: Workshop) -> tuple[Campaign, int]:
    """Two people could not tell the race, a reviewer could; the row."""
    campaign = on_sqlite.create(groups=TWO, budget=4, overlap=2)
    first, second = asked(campaign, "a"), asked(campaign, "b")
    campaign.tell(first, {"sex": SEX[0], "race": None})
    campaign.tell(second, {"sex": SEX[0], "race": None})
    campaign.reviews.decide("rita", 1, {"race": RACE[2]})
    return campaign, first.row


def test_erasing_an_attribute_erases_what_a_reviewer_decided_where_no_answer_told_it(on_sqlite: Workshop) -> None:
    campaign, row = decided_race(on_sqlite)
    campaign.owner.refit()
    model = campaign.status().model
    assert (row, 1, 2) in codes(campaign)
    done = campaign.owner.erase(row=row, attribute="race")
    assert (done.answers, done.models) == (1, int(model is not None))
    assert {attribute for _, attribute, _ in codes(campaign)} == {0}
    assert on_sqlite.open().owner.verify_log().ok
    with pytest.raises(NotFound):
        campaign.owner.erase(row=row, attribute="race")


def test_what_was_erased_is_neither_asked_for_again_nor_decided(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(groups=TWO, budget=4, overlap=2)
    first, second = asked(campaign, "a"), asked(campaign, "b")
    campaign.tell(first, {"sex": SEX[0], "race": RACE[0]})
    campaign.tell(second, {"sex": SEX[1], "race": None})
    campaign.owner.erase(row=first.row, attribute="race")
    case = campaign.reviews.next("rita")
    assert case is not None
    assert [part.name for part in case.attributes] == ["sex"]
    for answer in ({"sex": SEX[0], "race": RACE[1]}, {"sex": SEX[0], "race": None}, "cannot_tell"):
        with pytest.raises(Conflict, match="of race is erased"):
            campaign.reviews.decide("rita", case.question, answer)
    campaign.reviews.decide("rita", case.question, {"sex": SEX[0]})
    assert campaign.reviews.next("rita") is None


def test_a_decision_that_was_erased_comes_back_by_no_decision_and_no_correction(on_sqlite: Workshop) -> None:
    campaign, row = decided_race(on_sqlite)
    campaign.owner.erase(row=row, attribute="race")
    assert campaign.reviews.next("ruth") is None
    with pytest.raises(Conflict, match="erased"):
        campaign.reviews.decide("rita", 1, {"race": RACE[2]})
    question = campaign.annotator("a").answers()[0].question
    with pytest.raises(Conflict, match="erased"):
        campaign.annotator("a").correct(question, {"sex": SEX[0], "race": RACE[2]})


def test_a_blank_cell_of_a_file_says_nothing_of_its_attribute(campaign: Campaign, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        f"row,annotator,sex,race\n3,a,{SEX[0]},\n4,a,,{RACE[1]}\n5,a,{SEX[1]},cannot_tell\n"
    )
    campaign.owner.import_(tmp_path / "in.csv")
    assert [(one.told, one.cannot_tell) for one in campaign.status().attributes] == [(2, 0), (1, 1)]
    assert codes(campaign) == {(3, 0, 0), (4, 1, 1), (5, 0, 1)}
    case = campaign.reviews.next("rita")  # of all blanks, none waits for a second look
    assert case is not None
    assert [part.name for part in case.attributes] == ["race"]
    assert campaign.reviews.summary().waiting == 1


def stored(folder: Path) -> list[str]:
    import sqlite3

    with sqlite3.connect(folder / "trial.db") as connection:
        return [row[0] for row in connection.execute("SELECT value FROM apod_answers ORDER BY seq")]


def test_a_part_that_was_taken_out_without_an_erasure_is_found(on_sqlite: Workshop, tmp_path: Path) -> None:
    import sqlite3

    from apod.campaign.events import without_part

    campaign = on_sqlite.create(groups=TWO, budget=6)
    campaign.tell(asked(campaign), {"sex": SEX[0], "race": RACE[0]})
    campaign.close()
    with sqlite3.connect(tmp_path / "trial.db") as connection:
        (seq, value), *_ = connection.execute("SELECT seq, value FROM apod_answers").fetchall()
        connection.execute("UPDATE apod_answers SET value = ? WHERE seq = ?", (without_part(value, [1]), seq))
    connection.close()
    check = on_sqlite.open().owner.verify_log()
    assert not check.ok
    assert "other parts" in check.problems[0]


def test_what_is_known_of_one_attribute_leaves_the_person_to_be_asked_about_the_other(on_sqlite: Workshop) -> None:
    sex = [SEX[row % 2] if row < 100 else None for row in range(120)]
    race = [RACE[row % 3] if row < 40 else None for row in range(120)]
    campaign = on_sqlite.create(rows=120, groups=TWO, budget=80, known_groups={"sex": sex, "race": race})
    status = campaign.status()
    assert status.known == 100
    assert [one.known for one in status.attributes] == [100, 40]
    rows = set()
    while (question := campaign.ask("a")) is not None:
        rows.add(question.row)
        campaign.tell(question, {"sex": None, "race": RACE[0]})
    assert rows == set(range(40, 120))
    assert {(row, 0) for row in range(100)} <= {(row, attribute) for row, attribute, _ in codes(campaign)}


def test_a_person_reports_all_attributes_and_withdraws_one(campaign: Campaign) -> None:
    reports = campaign.owner.self_reports
    (link,) = reports.invite([7])
    form = reports.form(link.token)
    assert form is not None
    assert [one.name for one in form.attributes] == ["sex", "race"]
    code = reports.answer(link.token, {"sex": SEX[1], "race": "declined"})
    (other,) = reports.invite([9])
    second = reports.answer(other.token, {"sex": SEX[0], "race": RACE[0]})
    assert code is not None
    assert second is not None
    assert codes(campaign) == {(7, 0, 1), (9, 0, 0), (9, 1, 0)}
    campaign.owner.withdraw(second, "race")
    assert codes(campaign) == {(7, 0, 1), (9, 0, 0)}
    campaign.owner.withdraw(second)
    campaign.owner.withdraw(code)
    assert codes(campaign) == set()
    assert campaign.owner.verify_log().ok


def test_wrong_attributes_are_refused_in_a_line(on_sqlite: Workshop) -> None:
    for groups, said in (
        ({"sex": ["x", "y"], "Sex": ["a", "b"]}, "same name"),
        ({"sex": ["x", "y"], "kind": ["a", "b"]}, "cannot be called 'kind'"),
        ({"sex": ["x", "y"], "a=b": ["a", "b"]}, "cannot be called"),
        ({"sex": ["x", "y"], "race": ["a"]}, "The attribute 'race' needs at least two groups"),
        ({f"a{place}": ["x", "y"] for place in range(7)}, "7 attributes are too many"),
    ):
        with pytest.raises(InputError, match=said):
            on_sqlite.create(groups=groups)


def test_heads_refuse_several_attributes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="Heads know one attribute"):
        Campaign.create(
            tmp_path / "x.db",
            rng.normal(size=(80, 3)),
            rng.integers(0, 2, 80),
            groups=TWO,
            budget=10,
            engine_options={"preset": "paper"},
        )
    assert not (tmp_path / "x.db").exists()


def test_answers_are_typed_by_attribute() -> None:
    one = (Attribute("group", ("a", "x=y")),)
    two = (Attribute("sex", SEX), Attribute("race", RACE))
    assert said_by(one, ["a"]) == "a"
    assert said_by(one, ["x=y"]) == "x=y"
    assert said_by(one, ["cannot-tell"]) == "cannot_tell"
    assert said_by(one, ["group=a"]) == {"group": "a"}
    assert said_by(two, ["declined"]) == "declined"
    assert said_by(two, [f"sex={SEX[0]}", "race=cannot-tell"]) == {"sex": SEX[0], "race": "cannot_tell"}
    with pytest.raises(InputError, match="which attribute"):
        said_by(two, [SEX[0], RACE[0]])
    with pytest.raises(InputError, match="answered twice"):
        said_by(two, ["sex=a", "sex=b"])


def test_a_campaign_about_one_attribute_is_stored_as_before(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    assert "attributes" not in campaign.settings.to_json()
    campaign.tell(asked(campaign), "Zwergelin")
    assert stored(tmp_path) == ["0"]
    assert [(one.name, one.told) for one in campaign.status().attributes] == [("group", 1)]
