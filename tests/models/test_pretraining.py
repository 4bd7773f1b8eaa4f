"""Losses and gradients by their definitions, batches that show every row once, durations as people say them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from apod.models.body import cross_entropy, nt_xent, shuffled_batches, spell_seconds


def brute_force_nt_xent(Z: np.ndarray, t: float) -> float:
    """The loss as its definition reads: one softmax per view over all other views."""
    half = len(Z) // 2
    losses = []
    for i, z in enumerate(Z):
        cosine = [z @ other / np.linalg.norm(z) / np.linalg.norm(other) for other in Z]
        partner = i + half if i < half else i - half
        others = sum(np.exp(cosine[j] / t) for j in range(len(Z)) if j != i)
        losses.append(-np.log(np.exp(cosine[partner] / t) / others))
    return float(np.mean(losses))


def finite_differences(value: object, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (value(up) - value(down)) / (2 * step)  # type: ignore[operator]
    return gradient


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(2, 5), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.integers(0, 10**6))
def test_nt_xent_and_its_gradient_are_those_of_the_definition(half: int, width: int, t: float, seed: int) -> None:
    Z = np.random.default_rng(seed).normal(size=(2 * half, width)) * 3
    loss, gradient = nt_xent(torch.tensor(Z), t)
    assert float(loss) == pytest.approx(brute_force_nt_xent(Z, t), rel=1e-9, abs=1e-9)
    expected = finite_differences(lambda z: brute_force_nt_xent(z, t), Z)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=2e-6 * max(1, np.abs(expected).max()))


def test_nt_xent_of_a_zero_projection_is_finite() -> None:
    Z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    Z[2] = 0
    loss, gradient = nt_xent(Z)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient[[0, 1, 3, 4, 5]]).all()


def test_cross_entropy_gradient_by_finite_differences() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(7, 3)), rng.integers(0, 3, 7)

    def value(z: np.ndarray) -> float:
        return float(np.mean([np.log(np.exp(row).sum()) - row[y] for row, y in zip(z, labels, strict=True)]))

    loss, gradient = cross_entropy(torch.tensor(logits), torch.tensor(labels))
    assert float(loss) == pytest.approx(value(logits))
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, logits), atol=1e-8)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 40), st.integers(2, 15), st.integers(0, 100))
def test_an_epoch_shows_every_row_once_but_for_a_lonely_last_one(n: int, size: int, seed: int) -> None:
    batches = list(shuffled_batches(np.random.default_rng(seed), n, size, least=2))
    rows = np.concatenate([*batches, np.zeros(0, dtype=np.int64)])
    assert len(np.unique(rows)) == len(rows) == (n - 1 if n % size == 1 else n)
    assert all(2 <= len(batch) <= size for batch in batches)


def test_a_step_follows_the_gradient_of_the_loss() -> None:
    """Autograd through the definition of the loss gives the gradient that the training hands on."""
    out = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    unit = functional.normalize(out, dim=1)
    similarity = (unit @ unit.T / 0.5).masked_fill(torch.eye(8, dtype=torch.bool), -torch.inf)
    functional.cross_entropy(similarity, torch.arange(8).roll(4)).backward()
    _, gradient = nt_xent(out.detach(), 0.5)
    np.testing.assert_allclose(gradient.numpy(), out.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "60 s"), (150, "2 min"), (5940, "99 min"), (12_000, "3 h 20 min")]
)
def test_durations_are_spelled_as_people_do(seconds: float, text: str) -> None:
    assert spell_seconds(seconds) == text
