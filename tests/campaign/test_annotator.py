"""Several questions assigned to one annotator, pausing, and a page that never waits for numerics; on both databases."""

from __future__ import annotations

import threading

import pytest
from typer.testing import CliRunner

from apod.campaign import Campaign, Question
from apod.campaign.errors import NotFound, NotYours
from apod.cli import build_app
from apod.errors import BudgetError
from apod.testing.engines import GROUPS, Workshop, group_of


def prepared(workshop: Workshop, **settings: object) -> Campaign:
    campaign = workshop.create(**settings)
    campaign.refitter.ahead = None  # as many as a server has ready
    campaign.refitter.supply()
    return campaign


def test_the_same_questions_come_again_until_they_are_answered(workshop: Workshop) -> None:
    campaign = prepared(workshop)
    first = campaign.annotator("a").hand(2)
    assert campaign.annotator("a").hand(2).questions == first.questions
    assert campaign.ask("a") == first.questions[0]
    campaign.tell(first.questions[0], GROUPS[0])
    second = campaign.annotator("a").hand(2)
    assert second.questions[0] == first.questions[1]
    assert second.questions[1] not in first.questions


def test_answering_the_second_question_first_keeps_the_first(workshop: Workshop) -> None:
    campaign = prepared(workshop)
    current, following = campaign.annotator("a").hand(2).questions
    campaign.tell(following, GROUPS[0])
    assert campaign.annotator("a").hand(2).questions[0] == current


def test_the_budget_holds_with_questions_held_ahead(workshop: Workshop) -> None:
    campaign = prepared(workshop, budget=5)
    hands = [campaign.annotator(name).hand(2) for name in "abcd"]
    assert [len(hand.questions) for hand in hands] == [2, 2, 1, 0]
    assert hands[3].why == "wait"
    assert hands[3].with_others == 5
    assert hands[3].retry_after is not None
    for name, hand in zip("abcd", hands, strict=True):
        for question in hand.questions:
            campaign.tell(question, group_of(question.row), annotator=name)
    assert campaign.status().answered == 5
    assert campaign.annotator("d").hand(2).why == "done"


def test_undo_gives_back_what_was_held_ahead_and_asks_the_undone_question_first(workshop: Workshop) -> None:
    campaign = prepared(workshop)
    answered = campaign.annotator("a").hand(2).questions[0]
    campaign.tell(answered, GROUPS[0])
    held = campaign.annotator("a").hand(2).questions
    again = campaign.annotator("a").undo()
    assert again is not None
    assert again.row == answered.row
    hand = campaign.annotator("a").hand(2)
    assert hand.questions[0] == again
    assert hand.questions[1].row == held[0].row
    assert campaign.status().pending == 2


def test_no_question_is_in_two_hands_when_many_ask_at_once(workshop: Workshop) -> None:
    campaign = prepared(workshop, budget=60)
    held: list[Question] = []

    def work(name: str) -> None:
        held.extend(campaign.annotator(name).hand(3).questions)

    threads = [threading.Thread(target=work, args=(f"a{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 36
    assert len({question.row for question in held}) == 36


def test_a_page_is_told_that_questions_are_being_prepared(workshop: Workshop) -> None:
    campaign = workshop.create()
    assert campaign.annotator("a").hand().why == "preparing"
    assert campaign.annotator("a").hand().retry_after is not None
    assert campaign._numerics is None, "the numerics were built for a page"
    assert campaign.refitter.top_up()
    assert campaign.annotator("a").hand().why == "question"


def test_proposals_are_made_before_anybody_waits_and_not_again_when_the_pool_is_used_up(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=3, budget=3)
    assert campaign.refitter.top_up()
    assert not campaign.refitter.top_up()
    hand = campaign.annotator("a").hand(3)
    assert len(hand.questions) == 3
    for question in hand.questions:
        campaign.tell(question, GROUPS[0])
    assert campaign.annotator("a").hand().why == "done"
    assert not campaign.refitter.top_up()


def test_a_paused_campaign_asks_nothing_and_takes_open_answers(workshop: Workshop) -> None:
    campaign = prepared(workshop)
    question = campaign.annotator("a").hand().questions[0]
    campaign.owner.pause()
    campaign.owner.pause()
    assert campaign.annotator("a").hand().why == "paused"
    assert campaign.annotator("a").turn().why == "paused"
    assert campaign.progress().phase == "paused"
    assert campaign.status().paused
    campaign.tell(question, GROUPS[0])
    again = workshop.open()
    assert again.progress().phase == "paused"
    again.owner.pause(False)
    assert campaign.annotator("a").hand().why == "question"
    assert [entry["what"] for entry in campaign.owner.log()].count("paused") == 2
    assert campaign.owner.verify_log().ok


def test_own_answers_are_ones_own_and_what_was_erased_is_gone(workshop: Workshop) -> None:
    campaign = prepared(workshop)
    first, second = campaign.annotator("a").hand(2).questions
    campaign.tell(first, GROUPS[0])
    campaign.tell(second, "declined")
    campaign.annotator().correct(first, GROUPS[1])
    assert [(own.question, own.answer) for own in campaign.annotator("a").answers()] == [
        (second.id, "declined"),
        (first.id, GROUPS[1]),
    ]
    assert campaign.annotator("b").answers() == []
    campaign.owner.erase(row=first.row)
    assert [own.question for own in campaign.annotator("a").answers()] == [second.id]


def test_a_question_is_shown_to_the_one_it_was_put_to(workshop: Workshop) -> None:
    campaign = prepared(workshop)
    question = campaign.annotator("a").hand().questions[0]
    assert campaign.annotator("a").question(question.id) == question
    with pytest.raises(NotYours):
        campaign.annotator("b").question(question.id)
    with pytest.raises(NotFound):
        campaign.annotator("a").question("77-99")


def test_an_answer_told_again_after_its_erasure_is_said_to_be_erased(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask("anna")
    assert question is not None
    assert not campaign.tell(question, GROUPS[0]).erased
    campaign.owner.erase(question=question.id)
    again = campaign.tell(question, GROUPS[1])
    assert (again.repeated, again.erased) == (True, True)
    where = [campaign.store.url, question.id, GROUPS[1], "--files", str(on_sqlite.place.files)]
    shown = CliRunner().invoke(build_app(), ["tell", *where]).stdout
    assert shown == "This answer was erased; nothing was added.\n"


def test_with_the_budget_used_up_only_a_correction_that_costs_an_answer_more_is_refused(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=1, unanswered_costs=False)
    unknown = campaign.ask()
    assert unknown is not None
    campaign.tell(unknown, "cannot_tell")  # costs nothing
    known = campaign.ask()
    assert known is not None
    campaign.tell(known, GROUPS[0])
    campaign.annotator().correct(known, GROUPS[1])
    campaign.annotator().correct(unknown, "declined")
    with pytest.raises(BudgetError, match="would cost one more answer"):
        campaign.annotator().correct(unknown, GROUPS[0])
    assert campaign.status().answered == 1
