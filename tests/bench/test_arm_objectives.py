"""The baselines' losses: gradients by finite differences of the loss written plainly, updates in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.bench.arm import GroupDro, learning_from_failure_slope

Logits = np.ndarray  # (K, R, 2)


def cross_entropy(pair: np.ndarray, label: int) -> float:
    """-log softmax of one row, by the definition."""
    total = sum(math.exp(value) for value in pair)
    return -math.log(math.exp(pair[label]) / total)


def margins(logits: Logits) -> torch.Tensor:
    """Logit 1 minus logit 0: all the losses depend on, so that their slope in it is their slope in logit 1."""
    return torch.from_numpy(logits[..., 1] - logits[..., 0])


def finite_differences(loss: Callable[[Logits], float], at: Logits, step: float = 1e-6) -> Logits:
    gradient = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (loss(up) - loss(down)) / (2 * step)
    return gradient


def some_rows(heads: int, rows: int, seed: int = 0) -> tuple[Logits, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(heads, rows, 2)) * 2, rng.integers(2, size=rows)


def group_losses(logits: Logits, labels: np.ndarray, groups: np.ndarray, n_groups: int) -> list[list[float]]:
    """Mean cross-entropy of every head and group; 0 for a group that is not there."""
    result = []
    for head in logits:
        own = [[cross_entropy(head[i], labels[i]) for i in np.flatnonzero(groups == a)] for a in range(n_groups)]
        result.append([sum(losses) / len(losses) if losses else 0.0 for losses in own])
    return result


def updated(q: np.ndarray, step_sizes: np.ndarray, losses: list[list[float]]) -> np.ndarray:
    """q_a <- q_a exp(step size x loss of group a), then scaled to sum to one."""
    result = np.zeros_like(q)
    for k, row in enumerate(q):
        grown = [value * math.exp(step_sizes[k] * loss) for value, loss in zip(row, losses[k], strict=True)]
        result[k] = [value / sum(grown) for value in grown]
    return result


def dro(step_sizes: np.ndarray, n_groups: int) -> GroupDro:
    objective = GroupDro(torch.from_numpy(step_sizes), n_groups)
    objective.q = torch.full((len(step_sizes), n_groups), 1 / n_groups, dtype=torch.float64)
    return objective


@pytest.mark.parametrize(("n_groups", "present"), [(2, (0, 1)), (3, (0, 1, 2)), (2, (1,)), (3, (0, 2))])
def test_group_dro_gradient_is_that_of_the_weighted_losses_at_the_updated_q(
    n_groups: int, present: tuple[int, ...]
) -> None:
    step_sizes = np.array([0.01, 0.5, 3.0])
    logits, labels = some_rows(3, 9, seed=n_groups)
    groups = np.array([present[i % len(present)] for i in (0, 0, 1, 2, 0, 1, 2, 2, 0)])
    objective = dro(step_sizes, n_groups)
    q = np.full((3, n_groups), 1 / n_groups)
    for _ in range(3):  # q moves on from step to step
        q = updated(q, step_sizes, group_losses(logits, labels, groups, n_groups))

        def weighted(at: Logits, q: np.ndarray = q) -> float:
            losses = group_losses(at, labels, groups, n_groups)
            return float(sum(np.dot(q[k], losses[k]) for k in range(3)))

        slope = objective.slope(margins(logits), torch.from_numpy(labels), torch.from_numpy(groups))
        np.testing.assert_allclose(objective.q.numpy(), q, rtol=1e-13)
        np.testing.assert_allclose(slope.numpy(), finite_differences(weighted, logits)[..., 1], atol=1e-8)


def test_group_dro_moves_no_weight_to_a_group_that_is_not_in_the_batch_and_loses_it_only_by_scaling() -> None:
    logits, labels = some_rows(1, 4)
    objective = dro(np.array([0.7]), 2)
    objective.slope(margins(logits), torch.from_numpy(labels), torch.zeros(4, dtype=torch.int64))
    grown = math.exp(0.7 * np.mean([cross_entropy(logits[0, i], labels[i]) for i in range(4)]))
    np.testing.assert_allclose(objective.q.numpy(), [[grown / (grown + 1), 1 / (grown + 1)]], rtol=1e-13)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 5), st.integers(2, 4))
def test_group_dro_weights_stay_a_distribution_and_favour_the_worse_group(
    seed: int, step_size: float, n_groups: int
) -> None:
    logits, labels = some_rows(1, 12, seed)
    groups = np.arange(12) % n_groups
    objective = dro(np.array([step_size]), n_groups)
    objective.slope(margins(logits), torch.from_numpy(labels), torch.from_numpy(groups))
    q, losses = objective.q.numpy()[0], group_losses(logits, labels, groups, n_groups)[0]
    assert q.sum() == pytest.approx(1)
    assert (q >= 0).all()
    order = np.argsort(losses)
    assert (np.diff(q[order]) >= -1e-12).all()


def generalised_cross_entropy(pair: np.ndarray, label: int, power: float) -> float:
    """(1 - p_y^q) / q."""
    return (1 - math.exp(-cross_entropy(pair, label)) ** power) / power


@pytest.mark.parametrize("power", [0.05, 0.7, 1.0, 2.5, 3.0])
def test_biased_twin_follows_the_generalised_cross_entropy(power: float) -> None:
    logits, labels = some_rows(2, 7, seed=int(10 * power))

    def mean_loss(at: Logits) -> float:
        return sum(generalised_cross_entropy(at[0, i], labels[i], power) for i in range(7)) / 7

    slope = learning_from_failure_slope(
        margins(logits), torch.from_numpy(labels), torch.tensor([power], dtype=torch.float64)
    )
    np.testing.assert_allclose(slope.numpy()[0], finite_differences(mean_loss, logits)[0, :, 1], atol=1e-9)


def test_debiased_twin_follows_cross_entropy_weighed_by_its_own_twin_alone() -> None:
    powers = np.array([0.7, 2.5, 3.0])
    logits, labels = some_rows(6, 5, seed=3)
    weight = np.zeros((3, 5))
    for k, i in np.ndindex(3, 5):
        biased, debiased = cross_entropy(logits[k, i], labels[i]), cross_entropy(logits[3 + k, i], labels[i])
        weight[k, i] = biased / (biased + debiased)

    def weighed(at: Logits) -> float:  # the weights are those of the step, whatever `at` is
        return sum(weight[k, i] * cross_entropy(at[3 + k, i], labels[i]) for k, i in np.ndindex(3, 5)) / 5

    slope = learning_from_failure_slope(margins(logits), torch.from_numpy(labels), torch.from_numpy(powers))
    np.testing.assert_allclose(slope.numpy()[3:], finite_differences(weighed, logits)[3:, :, 1], atol=1e-9)


def test_learning_from_failure_stays_finite_where_both_twins_are_sure() -> None:
    labels = torch.tensor([1, 0])
    sure = torch.tensor([[800.0, 800.0]] * 2, dtype=torch.float64)  # one right, one wrong
    slope = learning_from_failure_slope(sure, labels, torch.tensor([2.5], dtype=torch.float64))
    assert slope.isfinite().all()
    assert slope[:, 0].abs().max() == 0  # right and sure: nothing to learn
    torch.testing.assert_close(slope[1, 1], torch.tensor(0.25, dtype=torch.float64))  # weight 1/2, two rows
