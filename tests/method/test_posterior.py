"""f_a's posterior: what it reads, that draws depend on the answers alone, and that answers overwrite guesses."""

from __future__ import annotations

import numpy as np
import pytest
from correction_people import simulate
from scipy.special import expit, softmax
from scipy.stats import lognorm
from sklearn.linear_model import LogisticRegression

from apod.data.encode import EmbeddedBlock
from apod.method.posterior import DEFAULT_PRIOR, PROJECTED, People, Posterior, Prior, fit_reader, memberships, sample
from apod.method.sampler import Design, draw_normal_weights, draw_weights


@pytest.fixture
def people() -> tuple[People, np.ndarray]:
    found, _, groups = simulate(400, np.random.default_rng(0))
    return found, groups


def test_ordinary_columns_keep_the_inputs_and_their_variances_add_up_to_one(people: tuple[People, np.ndarray]) -> None:
    own, _ = people
    columns = fit_reader(own, 0).ordinary(own.inputs)
    assert columns.shape == (400, 6)
    assert columns.var(axis=0, ddof=1).sum() == pytest.approx(1)
    assert np.linalg.matrix_rank(np.column_stack([columns, own.inputs - own.inputs.mean(axis=0)])) == 6


def test_targeted_columns_say_the_cell_and_the_margin_within_it(people: tuple[People, np.ndarray]) -> None:
    own, _ = people
    one, label, decision, both, margin = fit_reader(own, 0).columns(own)[:, 6:].T
    assert (one == 1).all()
    assert abs(label.mean()) < 1e-12
    assert abs(decision.mean()) < 1e-12
    np.testing.assert_allclose(both, 2 * label * decision)
    for y in (0, 1):
        for d in (0, 1):
            assert abs(margin[(own.labels == y) & (own.decisions == d)].mean()) < 1e-12


def test_wide_inputs_are_projected_and_constant_ones_ignored() -> None:
    rng = np.random.default_rng(1)
    wide = People(rng.normal(size=(300, 1500)), rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.normal(size=300))
    wide.inputs[:, 7] = 3.0
    reader = fit_reader(wide, 0)
    assert reader.ordinary_count <= PROJECTED
    changed = wide.inputs.copy()
    changed[:, 7] = 99.0
    np.testing.assert_allclose(reader.ordinary(changed), reader.ordinary(wide.inputs), atol=1e-9)


def mixed(columns: int = 1300, n: int = 600) -> tuple[People, np.ndarray]:
    """A picture of so many numbers beside one ordinary column, the last, which alone says the group."""
    rng = np.random.default_rng(2)
    inputs, groups = rng.normal(size=(n, columns + 1)), rng.integers(0, 2, n)
    inputs[:, -1] = (2.0 * groups - 1 + 0.5 * rng.normal(size=n)) / 1.12
    return People(inputs, rng.integers(0, 2, n), rng.integers(0, 2, n), rng.normal(size=n)), groups


def test_every_embedding_and_the_ordinary_columns_have_the_same_variance() -> None:
    own, _ = mixed(columns=60)
    places = [np.arange(40), np.arange(40, 60), np.array([60])]
    reader = fit_reader(own, 0, blocks=[EmbeddedBlock(block, np.ones(len(block))) for block in places[:2]])
    each = [np.zeros_like(own.inputs) for _ in range(3)]
    for part, own_places in zip(each, places, strict=True):
        part[:, own_places] = own.inputs[:, own_places] - own.inputs[:, own_places].mean(axis=0)
    variances = [(part @ reader.components).var(axis=0).sum() for part in each]
    assert variances[2] == pytest.approx(1 / 3, abs=0.05)
    assert min(variances) > 0.2  # 48 directions of 61 hold most of either embedding


def test_directions_of_an_embedding_keep_their_proportions() -> None:
    own, _ = mixed(columns=60)
    deviations = np.linspace(1, 5, 60)
    reader = fit_reader(own, 0, blocks=[EmbeddedBlock(np.arange(60), deviations)])
    weights = reader.components @ np.linalg.pinv(reader.components)  # onto the directions that are kept
    assert np.diag(weights)[40:60].min() > 0.9
    assert np.diag(weights)[:5].max() < 0.5


def test_an_ordinary_column_that_decides_the_group_is_read_beside_a_picture() -> None:
    own, groups = mixed()
    rows = np.arange(40)
    asked = People(own.inputs[rows], own.labels[rows], own.decisions[rows], own.margins[rows])
    right = []
    for blocks in ([], [EmbeddedBlock(np.arange(1300), np.ones(1300))]):
        reader = fit_reader(own, 0, blocks=blocks)
        found = sample(reader, asked, rows, np.eye(2)[groups[rows]], 0, kept=50)
        guesses = memberships(reader, found.score_weights(), own.inputs)[:, 1]
        right.append(np.mean((guesses > 0.5) == groups))
    assert right[0] < 0.75
    assert right[1] > 0.9


def test_the_prior_has_the_stated_deviation_of_every_weight_wide_and_narrow_at_each_width() -> None:
    prior = Prior(widths=(0.5, 4.0), intercept=3.0, label=0.7, decision=0.8, both=0.3, margin=0.4, narrow=0.2)
    variances, logs = prior.grid(2)
    stated = np.array([3.0, 0.7, 0.8, 0.3, 0.4])
    narrow = stated * [1, 1, 0.2, 0.2, 0.2]
    for row, width, deviations in zip(variances, (0.5, 0.5, 4.0, 4.0), (stated, narrow) * 2, strict=True):
        np.testing.assert_allclose(row, [width, width, *deviations**2])
    density = lognorm(prior.width_spread, scale=prior.usual_width).pdf
    odds = density(4.0) * 4.0 / (density(0.5) * 0.5)  # of the logarithm
    assert np.exp(logs[2] - logs[0]) == pytest.approx(odds)


def test_draws_are_the_same_whatever_the_order_of_the_answers(people: tuple[People, np.ndarray]) -> None:
    own, groups = people
    reader, likelihood = fit_reader(own, 0), np.eye(2)[groups]
    rows = np.array([5, 300, 17, 120, 44, 9, 250, 251])
    order = np.array([3, 0, 7, 5, 1, 2, 6, 4])

    def draw(which: np.ndarray, seed: int = 0) -> np.ndarray:
        part = People(own.inputs[which], own.labels[which], own.decisions[which], own.margins[which])
        return sample(reader, part, which, likelihood[which], seed).weights

    np.testing.assert_array_equal(draw(rows), draw(rows[order]))
    assert not np.array_equal(draw(rows), draw(rows, seed=1))


def test_memberships_are_logistic_in_the_columns_and_answers_overwrite_them(people: tuple[People, np.ndarray]) -> None:
    own, _ = people
    reader = fit_reader(own, 0)
    columns, rng = reader.columns(own), np.random.default_rng(2)
    for groups in (2, 3):
        posterior = Posterior(reader, rng.normal(size=(4, groups - 1, columns.shape[1])))
        logits = np.einsum("nc,dgc->ndg", columns, posterior.weights)
        truth = softmax(np.concatenate([logits, np.zeros((400, 4, 1))], axis=2), axis=2)
        np.testing.assert_allclose(posterior.members(columns), truth, atol=1e-5)
        rows, answers = np.array([399, 3]), np.eye(groups)[[0, 1]]
        found = np.concatenate([part for _, part in posterior.blocks(columns, rows, answers)])
        np.testing.assert_array_equal(found[399], np.tile(answers[0], (4, 1)))
        np.testing.assert_array_equal(found[3], np.tile(answers[1], (4, 1)))
        np.testing.assert_allclose(np.delete(found, [3, 399], axis=0), np.delete(truth, [3, 399], axis=0), atol=1e-5)
        unsure = np.full((2, groups), 0.5)
        np.testing.assert_allclose(next(posterior.blocks(columns, rows, unsure))[1], truth, atol=1e-5)


def test_bias_scores_read_mean_weights_without_the_targeted_slopes(people: tuple[People, np.ndarray]) -> None:
    own, _ = people
    reader = fit_reader(own, 0)
    posterior = Posterior(reader, np.random.default_rng(3).normal(size=(50, 1, 11)))
    mean = posterior.weights.mean(axis=0)[0]
    found = memberships(reader, posterior.score_weights(), own.inputs)
    np.testing.assert_allclose(found[:, 0], expit(reader.ordinary(own.inputs) @ mean[:6] + mean[6]))
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_with_many_answers_normal_draws_agree_with_exact_ones_and_with_maximum_likelihood() -> None:
    own, _, groups = simulate(3000, np.random.default_rng(4))
    reader = fit_reader(own, 0)
    columns = reader.columns(own)
    design = Design(columns, *DEFAULT_PRIOR.grid(reader.ordinary_count))
    likelihood = np.eye(2)[groups]
    exact = draw_weights(design, likelihood, np.random.default_rng(0))[0][:, 0]
    normal = draw_normal_weights(design, likelihood, np.random.default_rng(0), 256)[:, 0]
    spread = exact.std(axis=0)
    assert np.abs(exact.mean(axis=0) - normal.mean(axis=0)).max() < 0.4 * spread.max()
    np.testing.assert_allclose(normal.std(axis=0), spread, rtol=0.25)
    best = LogisticRegression(C=np.inf, max_iter=1000).fit(columns[:, :6], groups == 0)
    np.testing.assert_allclose(normal.mean(axis=0)[:6], best.coef_[0], atol=0.35)


def test_normal_draws_of_three_groups_match_exact_ones() -> None:
    rng = np.random.default_rng(5)
    columns = np.column_stack([rng.normal(size=(1500, 2)), np.ones(1500)])
    logits = columns @ np.array([[1.0, -0.5], [0.0, 0.8], [0.2, -0.3]])
    p = softmax(np.column_stack([logits, np.zeros(1500)]), axis=1)
    groups = (rng.random((1500, 1)) > p.cumsum(axis=1)).sum(axis=1)
    design = Design(columns, np.full((1, 3), 4.0), np.zeros(1))
    exact = draw_weights(design, np.eye(3)[groups], np.random.default_rng(0))[0]
    normal = draw_normal_weights(design, np.eye(3)[groups], np.random.default_rng(0), 256)
    np.testing.assert_allclose(normal.mean(axis=0), exact.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(normal.std(axis=0), exact.std(axis=0), rtol=0.25)
