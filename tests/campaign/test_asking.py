"""Gold questions: one in so many for everybody, at places nobody can foretell, in progress like any other."""

from __future__ import annotations

from pathlib import Path

from apod.campaign import Campaign
from apod.testing.engines import GROUPS, Workshop, group_of

GOLD = {row: group_of(row) for row in range(0, 60, 5)}


def opened(workshop: Workshop, **settings: object) -> Campaign:
    campaign = workshop.create(gold=GOLD, **{"budget": 60, "gold_every": 4, "lookahead": 500, **settings})
    campaign.refitter.ahead = None
    campaign.refitter.supply()
    return campaign


def places(campaign: Campaign, who: str, count: int) -> list[bool]:
    """Which of somebody's questions are gold."""
    found = []
    for _ in range(count):
        question = campaign.annotator(who).hand(1).questions[0]
        campaign.tell(question, group_of(question.row))
        found.append(question.row in GOLD)
    return found


def test_one_question_in_so_many_is_gold_for_everybody(workshop: Workshop) -> None:
    campaign = opened(workshop)
    for who in ("a", "b"):
        found = places(campaign, who, 20)
        assert [sum(found[start : start + 4]) for start in range(0, 20, 4)] == [1] * 5
    assert campaign.status().answered == 30
    assert campaign.status().gold_answered == 10
    asked = [(entry["annotator"], entry["row"]) for entry in campaign.owner.log() if entry["what"] == "asked"]
    assert len(asked) == len(set(asked)) == 40


def test_where_gold_comes_differs_between_people_blocks_and_campaigns(on_sqlite: Workshop) -> None:
    first, second = opened(on_sqlite, rows=400, budget=300), opened(on_sqlite, rows=400, budget=300, name="second")
    found = {who: places(first, who, 8) for who in map(str, range(25))}
    blocks = [tuple(seen[start : start + 4]) for seen in found.values() for start in (0, 4)]
    assert len(set(blocks)) == 4  # a chance of one in 10^5 that a place comes at none of fifty
    assert {who: places(second, who, 8) for who in found} != found


def test_gold_comes_only_where_another_question_could(workshop: Workshop) -> None:
    campaign = workshop.create(gold=GOLD, budget=5, gold_every=1)
    assert campaign.annotator("a").hand().why == "preparing"
    campaign.refitter.ahead = None
    campaign.refitter.supply()
    held = campaign.annotator("a").hand(3).questions
    assert [question.row in GOLD for question in held] == [True] * 3
    for name in "bcdef":
        places(campaign, name, len(GOLD))  # gold first, as long as there is any
        question = campaign.annotator(name).hand(1).questions[0]
        assert question.row not in GOLD
        campaign.tell(question, GROUPS[0])
    assert campaign.annotator("g").hand().why == "done"


def test_progress_moves_with_every_answer_and_ends_full(workshop: Workshop) -> None:
    campaign = opened(workshop, budget=18)
    totals, seen = set(), []
    while (hand := campaign.annotator("a").hand(2)).questions:
        campaign.tell(hand.questions[0], group_of(hand.questions[0].row))
        now = campaign.annotator("a").hand(2).progress
        totals.add(now.budget)
        seen.append(now.answered)
        assert now.mine_answered == len(seen)
        assert now == campaign.annotator("a").progress()
        assert now.pending == len(campaign.annotator("a").hand(2).questions)
    assert totals == {18 + 6}
    assert seen[:-1] == list(range(1, len(seen)))
    assert (len(seen) in (23, 24), seen[-1]) == (True, 24)  # the last gold question may stay unasked
    assert campaign.annotator("a").progress().phase == "done"
    assert campaign.status().answered == 18


def test_nobody_gets_as_gold_what_they_answered_or_hold_otherwise(workshop: Workshop, tmp_path: Path) -> None:
    campaign = opened(workshop, overlap=2, gold_every=1, budget=150)
    held = campaign.annotator("a").hand(1).questions[0]
    file = tmp_path / "in.csv"
    lines = [f"{row},{GROUPS[0]},{who}" for row in GOLD for who in ("a", "b") if row != held.row or who == "a"]
    file.write_text("\n".join(["row,group,annotator", *lines]) + "\n")
    assert campaign.owner.import_(file).added == 2 * len(GOLD) - 1
    for who in ("a", "b", "c"):
        rows = {question.row for question in campaign.annotator(who).hand(20).questions}
        assert len(rows) == 20
        assert len(rows & GOLD.keys()) == {"a": 0, "b": 1, "c": len(GOLD)}[who]  # as gold, or as the second about it


def test_a_gold_row_that_was_erased_is_not_asked_about_again(workshop: Workshop) -> None:
    campaign = opened(workshop, gold_every=1)
    question = campaign.annotator("a").hand(1).questions[0]
    campaign.tell(question, GROUPS[0])
    campaign.owner.erase(row=question.row)
    unasked = next(row for row in GOLD if row != question.row)
    campaign.owner.erase(row=unasked)
    campaign.refitter.supply()
    rows = [found.row for who in "abc" for found in campaign.annotator(who).hand(20).questions]
    assert not {question.row, unasked} & set(rows)
    assert campaign.owner.verify_log().ok
