"""The loop around a model: nobody twice, the same answers make the same correction, every selector works."""

from __future__ import annotations

import numpy as np
import pytest
from correction_people import simulated_population

from apod.data.dataset import UNKNOWN
from apod.fairness.notions import EQUALIZED_ODDS
from apod.method.algorithm1 import Question, run_rounds
from apod.method.correction_choice import Limits
from apod.method.model_mitigation import RANDOM_SHARES, ModelMitigation
from apod.method.selection import SELECTORS
from apod.models.scored import Scored

ALL = sorted({*RANDOM_SHARES, *SELECTORS})


def mitigation(selector: str = "gap", n: int = 400, seed: int = 0) -> tuple[ModelMitigation, np.ndarray]:
    population, groups = simulated_population(n, seed)
    people = population.people
    scored = Scored(people.inputs, population.eta, population.eta, people.decisions, people.margins)
    loop = ModelMitigation(
        scored,
        people.labels,
        population.training,
        notion=EQUALIZED_ODDS,
        n_groups=2,
        cut=population.cut,
        limits=Limits(),
        seed=seed,
        selector=selector,
    )
    return loop, groups


@pytest.mark.parametrize("selector", ALL)
def test_every_selector_spends_the_budget_on_different_people_of_the_training_part(selector: str) -> None:
    loop, groups = mitigation(selector)
    seen: list[int] = []
    run_rounds(loop, lambda question: int(groups[question.row]), 20, 3, lambda answered: seen.append(len(answered)))
    rows = loop.answers[0].rows
    assert len(rows) == len(set(rows)) == sum(seen) == 20
    assert max(rows) < loop.population.training
    assert loop.fitted is not None


@pytest.mark.parametrize("selector", ALL)
def test_groups_that_nobody_asked_about_change_no_question_and_no_correction(selector: str) -> None:
    loop, groups = mitigation(selector)
    run_rounds(loop, lambda question: int(groups[question.row]), 16, 2)
    other = 1 - groups
    asked = list(loop.answers[0].rows)
    other[asked] = groups[asked]
    again, _ = mitigation(selector)
    run_rounds(again, lambda question: int(other[question.row]), 16, 2)
    assert again.answers == loop.answers
    assert loop.fitted is not None
    assert again.fitted is not None
    np.testing.assert_array_equal(again.fitted.posterior.weights, loop.fitted.posterior.weights)
    assert again.fitted.chosen == loop.fitted.chosen


def test_the_correction_is_a_function_of_the_answers_whatever_their_order_and_the_refits_between() -> None:
    loop, groups = mitigation()
    run_rounds(loop, lambda question: int(groups[question.row]), 24)
    backwards, _ = mitigation()
    for row in reversed(loop.answers[0].rows):
        backwards.add_answer(0, row, int(groups[row]))
    backwards.refit()
    assert loop.fitted is not None
    assert backwards.fitted is not None
    np.testing.assert_array_equal(backwards.fitted.posterior.weights, loop.fitted.posterior.weights)
    assert backwards.fitted.chosen == loop.fitted.chosen


def test_a_chosen_correction_is_tried_on_fresh_answers_about_people_whom_it_changes() -> None:
    loop, groups = mitigation(n=3000)
    loop.limits = Limits(0.05, 0.05, caution=0.0, reversal=0.5)
    run_rounds(loop, lambda question: int(groups[question.row]), 60, 20)
    chosen = loop.fitted
    assert chosen is not None
    assert chosen.chosen.applied
    noted: list[str] = []
    heard = loop.verify(lambda question: int(groups[question.row]), 30, note=noted.append)
    told = loop.verified
    assert told is not None
    assert len(noted) == 1
    fresh = [one.question.row for one in heard]
    assert not set(fresh) & set(loop.answers[0].rows)
    assert len(set(fresh)) == told.asked == 30
    assert chosen.changed()[fresh].all()
    assert loop.fitted is not None
    np.testing.assert_array_equal(loop.fitted.weights, chosen.weights)
    assert loop.fitted.strength in (0.0, told.strength)
    assert loop.fitted.chosen.applied == (told.verdict == "passed")


def test_where_the_model_stays_nobody_is_asked_to_verify_it() -> None:
    loop, groups = mitigation()
    assert loop.verify(lambda question: int(groups[question.row]), 10) == []
    assert loop.verified is None


def test_answers_that_could_not_be_given_count_and_leave_the_model_alone() -> None:
    loop, _ = mitigation()
    run_rounds(loop, lambda question: UNKNOWN, 12)
    assert len(set(loop.answers[0].rows)) == 12
    assert loop.fitted is None
    np.testing.assert_array_equal(loop.membership(), 0.5)


def test_a_question_that_is_out_is_not_put_again() -> None:
    loop, groups = mitigation()
    run_rounds(loop, lambda question: int(groups[question.row]), 10)
    first = loop.ask(3)
    assert not {q.row for q in first} & {q.row for q in loop.ask(3, [q.row for q in first])}


def test_opinions_that_disagree_are_weighed() -> None:
    loop, groups = mitigation()
    run_rounds(loop, lambda question: int(groups[question.row]), 10)
    row = loop.ask(1)[0].row
    loop.add_answer(0, row, 0, 0.75)
    loop.add_answer(0, row, 1, 0.25)
    np.testing.assert_allclose(loop.likelihoods()[row], [0.75, 0.25])
    assert isinstance(loop.ask(1)[0], Question)
    loop.refit()
    assert 0 < loop.membership()[row, 0] < 1
