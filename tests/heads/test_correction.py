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
    fit_grid,
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
    grid = fit_grid(scores.of(eta, members), 2 * (eta - 0.45))
    for direction in grid.directions(grid.coarse()):
        correction = Correction(scores, direction, cut=0.45)
        margins = correction.margins(eta, members, strengths)
        np.testing.assert_array_equal(margins[0], 2 * (eta - 0.45))
        decided, at = margins > 0, correction.changes_at(eta, members)
        np.testing.assert_array_equal(decided != decided[0], strengths[:, None] > at)


def test_nobody_changes_without_a_push_or_away_from_the_threshold() -> None:
    found = change_strengths(np.array([0.5, 0.5, 0.5, -0.5]), np.array([0.0, -1.0, 2.0, -0.25]))
    np.testing.assert_array_equal(found, [np.inf, np.inf, 0.25, 2.0])


def some_scores(cells: int, groups: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of 400 people whose cells say nearly the same, as with unbalanced labels, and their margins."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((400, 1, groups))
    scores = common * np.array([1.0, 5.0])[:cells, None] + 0.3 * rng.standard_normal((400, cells, groups))
    return scores, rng.uniform(-1, 1, 400)


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("cells", [1, 2])
def test_directions_sum_to_zero_over_groups_and_none_comes_twice(groups: int, cells: int) -> None:
    grid = fit_grid(*some_scores(cells, groups))
    turns = grid.coarse()
    found = np.concatenate([grid.directions(own) for own in (turns, grid.around(turns, 1, 1.2))])
    assert found.shape[1:] == (cells, groups)
    np.testing.assert_allclose(found.sum(axis=2), 0, atol=1e-12)
    assert len(np.unique(found.round(9), axis=0)) == len(found)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("cells", [1, 2])
def test_every_direction_moves_people_near_the_threshold_as_far(groups: int, cells: int) -> None:
    scores, margins = some_scores(cells, groups)
    grid = fit_grid(scores, margins)
    near = np.argsort(np.abs(margins))[:40]
    for direction in grid.directions(grid.coarse()):
        pushes = [sum((scores[i] * direction).ravel()) for i in near]
        assert np.sqrt(np.mean(np.square(pushes))) == pytest.approx(1, abs=0.02)


def test_the_grid_does_not_depend_on_the_units_of_a_cell() -> None:
    """Pushes of the whole circle are the same set of lines whatever a cell's scores are multiplied by."""
    scores, margins = some_scores(2, 2)
    other = scores * np.array([1.0, 40.0])[:, None]
    shares = []
    for own in (scores, other):
        grid = fit_grid(own, margins)
        pushes = np.einsum("akg,nkg->an", grid.directions(grid.coarse(2000)), own)
        shares.append(np.sort(pushes[:, 0]))
    np.testing.assert_allclose(shares[0], shares[1], atol=0.01)


def test_finer_directions_lie_between_the_leader_and_its_neighbours() -> None:
    grid = fit_grid(*some_scores(2, 2))
    turns = grid.coarse()
    finer = grid.around(turns, 3, 1.25)
    assert finer.angle.min() > turns.angle[2]
    assert finer.angle.max() < turns.angle[4]
    assert set(finer.length.round(6)) == {1.0, round(1.25**0.5, 6)}


def test_scores_that_say_nothing_are_not_stretched_without_end() -> None:
    grid = fit_grid(np.zeros((50, 2, 2)), np.linspace(-1, 1, 50))
    assert np.abs(grid.directions(grid.coarse())).max() <= 100 * (1 + 1e-9)
