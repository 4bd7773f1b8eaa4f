"""The posterior of f_a: curvature by finite differences, draws by their moments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apod.method.algorithm1 import Answers
from apod.method.proxy import INTERCEPT_PRECISION, LaplaceProxy, free_groups, precision_matrix, weight_draws


def negative_log_posterior(
    weights: np.ndarray, inputs: np.ndarray, groups: np.ndarray, trust: np.ndarray, C: float
) -> float:
    """- log p(w | answers) up to a constant, for (M + 1, J) weights of the free groups."""
    scores = inputs @ weights
    if scores.shape[1] == 1:  # two groups: the first has score 0
        scores = np.concatenate([np.zeros((len(inputs), 1)), scores], axis=1)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    prior = np.full(len(weights), 1 / C)
    prior[-1] = INTERCEPT_PRECISION
    return float(-(trust * logs[np.arange(len(groups)), groups]).sum() + 0.5 * (prior[:, None] * weights**2).sum())


@pytest.mark.parametrize("n_groups", [2, 3])
def test_the_precision_is_the_curvature_of_the_log_posterior(n_groups: int) -> None:
    rng = np.random.default_rng(n_groups)
    inputs = np.concatenate([rng.normal(size=(7, 3)), np.ones((7, 1))], axis=1)
    groups, trust = rng.integers(0, n_groups, 7), rng.uniform(0.3, 1, 7)
    weights = rng.normal(size=(4, len(free_groups(n_groups))))
    scores = inputs @ weights
    if n_groups == 2:
        scores = np.concatenate([np.zeros((7, 1)), scores], axis=1)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = precision_matrix(inputs, probabilities, trust, C=0.7)

    def value(flat: np.ndarray) -> float:
        return negative_log_posterior(flat.reshape(weights.shape), inputs, groups, trust, 0.7)

    size, step, start = weights.size, 1e-4, weights.ravel()
    unit = np.eye(size) * step
    expected = np.array(
        [
            [
                value(start + unit[a] + unit[b])
                - value(start + unit[a] - unit[b])
                - value(start - unit[a] + unit[b])
                + value(start - unit[a] - unit[b])
                for b in range(size)
            ]
            for a in range(size)
        ]
    ) / (4 * step**2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_draws_have_the_posterior_s_mean_and_covariance() -> None:
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(6, 6))
    precision = factor @ factor.T + np.eye(6)
    weights = np.concatenate([np.zeros((6, 1)), rng.normal(size=(6, 1))], axis=1)  # two groups: the second is free
    drawn = weight_draws(weights, precision, rng, count=200_000)
    assert (drawn[:, :, 0] == 0).all()
    np.testing.assert_allclose(drawn[:, :, 1].mean(axis=0), weights[:, 1], atol=0.01)
    np.testing.assert_allclose(np.cov(drawn[:, :, 1].T), np.linalg.inv(precision), atol=0.01)


def proxy_of(embeddings: torch.Tensor, answers: Answers) -> LaplaceProxy:
    proxy = LaplaceProxy(1, embeddings.shape[1], 2, seed=0, dataset="people")
    proxy.fit(embeddings, [answers])
    return proxy


def test_more_answers_leave_less_open() -> None:
    rng = np.random.default_rng(1)
    embeddings = torch.from_numpy(rng.normal(size=(400, 5)).astype(np.float32))
    groups = (embeddings[:, 0] > 0).long().tolist()
    few, many = (
        proxy_of(embeddings, Answers(tuple(range(n)), tuple(groups[:n]))).draws(embeddings)[..., 1].std(dim=0).mean()
        for n in (10, 200)
    )
    assert many < few / 2


def test_draws_are_probabilities_and_the_same_after_a_checkpoint() -> None:
    rng = np.random.default_rng(2)
    embeddings = torch.from_numpy(rng.normal(size=(50, 4)).astype(np.float32))
    proxy = proxy_of(embeddings, Answers((0, 1, 2, 3), (0, 1, 0, 1)))
    drawn = proxy.draws(embeddings)  # (D, 1, 50, 2)
    torch.testing.assert_close(drawn.sum(dim=3), torch.ones(drawn.shape[:3]))
    again = LaplaceProxy(1, 4, 2, seed=0, dataset="people")
    again.restore(proxy.state())
    torch.testing.assert_close(again.draws(embeddings), drawn, rtol=0, atol=0)
