"""Second looks: who may decide what, what a decision does, and what it leaves. On both databases."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from apod.campaign import Campaign
from apod.campaign.errors import Conflict, NotFound, NotYours
from apod.testing.engines import GROUPS, Workshop


def ask_two(campaign: Campaign, first: str, second: str) -> int:
    """Two opinions on one row; which."""
    one, two = campaign.ask("a"), campaign.ask("b")
    assert one is not None
    assert two is not None
    assert one.row == two.row
    campaign.tell(one, first)
    campaign.tell(two, second)
    return one.row


def test_a_disagreement_is_decided_without_names_and_the_decision_counts_alone(workshop: Workshop) -> None:
    campaign = workshop.create(budget=8, overlap=2)
    row = ask_two(campaign, GROUPS[0], GROUPS[1])
    agreed = ask_two(campaign, GROUPS[0], GROUPS[0])
    case = campaign.reviews.next("rita")
    assert case is not None
    assert (case.why, dict(case.opinions)) == ("disagreement", {GROUPS[1]: 1, GROUPS[0]: 1})
    assert "a" not in case.opinions
    before = campaign.reviews.summary()
    campaign.reviews.decide("rita", case.question, GROUPS[1], key="k")
    assert campaign.reviews.decide("rita", case.question, GROUPS[1], key="k").repeated
    after = workshop.open().reviews.summary()
    assert (before.waiting, after.waiting, after.decided) == (1, 0, 1)
    assert before.agreement_before is not None
    assert after.agreement_after is not None
    assert after.agreement_after > before.agreement_before == after.agreement_before
    weights = {(answer.row, answer.group): answer.weight for answer in campaign.owner.answers()}
    assert weights[row, 1] == 1.0
    assert (row, 0) not in weights
    assert weights[agreed, 0] > 0.5
    assert campaign.status().answered == 4  # a decision costs no budget
    assert campaign.owner.verify_log().ok


def test_nobody_decides_about_a_row_they_were_asked_about(workshop: Workshop) -> None:
    campaign = workshop.create(budget=8, overlap=2)
    ask_two(campaign, GROUPS[0], GROUPS[1])
    for name in ("a", "b"):
        assert campaign.reviews.next(name) is None
        with pytest.raises(NotYours):
            campaign.reviews.decide(name, 1, GROUPS[0])
    assert campaign.reviews.next("rita") is not None


def test_a_question_nobody_could_tell_waits_and_may_be_left_at_that(workshop: Workshop) -> None:
    campaign = workshop.create(budget=4)
    question = campaign.ask("a")
    assert question is not None
    campaign.tell(question, "cannot_tell")
    case = campaign.reviews.next("rita")
    assert case is not None
    assert case.why == "cannot_tell"
    campaign.reviews.decide("rita", case.question, "cannot_tell")
    assert campaign.reviews.next("rita") is None
    assert campaign.owner.answers() == ()


def test_one_decision_stands_until_its_reviewer_or_a_new_opinion_changes_it(workshop: Workshop) -> None:
    campaign = workshop.create(budget=8, overlap=2)
    row = ask_two(campaign, GROUPS[0], GROUPS[1])
    campaign.reviews.decide("rita", 1, GROUPS[0])
    with pytest.raises(Conflict):
        campaign.reviews.decide("sam", 1, GROUPS[1])
    campaign.reviews.decide("rita", 1, GROUPS[1])
    assert [(one.row, one.group) for one in campaign.owner.answers()] == [(row, 1)]
    with pytest.raises(NotFound):
        campaign.reviews.decide("rita", 99, GROUPS[1])


def test_erasing_an_opinion_erases_the_decision_that_rests_on_it(workshop: Workshop) -> None:
    campaign = workshop.create(budget=8, overlap=2)
    row = ask_two(campaign, GROUPS[0], GROUPS[1])
    campaign.reviews.decide("rita", 1, GROUPS[0])
    campaign.reviews.decide("rita", 1, GROUPS[1])
    campaign.owner.erase(row=row)
    assert campaign.owner.answers() == ()
    assert workshop.open().owner.verify_log().ok
    with campaign.store.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM apod_answers").scalar() == 0


def test_a_decision_is_fitted_and_leaves_the_model_it_contradicts(workshop: Workshop) -> None:
    campaign = workshop.create(budget=12, overlap=2, refit="demand")
    for _ in range(2):
        ask_two(campaign, GROUPS[0], GROUPS[0])
        ask_two(campaign, GROUPS[1], GROUPS[1])
    ask_two(campaign, GROUPS[0], GROUPS[1])
    campaign.owner.refit()
    model = campaign.status().model_answers
    case = campaign.reviews.next("rita")
    assert case is not None
    campaign.reviews.decide("rita", case.question, GROUPS[1])
    assert campaign.owner.refit()
    assert campaign.status().model_answers == model + 1
    assert campaign.status().behind == 0


def test_decisions_stand_in_exports_beside_the_answers_they_are_about(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=8, overlap=2)
    row = ask_two(campaign, GROUPS[0], GROUPS[1])
    other = ask_two(campaign, GROUPS[0], GROUPS[0])
    case = campaign.reviews.next("rita")
    assert case is not None
    campaign.reviews.decide("rita", case.question, GROUPS[1])
    for name in ("answers.csv", "answers.jsonl", "answers.parquet"):
        campaign.owner.export(tmp_path / name)
    found = pd.read_csv(tmp_path / "answers.csv").set_index("row")
    assert set(found.loc[row, "decision"]) == {GROUPS[1]}
    assert set(found.loc[row, "decided_by"]) == {"rita"}
    assert found.loc[other, "decision"].isna().all()
    assert set(pd.read_parquet(tmp_path / "answers.parquet")["decision"].dropna()) == {GROUPS[1]}
    assert campaign.owner.import_(tmp_path / "answers.csv").added == 0
    campaign.owner.erase(row=row)
    campaign.owner.export(tmp_path / "after.csv")
    assert GROUPS[1] not in (tmp_path / "after.csv").read_text()


def test_reviewers_see_the_case_as_annotators_do(on_sqlite: Workshop, tmp_path: Path) -> None:
    (tmp_path / "face.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    frame = pd.DataFrame({"age": range(20), "photo": "face.png"})
    campaign = on_sqlite.create(
        rows=20, budget=8, overlap=2, display=frame, show=["age", "photo"], image_column="photo",
        image_root=str(tmp_path), show_label=True,
    )  # fmt: skip
    question = campaign.ask("a")
    assert question is not None
    ask_two(campaign, GROUPS[0], GROUPS[1])
    case = campaign.reviews.next("rita")
    assert case is not None
    seen = (case.row_id, case.display, case.label, case.image)
    assert seen == (question.row_id, question.display, question.label, question.image)
    (tmp_path / "face.png").unlink()
    (tmp_path / "face.png").mkdir()  # what annotators saw is gone: their answers can still be decided
    case = campaign.reviews.next("rita")
    assert case is not None
    assert (case.image, case.display) == (None, question.display)
