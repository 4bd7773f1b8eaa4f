"""Draws of f_a's weights: their moments are those of the posterior, by quadrature and by other ways to draw them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from polyagamma import random_polyagamma
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit, logsumexp

from apod.method.sampler import Design, draw_normal_weights, draw_weights, few_people, many_people

WIDTHS = np.array([0.3, 3.0])


def design(columns: np.ndarray, last_variance: float = 4.0) -> Design:
    variances = np.column_stack([np.repeat(WIDTHS[:, None], columns.shape[1] - 1, axis=1), [last_variance] * 2])
    return Design(columns, variances, np.log([0.4, 0.6]))


def by_quadrature(
    shape: Design,
    groups: np.ndarray,
    likelihood: np.ndarray | None = None,
    told: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, ...]:
    """Mean and covariance of two weights, and P(first width), on a fine grid; group 1 is the reference."""
    axis = np.linspace(-14, 14, 281)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    logits = grid @ shape.columns.T  # (points, n)
    log_known = np.log(np.clip(np.eye(2)[groups] if likelihood is None else likelihood, 1e-300, None))
    each = np.logaddexp(log_expit(logits) + log_known[:, 0], log_expit(-logits) + log_known[:, 1])
    log_likelihood = each.sum(axis=1) + (0 if told is None else told(grid[:, None]))
    parts = []
    for variance, prior in zip(shape.variances, shape.log_prior, strict=True):
        parts.append(prior + log_likelihood - 0.5 * (grid**2 / variance + np.log(variance)).sum(axis=1))
    logs = np.array(parts)
    weight = np.exp(logs - logsumexp(logs))
    own = weight.sum(axis=0)
    mean = own @ grid
    return mean, (grid - mean).T @ ((grid - mean) * own[:, None]), weight[0].sum()


@pytest.fixture
def small() -> tuple[Design, np.ndarray]:
    rng = np.random.default_rng(3)
    columns = np.column_stack([rng.normal(size=14), np.ones(14)])
    return design(columns), (rng.random(14) < expit(1.5 * columns[:, 0] - 0.5)).astype(int)


def assert_same_posterior(drawn: np.ndarray, places: np.ndarray, truth: tuple[np.ndarray, ...]) -> None:
    mean, covariance, first = truth
    error = np.sqrt(np.diag(covariance) / (len(drawn) / 8))  # draws of a chain are not independent
    assert np.abs(drawn.mean(axis=0) - mean).max() < 4 * error.max()
    assert np.abs(np.cov(drawn.T) - covariance).max() < 0.12 * covariance.max()
    assert abs((places == 0).mean() - first) < 0.03


def test_polya_gamma_draws_have_the_mean_that_the_augmentation_needs() -> None:
    for c in (0.0, 0.7, 3.0, 12.0):
        drawn = random_polyagamma(1.0, np.full(40_000, c), random_state=np.random.default_rng(1))
        expected = 0.25 if c == 0 else np.tanh(c / 2) / (2 * c)
        assert abs(drawn.mean() - expected) < 5 * drawn.std() / 200


@pytest.mark.parametrize("space", ["columns", "people"])
def test_draws_have_the_moments_of_the_posterior_by_quadrature(
    space: str, small: tuple[Design, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, groups = small
    if space == "people":  # 14 people and 2 columns would choose the other
        monkeypatch.setattr("apod.method.sampler.many_people", few_people)
    drawn, places = draw_weights(shape, np.eye(2)[groups], np.random.default_rng(0), chains=40, kept=400, burn_in=100)
    assert_same_posterior(drawn[:, 0], places[:, 0], by_quadrature(shape, groups))


def test_true_groups_behind_uncertain_answers_are_averaged_over(small: tuple[Design, np.ndarray]) -> None:
    shape, groups = small
    likelihood = np.eye(2)[groups]
    likelihood[:5] = np.where(likelihood[:5] == 1, 0.8, 0.2)
    likelihood[5] = 0.5  # says nothing
    drawn, places = draw_weights(shape, likelihood, np.random.default_rng(0), chains=40, kept=400, burn_in=100)
    assert_same_posterior(drawn[:, 0], places[:, 0], by_quadrature(shape, groups, likelihood))


def test_the_usual_number_of_draws_is_near_a_long_chain() -> None:
    rng = np.random.default_rng(5)
    columns = np.column_stack([rng.normal(size=(30, 40)) / np.sqrt(40), np.ones(30)])
    shape, groups = design(columns), (rng.random(30) < 0.4).astype(int)
    usual = draw_weights(shape, np.eye(2)[groups], np.random.default_rng(1))[0][:, 0] @ columns.T
    long = draw_weights(shape, np.eye(2)[groups], np.random.default_rng(2), kept=1500, burn_in=500)[0][:, 0] @ columns.T
    assert np.abs(usual.mean(axis=0) - long.mean(axis=0)).max() < 0.3 * long.std(axis=0).max()
    assert np.abs(usual.std(axis=0) / long.std(axis=0) - 1).max() < 0.25


def test_both_spaces_give_the_same_moments_in_one_step() -> None:
    rng = np.random.default_rng(7)
    columns = rng.normal(size=(6, 4))
    shape = Design(columns, np.array([[0.5, 1.0, 2.0, 4.0]]), np.zeros(1))
    omega, residual = np.tile(rng.random(6) + 0.1, (60_000, 1)), np.tile([0.5, -0.5] * 3, (60_000, 1))
    place = np.zeros(60_000, dtype=int)
    one, other = (
        kind(shape)(omega, residual, place, False, np.random.default_rng(0))[0] for kind in (few_people, many_people)
    )
    precision = (columns * omega[0][:, None]).T @ columns + np.diag(1 / shape.variances[0])
    for drawn in (one, other):
        assert np.allclose(np.cov(drawn.T), np.linalg.inv(precision), atol=0.06)
        assert np.allclose(drawn.mean(axis=0), np.linalg.solve(precision, residual[0] @ columns), atol=0.03)


def test_more_groups_are_compared_with_the_last_one_each_on_its_own_people() -> None:
    rng = np.random.default_rng(8)
    columns = np.column_stack([rng.normal(size=24), np.ones(24)])
    groups = rng.integers(0, 3, size=24)
    shape = design(columns)
    drawn, places = draw_weights(shape, np.eye(3)[groups], np.random.default_rng(0), chains=40, kept=400, burn_in=100)
    for group in (0, 1):
        own = (groups == group) | (groups == 2)
        truth = by_quadrature(design(columns[own]), (groups[own] != group).astype(int))
        assert_same_posterior(drawn[:, group], places[:, group], truth)


def test_what_is_told_besides_the_answers_is_one_more_likelihood(small: tuple[Design, np.ndarray]) -> None:
    shape, groups = small

    def told(weights: np.ndarray) -> np.ndarray:
        """Of (draws, 1, 2) weights: the intercept is about -1."""
        return np.asarray(-0.5 * ((weights[:, 0, 1] + 1) / 0.3) ** 2)

    with_it = replace(shape, told=told, shifted=(0, 1))
    drawn, places = draw_weights(with_it, np.eye(2)[groups], np.random.default_rng(0), chains=40, kept=400, burn_in=100)
    truth = by_quadrature(shape, groups, told=told)
    assert abs(truth[0][1] - by_quadrature(shape, groups)[0][1]) > 0.5  # it says something else than the answers
    assert_same_posterior(drawn[:, 0], places[:, 0], truth)


def test_normal_draws_are_about_the_mode_with_the_inverse_curvature_there() -> None:
    rng = np.random.default_rng(5)
    columns = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)])
    likelihood = np.eye(3)[rng.integers(0, 3, 300)]
    likelihood[:40] = rng.dirichlet(np.ones(3), 40)  # uncertain answers count as shares of a person
    variance, means = np.array([0.5, 2.0, 4.0]), np.array([[0.4, 0.0, -1.0], [0.0, 0.3, 0.5]])
    drawn = draw_normal_weights(Design(columns, variance[None], np.zeros(1), means), likelihood, rng, 20_000)
    for group in (0, 1):
        own, other = likelihood[:, group], likelihood[:, 2]

        def loss(weights: np.ndarray, own=own, other=other, mean=means[group]) -> float:
            logits = columns @ weights
            fit = own @ log_expit(logits) + other @ log_expit(-logits)
            return float(0.5 * ((weights - mean) ** 2 / variance).sum() - fit)

        found = minimize(loss, np.zeros(3), tol=1e-10)
        covariance = np.linalg.inv(approx_fprime(found.x, lambda at, loss=loss: approx_fprime(at, loss, 1e-5), 1e-4))
        assert np.abs(drawn[:, group].mean(axis=0) - found.x).max() < 5 * np.sqrt(np.diag(covariance) / 20_000).max()
        np.testing.assert_allclose(np.cov(drawn[:, group].T), covariance, atol=0.05 * covariance.max())
