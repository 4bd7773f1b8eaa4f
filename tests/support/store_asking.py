"""The part of the store contract about questions and answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from apod.campaign import Campaign
from apod.campaign.errors import CampaignFinished, Conflict, NotFound, NotYours, UnknownGroup
from apod.errors import BudgetError, InputError
from apod.testing.engines import GROUPS, Contract, Workshop, answer_all, group_of

LEASE = 60.0
Form = Literal["NFC", "NFD"]


class AskingContract(Contract):
    """Leases, answers, budget."""

    def test_a_second_ask_returns_the_same_question_unchanged(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        first = campaign.ask("a")
        workshop.pass_time(5)
        assert first is not None
        assert campaign.ask("a") == first
        assert workshop.open().ask("a") == first

    def test_two_annotators_never_hold_the_same_row(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=5)
        rows = [campaign.annotator(name).turn().question.row for name in "abcde"]  # type: ignore[union-attr]
        assert len(set(rows)) == 5

    def test_what_remains_in_others_hands_is_waited_for_not_done(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=1, lease_seconds=LEASE)
        question = campaign.ask("a")
        turn = campaign.annotator("b").turn()
        assert (turn.question, turn.why) == (None, "wait")
        assert turn.retry_after == pytest.approx(LEASE, abs=5)
        campaign.tell(question, group_of(question.row))  # type: ignore[arg-type, union-attr]
        assert campaign.annotator("b").turn().why == "done"

    def test_the_budget_is_spent_to_the_last_answer_and_no_further(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=7)
        assert len(set(answer_all(campaign))) == 7
        status = campaign.status()
        assert (status.answered, status.pending, status.remaining, status.budget) == (7, 0, 0, 7)

    def test_an_exhausted_pool_says_so(self, workshop: Workshop) -> None:
        campaign = workshop.create(rows=6, budget=6, unanswered_costs=False)
        while (question := campaign.ask()) is not None:
            campaign.tell(question, "cannot_tell")
        assert campaign.annotator().turn().why == "exhausted"
        assert campaign.status().answered == 0

    def test_a_lease_that_ran_out_goes_to_the_next_with_a_larger_token(self, workshop: Workshop) -> None:
        campaign = workshop.create(lease_seconds=LEASE)
        gone = campaign.ask("a")
        workshop.pass_time(LEASE + 1)
        taken = campaign.ask("b")
        assert gone is not None
        assert taken is not None
        assert taken.row == gone.row
        assert int(taken.id.split("-")[1]) > int(gone.id.split("-")[1])

    def test_a_late_answer_counts_while_nobody_else_has_the_question(self, workshop: Workshop) -> None:
        campaign = workshop.create(lease_seconds=LEASE)
        question = campaign.ask("a")
        workshop.pass_time(LEASE + 1)
        receipt = campaign.tell(question, group_of(question.row))  # type: ignore[arg-type, union-attr]
        assert (receipt.late, receipt.counted) == (True, True)
        assert campaign.status().late == 1
        assert campaign.ask("b").row != question.row  # type: ignore[union-attr]

    def test_a_late_answer_to_a_question_others_have_is_recorded_and_reported(self, workshop: Workshop) -> None:
        campaign = workshop.create(lease_seconds=LEASE)
        late = campaign.ask("a")
        workshop.pass_time(LEASE + 1)
        taken = campaign.ask("b")
        receipt = campaign.tell(late, group_of(late.row))  # type: ignore[arg-type, union-attr]
        assert (receipt.late, receipt.counted) == (True, False)
        assert campaign.tell(taken, GROUPS[0]).counted  # type: ignore[arg-type]
        status = campaign.status()
        assert (status.answered, status.late, status.uncounted) == (1, 1, 1)

    def test_late_answers_never_exceed_the_budget(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=2, lease_seconds=LEASE)
        early = [campaign.ask(name) for name in ("a", "b")]
        workshop.pass_time(LEASE + 1)
        campaign.annotator().skip(campaign.ask("c"))  # type: ignore[arg-type]
        answer_all(campaign, "d")
        for question in early:
            assert not campaign.tell(question, GROUPS[0]).counted  # type: ignore[arg-type]
        assert campaign.status().answered == 2

    def test_whoever_comes_back_late_gets_the_question_again_and_answers_once(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=1, lease_seconds=LEASE)
        first = campaign.ask("a")
        workshop.pass_time(LEASE + 1)
        second = campaign.ask("a")
        assert first is not None
        assert second is not None
        assert (first.row, first.id != second.id) == (second.row, True)
        assert campaign.tell(first, GROUPS[0]).counted
        assert not campaign.tell(second, GROUPS[0]).counted
        assert campaign.status().answered == 1

    def test_a_skipped_question_goes_to_somebody_else_and_costs_nothing(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        assert question is not None
        assert campaign.annotator().skip(question)
        assert not campaign.annotator().skip(question)
        assert campaign.ask("a").row != question.row  # type: ignore[union-attr]
        assert campaign.ask("b").row == question.row  # type: ignore[union-attr]
        assert campaign.status().answered == 0

    def test_the_same_answer_twice_is_recorded_once_and_another_is_a_conflict(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        assert question is not None
        first = campaign.tell(question, GROUPS[0])
        again = campaign.tell(question.id, GROUPS[0])
        assert (again.event, again.repeated) == (first.event, True)
        with pytest.raises(Conflict):
            campaign.tell(question, GROUPS[1])
        with pytest.raises(Conflict):
            campaign.annotator().skip(question)
        assert campaign.status().answered == 1

    def test_an_idempotency_key_names_one_answer(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        one = campaign.ask("a")
        first = campaign.tell(one, GROUPS[0], key="k1")  # type: ignore[arg-type]
        assert campaign.tell(one, GROUPS[0], key="k1") == first.__class__(  # type: ignore[arg-type]
            first.question, first.event, repeated=True
        )
        two = campaign.ask("a")
        with pytest.raises(Conflict):
            campaign.tell(two, GROUPS[0], key="k1")  # type: ignore[arg-type]
        with pytest.raises(Conflict):
            campaign.tell(one, GROUPS[1], key="k1")  # type: ignore[arg-type]

    def test_a_correction_replaces_the_answer_and_both_stay_in_the_log(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        campaign.tell(question, GROUPS[0])  # type: ignore[arg-type]
        campaign.annotator().correct(question, GROUPS[1], key="k")  # type: ignore[arg-type]
        assert campaign.annotator().correct(question, GROUPS[1], key="k").repeated  # type: ignore[arg-type]
        assert [answer.group for answer in campaign.owner.answers()] == [1]
        assert [entry["what"] for entry in campaign.owner.log()][-2:] == ["answered", "corrected"]
        assert campaign.status().answered == 1
        assert campaign.tell(question, GROUPS[0]).repeated  # type: ignore[arg-type]

    def test_undo_takes_the_last_answer_back_and_asks_it_again(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=3)
        rows = []
        for _ in range(2):
            question = campaign.ask("a")
            campaign.tell(question, GROUPS[0])  # type: ignore[arg-type]
            rows.append(question.row)  # type: ignore[union-attr]
        shown = campaign.ask("a")
        again = campaign.annotator("a").undo(key="u1")
        assert again is not None
        assert shown is not None
        assert again.row == rows[1]
        assert campaign.annotator("a").undo(key="u1") == again
        assert campaign.ask("a") == again
        assert campaign.status().answered == 1
        campaign.tell(again, GROUPS[1])
        assert campaign.ask("a").row == shown.row  # type: ignore[union-attr]
        assert [answer.group for answer in campaign.owner.answers()] == [0, 1]

    @pytest.mark.parametrize("answer", [GROUPS[0], GROUPS[1], "declined"])
    def test_an_answer_taken_back_is_not_taken_again_under_its_old_id(self, workshop: Workshop, answer: str) -> None:
        campaign = workshop.create(budget=3)
        question = campaign.ask("a")
        assert question is not None
        campaign.tell(question, GROUPS[0], key="k")
        again = campaign.annotator("a").undo()
        assert again is not None
        for act in (campaign.tell, campaign.annotator().correct):
            with pytest.raises(Conflict, match=f"taken back: the question is {again.id} now"):
                act(question, answer)
        repeat = campaign.tell(question, GROUPS[0], key="k")
        assert (repeat.repeated, repeat.undone, repeat.counted) == (True, True, False)
        assert campaign.status().answered == 0
        assert campaign.tell(again, answer).counted

    def test_undo_brings_a_skipped_question_back(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        campaign.annotator().skip(question)  # type: ignore[arg-type]
        assert campaign.annotator("a").undo().row == question.row  # type: ignore[union-attr]

    def test_undo_never_touches_another_annotators_answer(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        campaign.tell(campaign.ask("a"), GROUPS[0])  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            campaign.annotator("b").undo()
        assert campaign.status().answered == 1

    @pytest.mark.parametrize("outcome", ["cannot_tell", "declined"])
    @pytest.mark.parametrize("costs", [True, False])
    def test_no_answer_is_recorded_apart_and_costs_by_the_setting(
        self, workshop: Workshop, outcome: str, costs: bool
    ) -> None:
        campaign = workshop.create(unanswered_costs=costs)
        campaign.tell(campaign.ask(), outcome)  # type: ignore[arg-type]
        status = campaign.status()
        assert (status.answered, getattr(status, outcome)) == (int(costs), 1)
        assert campaign.owner.answers() == ()

    def test_an_unknown_group_is_refused_without_naming_it(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask()
        for wrong in ("Mittelmass", GROUPS[0].lower(), "", None, 0):
            with pytest.raises(UnknownGroup) as caught:
                campaign.tell(question, wrong)  # type: ignore[arg-type]
            assert not any(name in str(caught.value) for name in ("Mittelmass", *GROUPS))
        assert campaign.ask() == question

    def test_a_question_of_another_annotator_cannot_be_answered(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        assert question is not None
        for act in (campaign.annotator("b").tell, campaign.annotator("b").correct):
            with pytest.raises(NotYours):
                act(question.id, GROUPS[0])
        with pytest.raises(NotYours):
            campaign.annotator("b").skip(question.id)
        assert campaign.status().answered == 0

    def test_a_question_that_was_never_asked_cannot_be_answered(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        assert question is not None
        token = question.id.split("-")[1]
        for wrong in ("1-1", "99-99", f"2-{token}", "nonsense", "", "1-9999999999999999999999", "-", "١-٢"):
            with pytest.raises(NotFound):
                campaign.tell(wrong, GROUPS[0])

    def test_kinds_are_kept_apart_and_what_the_person_says_comes_first(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=4, overlap=2)
        for name, kind in (("a", "perceived"), ("b", "self_reported")):
            question = campaign.ask(name)
            campaign.tell(question, GROUPS[name == "b"], kind=kind)  # type: ignore[arg-type]
        assert campaign.status().by_kind == {"perceived": 1, "self_reported": 1}
        assert [(answer.group, answer.weight) for answer in campaign.owner.answers()] == [(1, 1.0)]
        with pytest.raises(InputError):
            campaign.tell(campaign.ask("a"), GROUPS[0], kind="guessed")  # type: ignore[arg-type]

    def test_overlap_puts_a_row_to_so_many_different_people(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=6, overlap=3)
        rows = [campaign.ask(name).row for name in "abc"]  # type: ignore[union-attr]
        assert len(set(rows)) == 1
        other = campaign.ask("d").row  # type: ignore[union-attr]
        assert other != rows[0]
        campaign.tell(campaign.ask("a"), GROUPS[0])  # type: ignore[arg-type]
        assert campaign.ask("a").row == other  # type: ignore[union-attr]

    @pytest.mark.parametrize("overlap", [2, 3])
    def test_questions_held_at_once_are_about_different_people(self, workshop: Workshop, overlap: int) -> None:
        campaign = workshop.create(budget=30, overlap=overlap)
        campaign.refitter.ahead = None  # as many proposals as a server has ready
        campaign.refitter.supply()
        asked: dict[str, list[int]] = {name: [] for name in "abc"}
        for _ in range(4):
            for name in asked:
                held = campaign.annotator(name).hand(2).questions
                assert len({question.row for question in held}) == len(held) == 2
                assert not set(asked[name]) & {question.row for question in held}
                receipt = campaign.tell(held[1], group_of(held[1].row))
                assert (receipt.late, receipt.counted) == (False, True)
                asked[name].append(held[1].row)
        assert campaign.status().answered == 12

    def test_a_late_answer_taken_back_lets_nobody_count_twice_on_a_row(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=6, overlap=2, lease_seconds=LEASE)
        first = campaign.ask("a")
        workshop.pass_time(LEASE + 1)
        second = campaign.ask("a")
        assert first is not None
        assert second is not None
        assert campaign.tell(first, GROUPS[0]).counted
        assert not campaign.tell(second, GROUPS[0]).counted
        assert campaign.annotator("a").undo() is None  # the first answer stands: the row is not theirs to answer again
        following = campaign.ask("a")
        assert following is not None
        assert following.row != first.row
        assert campaign.status().answered == 1

    def test_a_finished_campaign_asks_nothing_and_still_takes_what_was_asked(self, workshop: Workshop) -> None:
        campaign = workshop.create()
        question = campaign.ask("a")
        campaign.owner.finish()
        campaign.owner.finish()
        assert campaign.annotator("b").turn().why == "finished"
        assert campaign.tell(question, GROUPS[0]).counted  # type: ignore[arg-type]
        with pytest.raises(CampaignFinished):
            campaign.annotator("a").undo()
        campaign.owner.finish(False)
        assert campaign.ask("b") is not None

    @pytest.mark.parametrize(("stored", "used"), [("NFC", "NFD"), ("NFD", "NFC")])
    def test_a_name_is_one_name_however_its_letters_are_composed(
        self, workshop: Workshop, tmp_path: Path, stored: Form, used: Form
    ) -> None:
        campaign, who, group = "Zähler", "José Ångström", "Größe"
        first = [normalize(stored, text) for text in (campaign, who, group)]
        second = [normalize(used, text) for text in (campaign, who, group)]
        assert first != second
        made = workshop.create(name=first[0], groups=(first[2], "other"), gold={7: second[2]})
        with Campaign.open(workshop.place.url, second[0], files=workshop.place.files, engine=workshop.engine) as found:
            assert found.name == made.name
        links = [
            made.owner.access.grant(name, what=what) for name in (first[1], second[1]) for what in ("link", "token")
        ]
        assert made.owner.access.revoke_name(second[1]) == 4
        assert not any(made.owner.access.good(link.id) for link in links)
        question = made.ask(first[1])
        assert question is not None
        assert made.ask(second[1]) == question == made.annotator(second[1]).question(question.id)
        made.tell(question, second[2], annotator=second[1])
        assert made.tell(question, first[2], annotator=first[1]).repeated
        assert [own.question for own in made.annotator(second[1]).answers()] == [question.id]
        assert made.annotator(second[1]).progress().mine_answered == 1
        again = made.annotator(second[1]).undo()
        assert again is not None
        assert made.annotator(second[1]).skip(again.id)
        (tmp_path / "in.csv").write_text(f"row,group,annotator\n3,{second[2]},{second[1]}\n", encoding="utf-8")
        assert made.owner.import_(tmp_path / "in.csv").added == 1
        assert [report.name for report in made.owner.annotators()] == [normalize("NFC", who)]
        assert made.owner.erase(annotator=second[1]).answers == 1 + 1  # the one taken back too

    def test_the_budget_can_be_extended_but_not_below_what_is_taken(self, workshop: Workshop) -> None:
        campaign = workshop.create(budget=2)
        answer_all(campaign)
        for wrong in (1, 0, -3, True, 2.5):
            with pytest.raises(BudgetError):
                campaign.owner.extend(wrong)  # type: ignore[arg-type]
        campaign.owner.extend(4)
        assert len(answer_all(campaign)) == 2
