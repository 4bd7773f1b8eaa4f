"""Agreement and the one-coin model, against independent computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from apod.campaign.votes import PRIOR_RIGHT, PRIOR_WRONG, Vote, cohen_kappa, fit_one_coin, fleiss_kappa, pairwise_kappa
from apod.randomness import generator
from apod.testing.engines import GROUPS, Workshop

votes_strategy = st.lists(
    st.builds(Vote, st.integers(0, 6), st.sampled_from(["a", "b", "c"]), st.integers(0, 2)),
    min_size=1,
    max_size=25,
    unique_by=lambda vote: (vote.item, vote.annotator),
)


def simulate(accuracies: dict[str, float], items: int, groups: int = 2) -> tuple[list[Vote], np.ndarray]:
    rng = generator(3, "votes")
    truth = rng.integers(groups, size=items)
    votes = []
    for name, accuracy in accuracies.items():
        for item in range(items):
            right = rng.random() < accuracy
            other = [group for group in range(groups) if group != truth[item]]
            votes.append(Vote(item, name, int(truth[item] if right else rng.choice(other))))
    return votes, truth


@given(votes_strategy)
@settings(max_examples=60, deadline=None)
def test_the_fit_is_a_fixed_point_of_bayes_and_of_counting(votes: list[Vote]) -> None:
    groups = 3
    model = fit_one_coin(votes, groups, rounds=5000)
    for item, posterior in model.posterior.items():  # Bayes' rule, written out
        joint = []
        for group in range(groups):
            chance = model.prevalence[group]
            for vote in votes:
                if vote.item == item:
                    p = model.accuracy[vote.annotator]
                    chance *= p if vote.group == group else (1 - p) / (groups - 1)
            joint.append(chance)
        assert posterior == pytest.approx(np.array(joint) / sum(joint), abs=1e-4)
    for name, accuracy in model.accuracy.items():
        mine = [vote for vote in votes if vote.annotator == name]
        right = sum(model.posterior[vote.item][vote.group] for vote in mine)
        assert accuracy == pytest.approx((PRIOR_RIGHT + right) / (PRIOR_RIGHT + PRIOR_WRONG + len(mine)), abs=1e-4)


@given(votes_strategy, st.randoms())
@settings(max_examples=30, deadline=None)
def test_the_order_of_answers_does_not_matter(votes: list[Vote], chance: object) -> None:
    shuffled = list(votes)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fit_one_coin(shuffled, 3).accuracy == fit_one_coin(votes, 3).accuracy


@pytest.mark.parametrize("groups", [2, 4])
def test_accuracies_are_recovered_without_knowing_the_truth(groups: int) -> None:
    true = {"good": 0.95, "fair": 0.8, "poor": 0.6}
    votes, truth = simulate(true, 2000, groups)
    model = fit_one_coin(votes, groups)
    for name, accuracy in true.items():
        assert model.accuracy[name] == pytest.approx(accuracy, abs=0.04)
    best = np.array([model.posterior[item].argmax() for item in range(2000)])
    said = np.zeros((2000, groups))
    for vote in votes:
        said[vote.item, vote.group] += 1
    assert (best == truth).mean() > (said.argmax(axis=1) == truth).mean()


def test_gold_answers_say_who_is_right_when_two_disagree() -> None:
    gold = {item: item % 2 for item in range(20)}
    votes = [Vote(item, "right", group) for item, group in gold.items()]
    votes += [Vote(item, "wrong", 1 - group) for item, group in gold.items()]
    votes += [Vote(99, "right", 0), Vote(99, "wrong", 1)]
    model = fit_one_coin(votes, 2, gold)
    assert model.accuracy["right"] > 0.9 > 0.3 > model.accuracy["wrong"]
    assert model.posterior[99][0] > 0.95


def test_cohens_kappa_is_scikit_learns() -> None:
    rng = generator(0, "kappa")
    for _ in range(20):
        first, second = rng.integers(3, size=(2, 30)).tolist()
        assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second))
    assert math.isnan(cohen_kappa([1, 1], [1, 1]))
    assert math.isnan(cohen_kappa([], []))


def test_fleiss_kappa_is_that_of_the_published_example() -> None:
    table = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    votes = []
    for item, row in enumerate(table):
        people = iter(range(14))
        votes += [Vote(item, f"p{next(people)}", group) for group, count in enumerate(row) for _ in range(count)]
    assert fleiss_kappa(votes, 5) == pytest.approx(0.210, abs=5e-4)


def test_kappa_without_overlap_is_undefined_not_zero() -> None:
    assert math.isnan(fleiss_kappa([Vote(1, "a", 0), Vote(2, "b", 1)], 2))
    assert pairwise_kappa([Vote(1, "a", 0), Vote(2, "b", 1)]) == {}


def test_one_answer_per_row_and_no_gold_counts_in_full(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    for name in "ab":
        campaign.tell(campaign.ask(name), GROUPS[0])  # type: ignore[arg-type]
    assert {answer.weight for answer in campaign.owner.answers()} == {1.0}
    assert [report.accuracy for report in campaign.owner.annotators()] == [None, None]
    assert campaign.status().agreement is None


def test_disagreement_flows_into_the_answers_as_weights_that_sum_to_one(workshop: Workshop) -> None:
    campaign = workshop.create(budget=30, overlap=3)
    for _ in range(10):
        for name in ("ann", "ben", "contrary"):
            question = campaign.ask(name)
            assert question is not None
            truth = question.row % 2
            campaign.tell(question, GROUPS[1 - truth if name == "contrary" else truth])
    rows: dict[int, dict[int, float]] = {}
    for answer in campaign.owner.answers():
        rows.setdefault(answer.row, {})[answer.group] = answer.weight
    assert len(rows) == 10
    for row, weights in rows.items():
        assert sum(weights.values()) == pytest.approx(1)
        assert weights[row % 2] > 0.9
    accuracy = {report.name: report.accuracy for report in campaign.owner.annotators()}
    assert accuracy["ann"] > 0.8 > 0.5 > accuracy["contrary"]  # type: ignore[operator]
    assert "accuracy" not in str(campaign.status().to_json())
    votes = campaign.collected().votes
    table = np.array([[1, 2] if row % 2 else [2, 1] for row in rows])  # two of three agree on every row
    share = table.sum(axis=0) / 30
    expected = float((share**2).sum())
    assert campaign.status().agreement == pytest.approx((1 / 3 - expected) / (1 - expected))
    assert len(votes) == 30
