"""The choice: what sampling adds is what simulation shows, limits hold, and a fair model is left alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from apod.fairness.notions import EQUALIZED_ODDS, NOTIONS, Notion
from apod.method.correction_choice import (
    Falls,
    Limits,
    Paths,
    affordable,
    bands,
    choose,
    common_noise,
    falls,
    keep,
    sampling_roots,
    trace_paths,
)
from apod.method.correction_costs import Costs, Judged, costs

STRENGTHS = np.array([0.2, 0.6])


def population(n: int, rng: np.random.Generator) -> tuple[Judged, np.ndarray, np.ndarray]:
    """People with known groups, a model that is unfair to group 0, and when two directions change its decisions."""
    groups, labels = rng.integers(0, 2, n), rng.integers(0, 2, n)
    score = rng.normal(size=n) + 1.2 * labels + 0.5 * groups - 0.8
    changes_at = np.abs(score)[None] * np.array([[1.0], [0.7]])
    towards = np.array([[1], [-1]]) * np.where(groups == 1, 1, -1) * np.sign(score) > 0
    return Judged(labels, (score > 0).astype(np.int64)), np.where(towards, changes_at, np.inf), np.eye(2)[groups]


def paths_of(notion: Notion, n: int, rng: np.random.Generator) -> tuple[Paths, Costs]:
    people, changes_at, members = population(n, rng)
    band = bands(changes_at, STRENGTHS)
    known = trace_paths(notion, people, band, len(STRENGTHS), (1, 2), [(slice(None), members[:, None])])
    return known, costs(people, band, len(STRENGTHS))


def test_sampling_error_of_rates_and_of_their_change_is_what_repeated_samples_show() -> None:
    n, rng = 400, np.random.default_rng(0)
    samples = [paths_of(EQUALIZED_ODDS, n, rng)[0] for _ in range(3000)]
    base = np.array([s.base[0] for s in samples])  # (S, k, G)
    change = np.array([(s.up - s.down)[:, :, 0] for s in samples])  # (S, A, R, k, G)
    large, _ = paths_of(EQUALIZED_ODDS, 200_000, np.random.default_rng(1))
    own, (slope, rest) = _rescaled(large, n)
    np.testing.assert_allclose(own, base.std(axis=0), rtol=0.08)
    np.testing.assert_allclose(np.sqrt(slope**2 + rest**2), change.std(axis=0), rtol=0.1, atol=1e-4)
    together = ((change - change.mean(axis=0)) * (base - base.mean(axis=0))[:, None, None]).mean(axis=0)
    np.testing.assert_allclose(slope * own, together, atol=2e-4)


def _rescaled(large: Paths, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The roots for a part of n people with the rates of a large one."""
    part = replace(large, people=large.people * (n / 200_000))
    own, change = sampling_roots(part)
    return own, np.moveaxis(change, 2, 0)


def test_falls_match_gaps_drawn_one_by_one() -> None:
    rng = np.random.default_rng(2)
    people, changes_at, _ = population(300, rng)
    members = rng.dirichlet(np.ones(2), size=(300, 6))
    band = bands(changes_at, STRENGTHS)
    paths = trace_paths(EQUALIZED_ODDS, people, band, 2, (6, 2), [(slice(None), members)])
    found = falls(EQUALIZED_ODDS, paths, np.zeros((6, 2, 2, 2)))
    for a in range(2):
        for r in range(2):
            fall = []
            for d in range(6):
                before, after = (
                    np.abs(rate[:, 0] - rate[:, 1]).sum() for rate in (paths.base[d], paths.rates[a, r, d])
                )
                fall.append(before - after)
            assert found.mean[a, r] == pytest.approx(np.mean(fall))
            assert found.deviation[a, r] == pytest.approx(np.std(fall))
            assert found.improves[a, r] == pytest.approx(np.mean(np.array(fall) > 0))
            signed = [paths.base[:, :, 0] - paths.base[:, :, 1], np.diff(paths.rates[a, r], axis=2)[..., 0] * -1]
            turned = ((signed[0] > 0) & (signed[1] < -0.02)) | ((signed[0] < 0) & (signed[1] > 0.02))  # (6, k)
            assert found.reverses[a, r] == pytest.approx(turned.any(axis=1).mean())


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
def test_with_all_groups_known_a_large_gap_is_narrowed_and_the_limits_hold(notion: Notion) -> None:
    paths, cost = paths_of(notion, 4000, np.random.default_rng(3))
    found = falls(notion, paths, common_noise(256, paths.base.shape[1], 2, np.random.default_rng(0)))
    chosen = choose(found, cost, Limits(accuracy=0.2, balanced=0.2, caution=1.0, reversal=1.0))
    assert chosen.applied
    assert chosen.worth == pytest.approx(found.worth(1.0)[chosen.direction, chosen.strength])
    nothing = choose(found, cost, Limits(accuracy=0.0, balanced=0.0, caution=0.0))
    assert not nothing.applied


def test_knowing_every_group_does_not_change_a_model_whose_gap_is_within_the_noise_of_its_sample() -> None:
    """Groups drawn at random: the gap of each sample is noise, and following it would not lower the next sample's."""
    changed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        people, changes_at, _ = population(1000, rng)
        members = np.eye(2)[rng.integers(0, 2, 1000)][:, None]
        band = bands(changes_at, STRENGTHS)
        paths = trace_paths(EQUALIZED_ODDS, people, band, 2, (1, 2), [(slice(None), members)])
        found = falls(EQUALIZED_ODDS, paths, common_noise(256, 2, 2, np.random.default_rng(0)))
        chosen = choose(found, costs(people, band, 2), Limits(1.0, 1.0, caution=1.0))
        changed += chosen.applied
    assert changed <= 6


def test_limits_count_costs_with_their_standard_errors() -> None:
    ones = np.ones((1, 1))
    lost, balanced = (0.008, 0.0015), (0.01, 0.004)
    each = *lost, *balanced, 0.1, sum(lost), sum(balanced)
    cost = Costs(*(own * ones for own in each))
    assert affordable(cost, Limits(0.01, 0.015)).all()
    assert not affordable(cost, Limits(0.009, 0.015)).any()
    assert not affordable(cost, Limits(0.01, 0.013)).any()


def test_a_frozen_correction_is_dropped_when_it_is_worth_nothing() -> None:
    found = Falls(np.array([[0.04, -0.01]]), np.zeros((1, 2)), *np.zeros((2, 1, 2)))
    assert [keep(found, Limits(), place).applied for place in range(2)] == [True, False]


def test_more_caution_never_prefers_a_less_certain_fall() -> None:
    found = Falls(np.array([[0.05, 0.03, 0.01]]), np.array([[0.06, 0.02, 0.001]]), *np.zeros((2, 1, 3)))
    free = Costs(*np.zeros((7, 1, 3)))
    picks = [choose(found, free, Limits(caution=k)) for k in (0.0, 0.6, 1.2, 20.0)]
    assert [(pick.strength, pick.applied) for pick in picks] == [(0, True), (1, True), (2, True), (2, False)]


def test_a_correction_that_would_probably_turn_a_difference_around_is_passed_over_for_a_weaker_one() -> None:
    reverses = np.array([[0.02, 0.09, 0.4]])
    found = Falls(np.array([[0.02, 0.04, 0.06]]), np.zeros((1, 3)), np.ones((1, 3)), reverses)
    free = Costs(*np.zeros((7, 1, 3)))
    assert [choose(found, free, Limits(reversal=r)).strength for r in (0.05, 0.1, 1.0)] == [0, 1, 2]
    assert not choose(found, free, Limits(reversal=0.01)).applied


def test_where_nothing_is_affordable_the_weakest_correction_of_the_greatest_worth_leads_and_is_not_applied() -> None:
    found = Falls(np.array([[0.01, 0.09], [0.03, 0.05]]), np.zeros((2, 2)), *np.zeros((2, 2, 2)))
    dear = Costs(*np.ones((7, 2, 2)))
    chosen = choose(found, dear, Limits())
    assert (chosen.direction, chosen.strength, chosen.applied) == (1, 0, False)
    assert np.isnan(chosen.worth)


def test_common_noise_has_no_mean() -> None:
    np.testing.assert_allclose(common_noise(64, 2, 3, np.random.default_rng(0)).mean(axis=0), 0, atol=1e-15)


def test_weights_are_people_who_occur_so_often_in_rates_and_costs() -> None:
    people, changes_at, members = population(300, np.random.default_rng(5))
    band = bands(changes_at, STRENGTHS)
    often = 1 + np.arange(300) % 3
    rows = np.repeat(np.arange(300), often)
    repeated = Judged(people.labels[rows], people.decisions[rows])
    want = costs(repeated, band[:, rows], len(STRENGTHS))
    weights = often / often.mean()
    found = costs(replace(people, weights=weights), band, len(STRENGTHS))
    for name in ("accuracy", "balanced", "changed"):
        np.testing.assert_allclose(getattr(found, name), getattr(want, name), atol=1e-12)
    assert (found.accuracy_error > 0).all()
    alike = costs(replace(people, weights=np.ones(300)), band, len(STRENGTHS))
    for name, values in vars(costs(people, band, len(STRENGTHS))).items():
        np.testing.assert_allclose(getattr(alike, name), values, atol=1e-12, err_msg=name)
    own = trace_paths(EQUALIZED_ODDS, people, band, 2, (1, 2), [(slice(None), (members * weights[:, None])[:, None])])
    twice = trace_paths(EQUALIZED_ODDS, repeated, band[:, rows], 2, (1, 2), [(slice(None), members[rows][:, None])])
    np.testing.assert_allclose(own.rates, twice.rates, atol=1e-6)
    assert (
        own.people < trace_paths(EQUALIZED_ODDS, people, band, 2, (1, 2), [(slice(None), members[:, None])]).people
    ).all()


def test_weighted_costs_have_the_error_that_repeated_samples_show() -> None:
    rng, found = np.random.default_rng(1), []
    for _ in range(1500):
        people, changes_at, _ = population(200, rng)
        weights = rng.exponential(size=200)
        lost = costs(replace(people, weights=weights / weights.mean()), bands(changes_at, STRENGTHS), len(STRENGTHS))
        found.append([lost.accuracy, lost.accuracy_error, lost.balanced, lost.balanced_error])
    means, errors = np.array(found)[:, [0, 2]], np.array(found)[:, [1, 3]]
    np.testing.assert_allclose(errors.mean(axis=0), means.std(axis=0), rtol=0.12)
