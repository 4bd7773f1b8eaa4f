"""Rates and costs along the paths of corrections, against counting people one correction at a time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from apod.fairness.notions import NOTIONS, Notion, member_rates
from apod.method.correction_choice import bands, trace_paths
from apod.method.correction_costs import Judged, costs, local_probabilities

STRENGTHS = np.array([0.1, 0.4, 1.0])


@pytest.fixture
def case() -> tuple[Judged, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels, decisions = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    changes_at = np.where(rng.random((4, 60)) < 0.5, rng.random((4, 60)) * 1.5, np.inf)
    members = rng.dirichlet(np.ones(3), size=(60, 5))  # (n, D, G)
    return Judged(labels, decisions), changes_at, members


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
@pytest.mark.parametrize("blocks", [1, 4])
def test_rates_along_paths_are_those_of_the_changed_decisions(
    notion: Notion, blocks: int, case: tuple[Judged, np.ndarray, np.ndarray]
) -> None:
    people, changes_at, members = case
    edges = np.linspace(0, 60, blocks + 1).astype(int)
    parts = [(slice(a, b), members[a:b]) for a, b in itertools.pairwise(edges)]
    paths = trace_paths(notion, people, bands(changes_at, STRENGTHS), len(STRENGTHS), (5, 3), parts)
    for a in range(4):
        for r, strength in enumerate(STRENGTHS):
            decided = np.where(changes_at[a] <= strength, 1 - people.decisions, people.decisions)
            truth = member_rates(notion, people.labels, decided[None], members.transpose(1, 0, 2))[:, 0, :, 0]
            np.testing.assert_allclose(paths.rates[a, r], truth, atol=1e-6)
    base = member_rates(notion, people.labels, people.decisions[None], members.transpose(1, 0, 2))[:, 0, :, 0]
    np.testing.assert_allclose(paths.base, base, atol=1e-6)


def test_costs_are_the_accuracy_lost_and_its_paired_standard_error(case: tuple[Judged, np.ndarray, np.ndarray]) -> None:
    people, changes_at, _ = case
    found = costs(people, bands(changes_at, STRENGTHS), len(STRENGTHS))
    right = (people.decisions == people.labels).astype(float)
    for a in range(4):
        for r, strength in enumerate(STRENGTHS):
            changed = changes_at[a] <= strength
            lost = right - np.where(changed, 1 - right, right)
            by_label = [lost[people.labels == y] for y in (0, 1)]
            assert found.accuracy[a, r] == pytest.approx(lost.mean())
            assert found.accuracy_error[a, r] == pytest.approx(lost.std() / np.sqrt(60))
            assert found.balanced[a, r] == pytest.approx(np.mean([own.mean() for own in by_label]))
            error = np.sqrt(sum(own.var() / len(own) for own in by_label)) / 2
            assert found.balanced_error[a, r] == pytest.approx(error)
            assert found.changed[a, r] == pytest.approx(changed.mean())


def test_a_third_of_a_cost_is_counted_by_the_probability_of_the_labels(
    case: tuple[Judged, np.ndarray, np.ndarray],
) -> None:
    people, changes_at, _ = case
    likely = np.random.default_rng(5).uniform(0.3, 0.7, len(people))
    band = bands(changes_at, STRENGTHS)
    plain, found = (costs(own, band, len(STRENGTHS)) for own in (people, replace(people, likely=likely)))
    ones = people.labels.sum()
    for a in range(4):
        for r, strength in enumerate(STRENGTHS):
            by_label = np.zeros(2)
            for i in np.flatnonzero(changes_at[a] <= strength):  # who is decided 1 loses a right decision if y = 1
                gain = 1 if people.decisions[i] == 1 else -1
                by_label += gain * np.array([-(1 - likely[i]), likely[i]])
            expected = by_label.sum() / 60, (by_label / [60 - ones, ones]).mean()
            parts = (plain.accuracy + plain.accuracy_error)[a, r], (plain.balanced + plain.balanced_error)[a, r]
            assert found.accuracy_counted[a, r] == pytest.approx(2 / 3 * parts[0] + expected[0] / 3)
            assert found.balanced_counted[a, r] == pytest.approx(2 / 3 * parts[1] + expected[1] / 3)
    np.testing.assert_allclose(plain.accuracy_counted, plain.accuracy + plain.accuracy_error)
    np.testing.assert_allclose(plain.balanced_counted, plain.balanced + plain.balanced_error)
    for name in ("accuracy", "accuracy_error", "balanced", "balanced_error", "changed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    alike = costs(replace(people, likely=likely, weights=np.ones(60)), band, len(STRENGTHS))
    for name in ("accuracy_counted", "balanced_counted"):
        np.testing.assert_allclose(getattr(alike, name), getattr(found, name))


def test_probabilities_near_the_threshold_follow_the_labels_where_the_models_are_too_flat() -> None:
    rng = np.random.default_rng(6)
    odds = rng.normal(size=40_000)
    truth = expit(2 * odds + 0.1)
    found = local_probabilities(expit(odds), 0.5, (rng.random(len(odds)) < truth).astype(np.int64))
    near = np.abs(odds) < 0.6
    np.testing.assert_allclose(found[near], truth[near], atol=0.02)


def test_probabilities_stay_finite_where_labels_can_be_told_without_error() -> None:
    eta = np.linspace(0.01, 0.99, 200)
    found = local_probabilities(eta, 0.5, (eta > 0.5).astype(np.int64))
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
