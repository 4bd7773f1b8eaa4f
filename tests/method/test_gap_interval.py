"""Intervals of the gap: largest and smallest over the region by brute force; 0 where a fair model is in it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from apod.fairness.notions import EQUALIZED_ODDS, NOTIONS, Notion
from apod.method.gap_interval import estimate_gap, interval, part_rates, signed_differences, two_group_interval


@pytest.mark.parametrize("mean", [(0.2, 0.15), (0.3, -0.02), (-0.25, 0.2), (0.02, 0.01)])
def test_the_interval_holds_every_gap_of_the_ellipse_and_no_other(mean: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    covariance = np.array([[0.004, 0.001], [0.001, 0.002]])
    signed = rng.multivariate_normal(mean, covariance, size=200_000)
    low, high = two_group_interval(signed)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 1001)] * 2), axis=-1).reshape(-1, 2)
    inside = np.einsum("ni,ij,nj->n", grid - mean, np.linalg.inv(covariance), grid - mean) <= chi2(2).ppf(0.95)
    gaps = np.abs(grid[inside]).sum(axis=1)
    assert low == pytest.approx(gaps.min(), abs=0.006)
    assert high == pytest.approx(gaps.max(), abs=0.006)


def test_one_difference_has_its_usual_interval_folded_at_zero() -> None:
    signed = 0.1 + 0.03 * np.random.default_rng(1).standard_normal((100_000, 1))
    assert two_group_interval(signed) == pytest.approx((0.1 - 1.96 * 0.03, 0.1 + 1.96 * 0.03), abs=0.002)
    assert two_group_interval(signed - 0.08)[0] == 0


def test_a_part_of_n_people_has_binomial_sampling_error() -> None:
    rng = np.random.default_rng(2)
    rates, people = np.tile([[0.3, 0.6], [0.1, 0.2]], (4000, 1, 1)), np.array([[50.0, 200.0], [80.0, 30.0]])
    noisy = part_rates(rates, people, rng)
    np.testing.assert_allclose(noisy.std(axis=0), np.sqrt(rates[0] * (1 - rates[0]) / people), rtol=0.05)
    np.testing.assert_allclose(noisy.mean(axis=0), rates[0], atol=1e-12)


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
@pytest.mark.parametrize("groups", [2, 4])
def test_the_interval_covers_the_gap_of_a_part_drawn_from_the_posterior(notion: Notion, groups: int) -> None:
    """Truth drawn like the draws themselves, then a part of 500 people: at least 95 % are covered, fair ones too."""
    rng = np.random.default_rng(3)
    cells, covered = notion.cells(np.array([0, 1])).shape[1], []
    for trial in range(120):
        centre = rng.uniform(0.3, 0.6, (cells, 1)) + rng.normal(0, 0.12 * (trial % 3), (cells, groups))
        centre = centre.clip(0.1, 0.9)
        rates = (centre + 0.04 * rng.standard_normal((257, cells, groups))).clip(0.01, 0.99)
        truth, people = rates[-1], np.full((cells, groups), 125.0)
        counted = rng.binomial(125, truth) / 125
        found = estimate_gap(notion, rates[:-1], people, np.random.default_rng(0))
        gap = notion.gap(counted[:, None])
        covered.append(found.low <= gap <= found.high)
    assert np.mean(covered) >= 0.93


def test_fair_draws_have_an_interval_from_zero_and_a_group_of_nobody_has_none() -> None:
    rng = np.random.default_rng(4)
    rates = 0.4 + 0.02 * rng.standard_normal((256, 2, 3))
    assert estimate_gap(EQUALIZED_ODDS, rates, np.full((2, 3), 100.0), rng).low == 0
    assert interval(EQUALIZED_ODDS, signed_differences(rates))[0] == 0
    nobody = np.array([[100.0, 0.0], [100.0, 100.0]])
    assert np.isnan(estimate_gap(EQUALIZED_ODDS, rates[..., :2], nobody, rng).high)
