"""What an owner changes while a campaign runs: budget, what annotators are told, the end. On both databases."""

from __future__ import annotations

import pytest

from apod.campaign import campaigns
from apod.errors import ApodError, BudgetError, InputError
from apod.testing.engines import GROUPS, Workshop, answer_all


def test_a_spent_budget_can_be_extended_and_stays_exact(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3)
    answer_all(campaign)
    assert campaign.ask() is None
    campaign.owner.extend(5)
    answer_all(campaign)
    status = workshop.open().status()
    assert (status.budget, status.answered, status.remaining) == (5, 5, 0)


@pytest.mark.parametrize("budget", [2, 0, -1, True, 2.5, 10**6])
def test_a_budget_below_what_is_spent_or_beyond_the_rows_is_refused(workshop: Workshop, budget: object) -> None:
    campaign = workshop.create(budget=3)
    answer_all(campaign)
    before = campaign.head()
    with pytest.raises(BudgetError):
        campaign.owner.extend(budget)  # type: ignore[arg-type]
    assert campaign.head() == before


def test_changes_are_seen_by_others_and_every_version_stands_in_the_log(workshop: Workshop) -> None:
    campaign, other = workshop.create(budget=3, guidelines="first"), workshop.open()
    campaign.owner.revise(guidelines="second", legal_basis="Consent")
    campaign.owner.revise(guidelines="third", question="Which one?")
    campaign.owner.revise(guidelines="third")  # nothing new
    rules, status = other.rules(), other.status()
    assert (rules.guidelines, rules.legal_basis, rules.question) == ("third", "Consent", "Which one?")
    assert (status.guidelines, status.legal_basis, other.revision()) == ("third", "Consent", 2)
    told = [entry["settings"].get("guidelines") for entry in other.owner.log() if entry["what"] == "revised"]
    assert told == ["second", "third"]
    assert other.owner.verify_log().ok


def test_another_kind_holds_for_answers_from_then_on(workshop: Workshop) -> None:
    campaign, other = workshop.create(budget=4), workshop.open()
    first = campaign.ask()
    assert first is not None
    campaign.tell(first, GROUPS[0])
    other.owner.revise(kind="records")
    second = campaign.ask()
    assert second is not None
    campaign.tell(second, GROUPS[0])
    assert campaign.status().by_kind == {"perceived": 1, "records": 1}


@pytest.mark.parametrize(
    "change",
    [{"kind": "hearsay"}, {"budget": 7}, {"descriptions": {"nowhere": "?"}}, {"guidelines": "a\x00b"}],
)
def test_changes_that_cannot_be_are_refused_and_nothing_is_recorded(workshop: Workshop, change: dict) -> None:
    campaign = workshop.create(budget=3)
    before = campaign.head()
    with pytest.raises(InputError):
        campaign.owner.revise(**change)
    assert campaign.head() == before


def test_an_archived_campaign_asks_nothing_lets_nobody_in_and_is_left_out_of_lists(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3)
    token = campaign.owner.access.grant("maria", what="token").token
    campaign.owner.archive()
    assert campaign.annotator("maria").turn().why == "finished"
    assert campaign.owner.access.visitor(token, "token") is None
    assert campaigns(workshop.place.url, archived=False) == []
    assert [info.archived for info in campaigns(workshop.place.url)] == [True]
    campaign.owner.archive(False)
    assert [info.finished for info in campaigns(workshop.place.url, archived=False)] == [True]


def test_the_kind_of_an_answer_is_checked(workshop: Workshop) -> None:
    campaign = workshop.create(budget=3)
    question = campaign.ask()
    assert question is not None
    with pytest.raises(ApodError, match="not a kind of answer"):
        campaign.tell(question, GROUPS[0], kind="hearsay")
