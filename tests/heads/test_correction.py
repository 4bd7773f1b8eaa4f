"""The correction: on a small population it solves the constrained problem; at strength 0 it is the model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from apod.fairness.notions import EQUALIZED_ODDS, NOTIONS, Notion
from apod.heads.correction import (
    Correction,
    change_strengths,
    fit_bias_scores,
    pairwise_directions,
    polar_directions,
)


@pytest.fixture
def kinds() -> tuple[np.ndarray, np.ndarray]:
    """Eight equally frequent kinds of people: P(y = 1 | x) and P(group | x); label and group independent given x."""
    rng = np.random.default_rng(4)
    eta = np.array([0.15, 0.3, 0.42, 0.48, 0.55, 0.63, 0.7, 0.9])
    second = rng.permutation(np.linspace(0.1, 0.9, 8))
    return eta, np.stack([1 - second, second], axis=1)


def test_the_rule_maximises_the_lagrangian_over_all_rules(kinds: tuple[np.ndarray, np.ndarray]) -> None:
    """accuracy - sum of multipliers x signed gaps, by trying all 256 rules; t = multiplier / P(label)."""
    eta, members = kinds
    scores = fit_bias_scores(EQUALIZED_ODDS, eta, members)
    for multipliers in ([0.2, 0.1], [-0.15, 0.3], [0.05, -0.4]):
        t = np.array(multipliers) / [1 - eta.mean(), eta.mean()]
        direction = np.stack([-t, t], axis=1)
        own = (Correction(scores, direction, 0.5).margins(eta, members, 1.0)[0] > 0).astype(float)

        def value(accepted: np.ndarray, multipliers: list[float] = multipliers) -> float:
            total = (accepted * eta + (1 - accepted) * (1 - eta)).mean()
            for multiplier, inside in zip(multipliers, (1 - eta, eta), strict=True):
                weight = inside[:, None] * members
                rate = accepted @ weight / weight.sum(axis=0)
                total -= multiplier * (rate[1] - rate[0])
            return float(total)

        best = max(value(np.array(rule)) for rule in itertools.product((0.0, 1.0), repeat=8))
        assert value(own) == pytest.approx(best)


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
def test_scores_weigh_groups_equally(notion: Notion, kinds: tuple[np.ndarray, np.ndarray]) -> None:
    eta, members = kinds
    scores = fit_bias_scores(notion, eta, members).of(eta, members)  # (n, k, G)
    np.testing.assert_allclose(scores.sum(axis=0)[:, 0], scores.sum(axis=0)[:, 1])


def test_strength_0_is_the_model_and_each_decision_changes_once(kinds: tuple[np.ndarray, np.ndarray]) -> None:
    eta, members = kinds
    scores = fit_bias_scores(EQUALIZED_ODDS, eta, members)
    strengths = np.linspace(0, 3, 301)
    for direction in polar_directions(2):
        correction = Correction(scores, direction, cut=0.45)
        margins = correction.margins(eta, members, strengths)
        np.testing.assert_array_equal(margins[0], 2 * (eta - 0.45))
        decided, at = margins > 0, correction.changes_at(eta, members)
        np.testing.assert_array_equal(decided != decided[0], strengths[:, None] > at)


def test_nobody_changes_without_a_push_or_away_from_the_threshold() -> None:
    found = change_strengths(np.array([0.5, 0.5, 0.5, -0.5]), np.array([0.0, -1.0, 2.0, -0.25]))
    np.testing.assert_array_equal(found, [np.inf, np.inf, 0.25, 2.0])


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("cells", [1, 2])
def test_directions_sum_to_zero_over_groups(groups: int, cells: int) -> None:
    found = pairwise_directions(cells, groups)
    assert found.shape[1:] == (cells, groups)
    np.testing.assert_allclose(found.sum(axis=2), 0, atol=1e-12)
    assert len(np.unique(found.round(9), axis=0)) == len(found)
