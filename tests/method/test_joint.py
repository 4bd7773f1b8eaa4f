"""Intersections of several attributes: the formula, the mode of what goes with what, and answers that overwrite it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from apod.method.joint import associated, cell_codes, cell_names, crossed_members, fit_joint, joined
from apod.method.posterior import Posterior, QuickPosterior
from support.correction_people import simulated_population

SIZES = (2, 3, 2)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _members(rng: np.random.Generator, n: int, draws: int) -> list[np.ndarray]:
    return [rng.dirichlet(np.ones(size), (n, draws)) for size in SIZES]


def _associations(rng: np.random.Generator, draws: int) -> dict[tuple[int, int], np.ndarray]:
    return {(i, j): rng.normal(size=(draws, SIZES[i], SIZES[j])) for i, j in ((0, 1), (0, 2), (1, 2))}


def test_intersections_are_the_product_of_the_margins_and_what_goes_with_what(rng: np.random.Generator) -> None:
    members, t = _members(rng, 4, 3), _associations(rng, 3)
    found = joined(members, t)
    for person, draw in product(range(4), range(3)):
        expected = np.array(
            [
                members[0][person, draw, a]
                * members[1][person, draw, b]
                * members[2][person, draw, c]
                * np.exp(t[0, 1][draw, a, b] + t[0, 2][draw, a, c] + t[1, 2][draw, b, c])
                for a, b, c in product(*map(range, SIZES))
            ]
        )
        np.testing.assert_allclose(found[person, draw], expected / expected.sum(), rtol=1e-5)
    one = crossed_members([own[:, 0] for own in members], {pair: own[0] for pair, own in t.items()})
    np.testing.assert_allclose(one, found[:, 0], rtol=1e-5)


def test_without_association_intersections_are_independent(rng: np.random.Generator) -> None:
    members = _members(rng, 5, 1)
    crossed = joined(members, {})[:, 0].reshape(5, *SIZES)
    np.testing.assert_allclose(crossed.sum(axis=(2, 3)), members[0][:, 0], rtol=1e-5)


def test_what_goes_with_what_is_the_mode_of_its_posterior(rng: np.random.Generator) -> None:
    p, q = rng.dirichlet(np.ones(2), 40), rng.dirichlet(np.ones(3), 40)
    one, other = np.eye(2)[rng.integers(0, 2, 40)], np.eye(3)[rng.integers(0, 3, 40)]
    cells = one[:, :, None] * other[:, None, :]

    def loss(flat: np.ndarray) -> float:
        t = flat.reshape(2, 3)
        likely = p[:, :, None] * q[:, None, :] * np.exp(t)
        shares = likely / likely.sum(axis=(1, 2), keepdims=True)
        return float(-np.log((shares * cells).sum(axis=(1, 2))).sum() + (t**2).sum() / (2 * 0.7**2))

    mode, precision = associated(p, q, one, other)
    best = minimize(loss, np.zeros(6), tol=1e-12)
    np.testing.assert_allclose(mode.ravel(), best.x, atol=1e-4)
    step = 1e-4
    curvature = np.empty((6, 6))
    for i, j in product(range(6), repeat=2):
        a, b = step * np.eye(6)[i], step * np.eye(6)[j]
        around = mode.ravel()
        curvature[i, j] = (
            loss(around + a + b) - loss(around + a - b) - loss(around - a + b) + loss(around - a - b)
        ) / (4 * step**2)
    np.testing.assert_allclose(precision, curvature, atol=1e-2)


def test_a_cell_that_nobody_was_found_in_stays_near_its_margins() -> None:
    guess, one = np.full((30, 2), 0.5), np.eye(2)[np.zeros(30, dtype=int)]
    mode, _ = associated(guess, guess, one, np.eye(2)[np.arange(30) % 2])
    assert (np.abs(mode[1]) < 1.5).all()
    none, precision = associated(guess[:0], guess[:0], one[:0], one[:0])
    np.testing.assert_array_equal(none, 0)
    np.testing.assert_allclose(precision, np.eye(4) / 0.7**2)


def test_known_people_are_in_their_intersection_and_half_known_ones_in_its_row() -> None:
    population, groups = simulated_population(400, 0)
    rng = np.random.default_rng(1)
    width = population.columns.shape[1]
    parts = [Posterior(population.reader, rng.normal(size=(8, size - 1, width))) for size in (2, 3)]
    told = [(np.array([3, 5]), np.eye(2)[[0, 1]]), (np.array([5, 9]), np.eye(3)[[2, 0]])]
    joint = fit_joint(parts, population.columns, told, 0)
    assert joint.versions == (8, 6)
    members = np.concatenate([own for _, own in joint.crossed_blocks(population.columns, told)])
    np.testing.assert_allclose(members.sum(axis=2), 1, rtol=1e-5)
    np.testing.assert_array_equal(members[5], np.tile(np.eye(6, dtype=np.float32)[5], (8, 1)))
    assert (members[3][:, 3:] == 0).all()
    assert (members[9].reshape(8, 2, 3)[:, :, 1:] == 0).all()
    assert len(groups) == 400


def test_cells_are_numbered_with_the_last_attribute_fastest() -> None:
    assert cell_names([("f", "m"), ("x", "y")]) == ("f, x", "f, y", "m, x", "m, y")
    codes = cell_codes([np.array([0, 1, -1]), np.array([1, 0, 1])], (2, 2))
    assert codes.tolist() == [1, 2, -1]


def test_quick_memberships_are_the_same_up_to_rounding(rng: np.random.Generator) -> None:
    population, _ = simulated_population(50, 0)
    weights = rng.normal(size=(6, 3, population.columns.shape[1]))
    slow, quick = (kind(population.reader, weights).members(population.columns) for kind in (Posterior, QuickPosterior))
    np.testing.assert_allclose(quick, slow, rtol=1e-4, atol=1e-6)
