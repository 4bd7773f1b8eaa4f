"""Group shares per cell: the rectified mean of prediction-powered inference, with intervals that hold."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from apod.audit.shares import (
    CellAnswers,
    Cells,
    classical_difference,
    components,
    cross_fitted,
    difference,
    estimate_shares,
    fit_logistic,
)
from apod.fairness.metrics import RATES
from support.audits import population

ONE = (np.array([1]), np.array([1]))


def tpr(cells: Cells, shares: np.ndarray) -> np.ndarray:
    return cells.rates(RATES["tpr"], shares)[..., 0, 0, :]


def one_cell(groups: np.ndarray, proxy: np.ndarray, rows: np.ndarray, chance: np.ndarray | None = None) -> CellAnswers:
    chance = np.full(len(rows), len(rows) / len(groups)) if chance is None else chance
    proxies = np.stack([1 - proxy, proxy], axis=1)
    return CellAnswers(np.zeros(len(rows), dtype=np.int64), np.eye(2)[groups[rows]], proxies[rows], chance)


def shares_of(groups: np.ndarray, proxy: np.ndarray, rows: np.ndarray, chance: np.ndarray | None = None):
    sample = one_cell(groups, proxy, rows, chance)
    means = np.array([[1 - proxy.mean(), proxy.mean()]])
    return estimate_shares(sample, np.array([float(len(groups))]), np.array([1]), means)


def test_a_share_is_the_rectified_mean_with_the_power_that_minimises_its_variance() -> None:
    rng = np.random.default_rng(0)
    proxy = rng.beta(2, 3, 2000)
    groups = (rng.random(2000) < 0.8 * proxy).astype(int)
    rows = rng.choice(2000, 150, replace=False)
    found = shares_of(groups, proxy, rows)
    y, f = groups[rows].astype(float), proxy[rows]
    power = np.cov(y, f, bias=True)[0, 1] / f.var()  # least squares: what is left of y after power * f varies least
    assert found.power[0] == pytest.approx(power)
    assert found.share[0, 1] == pytest.approx(y.mean() + power * (proxy.mean() - f.mean()))


def test_without_proxies_every_possible_sample_together_gives_the_true_share() -> None:
    groups = np.array([0, 1, 1, 0, 1, 1, 0, 1, 0, 1])
    flat = np.full(10, 0.5)
    found = [shares_of(groups, flat, np.array(rows)).share[0, 1] for rows in combinations(range(10), 4)]
    assert np.mean(found) == pytest.approx(groups.mean())


def test_unequal_draws_are_weighted_by_the_inverse_of_their_probability() -> None:
    groups = np.array([1] * 50 + [0] * 50)
    rows = np.array([0, 1, 2, 3, 50, 51])  # the first half was drawn twice as often
    chance = np.array([0.2, 0.2, 0.2, 0.2, 0.1, 0.1])
    found = shares_of(groups, np.full(100, 0.5), rows, chance)
    assert found.share[0, 1] == pytest.approx((4 / 0.2) / (4 / 0.2 + 2 / 0.1))
    assert found.effective[0] < 6 / 0.8  # unequal weights tell less than as many equal ones


def test_a_census_is_certain() -> None:
    groups = np.random.default_rng(1).integers(0, 2, 60)
    found = shares_of(groups, np.full(60, 0.4), np.arange(60))
    drawn = found.draw(500, np.random.default_rng(0))[..., 0, 1]
    assert found.share[0, 1] == pytest.approx(groups.mean())
    assert np.ptp(drawn) < 1e-3


def test_a_perfect_proxy_narrows_and_a_useless_one_does_not_widen() -> None:
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 2, 5000)
    rows = rng.choice(5000, 200, replace=False)

    def width(proxy: np.ndarray) -> float:
        drawn = shares_of(groups, proxy, rows).draw(4000, np.random.default_rng(0))[:, 0, 1]
        return float(np.subtract(*np.quantile(drawn, [0.975, 0.025])))

    plain = width(np.full(5000, 0.5))
    assert width(np.where(groups == 1, 1.0, 0.0)) < 0.2 * plain
    assert width(rng.random(5000)) < 1.05 * plain
    assert width(np.where(groups == 1, 0.1, 0.9)) < 1.05 * plain  # upside down: not used


def test_answers_that_are_all_the_same_leave_doubt() -> None:
    groups = np.ones(1000, dtype=int)
    drawn = shares_of(groups, np.full(1000, 0.9), np.arange(3)).draw(4000, np.random.default_rng(0))[:, 0, 1]
    assert np.quantile(drawn, 0.025) < 0.5


@pytest.mark.parametrize(("q", "n"), [((0.3, 0.8), (30, 30)), ((0.05, 0.15), (30, 30)), ((0.5, 0.5), (12, 40))])
def test_exact_coverage_over_all_possible_answers_is_near_95_percent(
    q: tuple[float, float], n: tuple[int, int]
) -> None:
    """Two cells of 400 people; the numbers of answers for the group are hypergeometric: every case is enumerated."""
    size = 400
    members = [round(size * share) for share in q]
    cells = Cells(np.array([1, 1]), np.array([1, 0]), np.array([400.0, 400.0]), np.zeros((2, 2)))
    truth = difference(tpr(cells, np.array([[1 - m / size, m / size] for m in members])))
    cases = [(a, b) for a in range(n[0] + 1) for b in range(n[1] + 1)]
    chance = np.array(
        [
            np.prod(
                [
                    comb(m, k) * comb(size - m, total - k) / comb(size, total)
                    for m, k, total in zip(members, case, n, strict=True)
                ]
            )
            for case in cases
        ]
    )
    cell = np.repeat([0, 1], n)
    answers = np.stack([np.eye(2)[np.r_[np.arange(n[0]) < a, np.arange(n[1]) < b].astype(int)] for a, b in cases])
    flat = np.full_like(answers, 0.5)
    probability = np.broadcast_to(np.array(n)[cell] / size, answers.shape[:2])
    sample = CellAnswers(np.broadcast_to(cell, answers.shape[:2]), answers, flat, probability)
    found = estimate_shares(sample, cells.sizes, cells.labels, np.full((len(cases), 2, 2), 0.5))
    drawn = difference(tpr(cells, found.draw(600, np.random.default_rng(0))))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=-1)
    covered = float(chance @ ((low <= truth) & (truth <= high)))
    assert chance.sum() == pytest.approx(1)
    assert 0.93 <= covered <= 0.985


def test_the_classical_interval_is_the_textbook_one() -> None:
    rng = np.random.default_rng(3)
    cell, groups = rng.integers(0, 4, 200), rng.integers(0, 2, 200)
    cells = Cells(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.full(4, 1000.0), np.zeros((4, 2)))
    sample = CellAnswers(cell, np.eye(2)[groups], np.full((200, 2), 0.5), np.full(200, 0.05))
    middle, low, high = classical_difference(sample, cells, RATES["tpr"])
    chosen = [(cell % 2)[(cell // 2 == 1) & (groups == g)] for g in (0, 1)]
    error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in chosen))
    assert middle == pytest.approx(chosen[0].mean() - chosen[1].mean())
    assert (high - low) / 2 == pytest.approx(1.959964 * error)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(2, 4), st.integers(0, 10_000))
def test_shares_are_shares_whatever_the_answers_and_proxies(n: int, g: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample = CellAnswers(
        rng.integers(0, 4, n), np.eye(g)[rng.integers(0, g, n)], rng.dirichlet(np.ones(g), n), rng.uniform(0.01, 1, n)
    )
    found = estimate_shares(sample, np.full(4, 100.0), np.array([0, 0, 1, 1]), rng.dirichlet(np.ones(g), 4))
    assert np.allclose(found.share.sum(-1), 1)
    assert (found.share >= 0).all()
    drawn = found.draw(20, rng)
    assert np.isfinite(drawn).all()
    assert np.allclose(drawn.sum(-1), 1)


def test_a_batch_of_audits_gives_what_each_gives_alone() -> None:
    rng = np.random.default_rng(5)
    cells, answers = rng.integers(0, 4, (3, 50)), np.eye(2)[rng.integers(0, 2, (3, 50))]
    proxies, means = rng.dirichlet([1, 1], (3, 50)), rng.dirichlet([1, 1], (3, 4))
    chance = rng.uniform(0.1, 0.9, (3, 50))
    sizes, labels = np.full(4, 300.0), np.array([0, 0, 1, 1])
    together = estimate_shares(CellAnswers(cells, answers, proxies, chance), sizes, labels, means)
    for b in range(3):
        alone = estimate_shares(CellAnswers(cells[b], answers[b], proxies[b], chance[b]), sizes, labels, means[b])
        assert np.allclose(alone.share, together.share[b])
        assert np.allclose(alone.effective, together.effective[b])


def test_the_logistic_fit_is_scikit_learn_s() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    y = (rng.random(120) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    mine = fit_logistic(x[None], y[None], np.ones((1, 120)), ridge=30.0)[0]
    # scikit-learn leaves the intercept unpenalised; here half an answer's worth holds it
    theirs = LogisticRegression(C=1 / 30, tol=1e-8, max_iter=1000).fit(x, y)
    assert np.allclose(mine[:-1], theirs.coef_[0], atol=2e-3)
    assert mine[-1] == pytest.approx(theirs.intercept_[0], abs=0.02)


def test_nobody_s_proxy_depends_on_their_own_answer() -> None:
    people = population(500)
    rows = np.arange(60)
    targets = np.eye(2)[people["groups"][rows]]
    inputs = components(people["x"])
    base = cross_fitted(inputs, rows, targets, np.random.default_rng(0))
    for one in (0, 17, 59):
        turned = targets.copy()
        turned[one] = turned[one][::-1]
        changed = cross_fitted(inputs, rows, turned, np.random.default_rng(0))
        assert np.array_equal(changed[one], base[one])
        assert not np.allclose(changed[100:], base[100:])
