"""The correction for several attributes, against brute force and against what one attribute gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from apod.data.dataset import UNKNOWN, answer_code
from apod.fairness.notions import EQUALIZED_ODDS, extremes, spread
from apod.method.algorithm1 import Answers
from apod.method.attribute_mitigation import AttributeMitigation
from apod.method.attributes import FittedAttributes, FrozenAttributes, fit_attributes, summed_falls
from apod.method.correction_choice import Limits, Paths, affordable, common_noise, compared_groups, falls
from apod.method.correction_fit import STRENGTHS, Population, make_population
from apod.method.joint import crossed_members
from apod.method.posterior import People
from apod.method.questions import Informativeness, Together
from apod.models.scored import Scored
from support.correction_people import simulate

N, LIMITS = 1600, Limits(0.03, 0.03, 0.3)


def _people() -> tuple[People, np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(3)
    people, eta, first = simulate(N, rng, shows=2.0, gap=1.2)
    second = 1 + (rng.random(N) < expit(2 * people.inputs[:, 2])) - (rng.random(N) < expit(-2 * people.inputs[:, 2]))
    return people, eta, [first, second.astype(np.int64)]


@pytest.fixture(scope="module")
def populations() -> list[Population]:
    people, eta, _ = _people()
    first = make_population(EQUALIZED_ODDS, people, eta, 0.5, N // 2, 2, 0)
    return [first, replace(first, n_groups=3)]


@pytest.fixture(scope="module")
def told() -> list[dict[int, np.ndarray]]:
    _, _, groups = _people()
    rows = range(0, 400, 2)
    return [{row: np.eye(size)[own[row]] for row in rows} for size, own in zip((2, 3), groups, strict=True)]


@pytest.fixture(scope="module")
def fitted(populations: list[Population], told: list[dict[int, np.ndarray]]) -> FittedAttributes:
    return fit_attributes(populations, told, LIMITS, 0, intersections=True)


def test_the_gap_that_shows_is_narrowed_and_none_is_expected_to_rise(fitted: FittedAttributes) -> None:
    at = fitted.chosen.direction, fitted.chosen.strength
    assert fitted.chosen.applied
    assert affordable(fitted.costs, LIMITS)[at]
    assert all(part.falls.mean[at] >= 0 for part in fitted.judged)
    assert fitted.falls.mean[at] == pytest.approx(sum(part.falls.mean[at] for part in fitted.judged))
    base, after = fitted.estimates(800, 0)
    assert after.gap < base.gap


def test_what_was_judged_is_what_the_correction_decides(fitted: FittedAttributes) -> None:
    population = fitted.population
    each = [population.members(part.weights) for part in fitted.parts]
    members = np.concatenate([*each, crossed_members(each, fitted.associations)], axis=1)
    decided = population.people.decisions
    found = fitted.correction.decisions(decided, population.eta, members, fitted.strength)[0]
    np.testing.assert_array_equal(found != (decided == 1), fitted.changed())


def test_rates_of_every_attribute_are_those_of_its_own_members(
    fitted: FittedAttributes, told: list[dict[int, np.ndarray]]
) -> None:
    changed, people = fitted.changed(), fitted.population.people
    after = np.where(changed, 1 - people.decisions, people.decisions)
    for part, known in zip(fitted.parts, told, strict=True):
        members = part.posterior.members(fitted.population.columns).astype(np.float64)
        for row, own in known.items():
            members[row] = own
        for cell, label in enumerate((0, 1)):
            inside = people.labels == label
            expected = np.einsum("ndg,n->dg", members[inside], after[inside]) / members[inside].sum(axis=0)
            np.testing.assert_allclose(part.rates()[:, cell], expected, rtol=1e-3, atol=1e-5)


def test_all_is_a_function_of_the_answers_whatever_their_order(
    populations: list[Population], told: list[dict[int, np.ndarray]], fitted: FittedAttributes
) -> None:
    backward = [dict(reversed(own.items())) for own in told]
    again = fit_attributes(populations, backward, LIMITS, 0, intersections=True)
    assert again.chosen == fitted.chosen
    np.testing.assert_array_equal(again.correction.direction, fitted.correction.direction)


def test_an_attribute_that_nobody_could_tell_is_guessed_and_the_other_corrected(
    populations: list[Population], told: list[dict[int, np.ndarray]]
) -> None:
    found = fit_attributes(populations, [told[0], {}], LIMITS, 0)
    assert np.isfinite(found.falls.mean).all()


def test_a_frozen_correction_is_judged_as_it_is(
    populations: list[Population], told: list[dict[int, np.ndarray]], fitted: FittedAttributes
) -> None:
    frozen = fitted.freeze()
    assert isinstance(frozen, FrozenAttributes)
    again = fit_attributes(populations, told, LIMITS, 0, intersections=True, frozen=frozen)
    np.testing.assert_array_equal(again.changed(), fitted.changed())
    np.testing.assert_allclose(again.correction.direction, fitted.correction.direction)
    assert again.strength == pytest.approx(STRENGTHS[fitted.chosen.strength])


def test_a_change_is_steady_where_the_draws_agree(fitted: FittedAttributes) -> None:
    steady = fitted.steadiness()
    assert np.isnan(steady[~fitted.changed()]).all()
    assert (steady[fitted.changed()] > 0.5).mean() > 0.6


def _paths(rng: np.random.Generator, groups: int) -> Paths:
    up, down = rng.random((2, 3, 4, 6, 2, groups)) / 10
    return Paths(rng.random((6, 2, groups)), up, down, np.full((6, 2, groups), 90.0), np.full((6, 2, groups), 90.0))


def test_the_sum_of_falls_has_the_mean_of_the_sums_and_each_is_as_alone() -> None:
    paths = [_paths(np.random.default_rng(seed), groups) for seed, groups in ((0, 2), (1, 3))]
    every = [np.arange(2), np.arange(3)]
    total, each = summed_falls(EQUALIZED_ODDS, paths, every, 2, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    for own, found in zip(paths, each, strict=True):
        alone = falls(EQUALIZED_ODDS, own, common_noise(96, 2, own.base.shape[2], rng))
        np.testing.assert_allclose(found.mean, alone.mean, atol=1e-12)
        np.testing.assert_allclose(found.deviation, alone.deviation, atol=1e-12)
    np.testing.assert_allclose(total.mean, each[0].mean + each[1].mean, atol=1e-12)
    assert (total.deviation <= each[0].deviation + each[1].deviation + 1e-12).all()
    np.testing.assert_array_equal(total.reverses, np.maximum(each[0].reverses, each[1].reverses))


def test_groups_of_hardly_anybody_are_not_compared_while_two_remain() -> None:
    paths = _paths(np.random.default_rng(0), 3)
    rare = paths.expected * np.array([1.0, 0.1, 1.0])
    assert compared_groups(replace(paths, expected=rare)).tolist() == [0, 2]
    assert compared_groups(replace(paths, expected=rare / 100)).tolist() == [0, 1, 2]


def test_a_spread_is_highest_minus_lowest_and_undefined_where_a_rate_is() -> None:
    rates = np.random.default_rng(0).random((5, 2, 4))
    rates[2, 1, 3] = np.nan
    low, high = extremes(rates)
    np.testing.assert_array_equal(spread(rates), high - low)


def test_a_question_about_several_attributes_counts_what_it_tells_of_each() -> None:
    rng = np.random.default_rng(0)
    parts = [
        Informativeness(rng.dirichlet(np.ones(3), (9, 7)), rng.random((9, 2)), np.full(9, 1 / 9)) for _ in range(2)
    ]
    expected = parts[0].gains() + parts[1].gains()
    together = Together(parts)
    np.testing.assert_array_equal(together.gains(), expected)
    together.expect_answer(3)
    assert [part.expected for part in parts] == [1, 1]


@pytest.fixture
def mitigation() -> AttributeMitigation:
    people, eta, _ = _people()
    scored = Scored(people.inputs, eta, eta, people.decisions, people.margins)
    return AttributeMitigation(
        scored, people.labels, N // 2, notion=EQUALIZED_ODDS, sizes=(2, 3), cut=0.5, limits=LIMITS, seed=0
    )


def test_one_question_asks_about_all_attributes_and_nobody_is_asked_twice(mitigation: AttributeMitigation) -> None:
    _, _, groups = _people()
    codes = [answer_code(own, (2, 3)) for own in zip(*(g.tolist() for g in groups), strict=True)]
    mitigation.first_answers(lambda question: codes[question.row], 12)
    mitigation.refit()
    for question in mitigation.ask(4):
        unclear = answer_code((groups[0][question.row], UNKNOWN), (2, 3))
        mitigation.add_answer(0, question.row, unclear)
    rows = mitigation.answers[0].rows
    assert len(set(rows)) == len(rows) == 12
    first, second = (mitigation.answers_of(attribute) for attribute in (0, 1))
    assert first.groups == tuple(groups[0][list(rows)])
    assert second.groups[8:] == (UNKNOWN,) * 4
    assert len(mitigation.likelihoods_of(1)) == 8
    mitigation.refit()
    assert mitigation.fitted is not None
    assert mitigation.membership_of(1).shape == (N, 3)


def test_people_known_in_part_may_be_asked_and_those_known_in_all_are_not(mitigation: AttributeMitigation) -> None:
    half, whole = answer_code((1, UNKNOWN), (2, 3)), answer_code((0, 2), (2, 3))
    known = Answers((0, 1, 2), (half, whole, half), handed_in=3)
    mitigation.begin_with(known)
    mitigation.refit()
    asked = {question.row for question in mitigation.ask(N // 2)}
    assert asked == set(range(N // 2)) - {1}
    mitigation.add_answer(0, 0, answer_code((0, 1), (2, 3)))
    np.testing.assert_array_equal(mitigation.likelihoods_of(0)[0], [1, 0])
    np.testing.assert_array_equal(mitigation.likelihoods_of(1)[0], [0, 1, 0])
