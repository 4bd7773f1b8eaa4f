"""Self-report: a link for the person concerned, used up by the answer alone, withdrawn by its code.."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from apod.campaign.errors import Conflict, NotFound
from apod.errors import InputError
from apod.testing.engines import GROUPS, Workshop


def test_looking_uses_nothing_up_and_the_answer_does(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3, legal_basis="Consent")
    reports = campaign.owner.self_reports
    (link,) = reports.invite([7])
    for _ in range(2):
        form = reports.form(link.token)
        assert form is not None
        assert (form.legal_basis, form.groups) == ("Consent", GROUPS)
    assert reports.answer(link.token, GROUPS[1]) is not None
    assert reports.form(link.token) is None
    assert workshop.open().owner.self_reports.answer(link.token, GROUPS[0]) is None
    assert [(one.row, one.group, one.weight) for one in campaign.owner.answers()] == [(7, 1, 1.0)]
    status = campaign.status()
    assert (status.answered, status.by_kind) == (0, {"self_reported": 1})  # it costs no budget
    assert campaign.owner.verify_log().ok
    with pytest.raises(Conflict):
        reports.answer(reports.invite([7])[0].token, GROUPS[0])


def test_what_the_person_says_counts_before_what_annotators_perceive(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3)
    question = campaign.ask()
    assert question is not None
    campaign.tell(question, GROUPS[0])
    (link,) = campaign.owner.self_reports.invite([question.row])
    campaign.owner.self_reports.answer(link.token, GROUPS[1])
    assert [(one.row, one.group) for one in campaign.owner.answers()] == [(question.row, 1)]
    assert campaign.status().answered == 1


def test_a_withdrawn_answer_is_erased_and_its_code_stands_nowhere(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3)
    (link,) = campaign.owner.self_reports.invite([7])
    code = campaign.owner.self_reports.answer(link.token, GROUPS[1])
    assert code is not None
    assert code not in str(campaign.owner.log())
    assert campaign.owner.withdraw(f" {code.upper()} ").answers == 1
    assert campaign.owner.answers() == ()
    assert campaign.owner.verify_log().ok
    for wrong in (code, "0" * 24):
        with pytest.raises(NotFound):
            campaign.owner.withdraw(wrong)


def test_a_self_report_link_opens_no_session_and_other_links_report_nothing(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3)
    access, reports = campaign.owner.access, campaign.owner.self_reports
    (link,) = reports.invite([7])
    assert access.redeem(link.token) is None
    assert reports.form(link.token) is not None
    other = access.grant("maria").token
    assert reports.form(other) is None
    assert reports.answer(other, GROUPS[0]) is None


def test_rows_of_the_audit_are_left_to_it_and_a_refusal_is_an_answer(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=5, audit_share=0.2)
    held = int(campaign.materials.held_out()[0])
    free = [int(row) for row in campaign.materials.training_rows()[:2]]
    for rows in ([held], [10**6], [-1]):
        with pytest.raises(InputError):
            campaign.owner.self_reports.invite(rows)
    path = tmp_path / "links.csv"
    assert campaign.owner.self_reports.mail_merge(path, free, "https://x.example") == 2
    links = pd.read_csv(path)["link"].tolist()
    assert all(link.startswith("https://x.example/self-report#") for link in links)
    assert campaign.owner.self_reports.answer(links[0].partition("#")[2], "declined") is not None
    assert campaign.status().declined == 1
    assert campaign.owner.answers() == ()


def test_a_question_that_somebody_holds_is_taken_back_when_the_person_answers(workshop: Workshop) -> None:
    campaign = workshop.create(budget=4, overlap=2)
    first = campaign.ask("a")
    held = campaign.ask("b")
    assert first is not None
    assert held is not None
    assert first.row == held.row
    campaign.tell(first, GROUPS[0])
    (link,) = campaign.owner.self_reports.invite([held.row])
    assert campaign.owner.self_reports.answer(link.token, GROUPS[1]) is not None
    following = campaign.ask("b")
    assert following is not None
    assert following.row != held.row
    late = campaign.tell(held, GROUPS[0])  # sent all the same: recorded, and neither paid nor counted
    assert (late.late, late.counted) == (True, False)
    assert campaign.status().answered == 1
    assert [(one.row, one.group) for one in campaign.owner.answers() if one.weight == 1.0] == [(held.row, 1)]
    assert campaign.ask("c").row != held.row  # type: ignore[union-attr]
    assert campaign.owner.verify_log().ok


def test_the_purpose_has_a_text_of_its_own_and_is_the_guidelines_without(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(budget=3, guidelines="Decide by the application alone.")
    (link,) = campaign.owner.self_reports.invite([7])
    form = campaign.owner.self_reports.form(link.token)
    assert form is not None
    assert form.purpose == "Decide by the application alone."
    campaign.owner.revise(purpose="To see whether the model treats groups alike.")
    form = campaign.owner.self_reports.form(link.token)
    assert form is not None
    assert form.purpose == "To see whether the model treats groups alike."
