"""POD's penalty: the paper's formula, finite differences, and a plain sum over pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.fairness.notions import NOTIONS, EqualizedOdds
from apod.method.penalty import RELAXATIONS, cell_weights, cross_entropy_slope, penalty_and_slope
from apod.method.pod import pod_slope

WHATS, RELAXED = sorted(NOTIONS), sorted(RELAXATIONS)


@dataclass(frozen=True)
class Case:
    margin: torch.Tensor  # (K, S)
    labels: torch.Tensor  # (T, S)
    membership: torch.Tensor  # (T, S, G)

    def of_head(self, head: int) -> tuple[torch.Tensor, torch.Tensor]:
        trajectory = 0 if len(self.labels) == 1 else head
        return self.labels[trajectory], self.membership[trajectory]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few rows of few heads: hard, trusted less, soft or no membership (padding); shared or own rows."""
    groups, heads, rows = draw(st.integers(2, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 12))
    shared, kind = draw(st.booleans()), draw(st.sampled_from(["hard", "trusted less", "soft"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trajectories = 1 if shared else heads
    membership = np.eye(groups)[rng.integers(groups, size=(trajectories, rows))]
    if kind == "trusted less":
        membership *= rng.uniform(0.05, 1, size=(trajectories, rows, 1))
    if kind == "soft":
        membership = rng.dirichlet(np.ones(groups), size=(trajectories, rows))
    padded = rng.random((trajectories, rows)) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    membership[padded] = 0
    labels = (rng.random((trajectories, rows)) < draw(st.sampled_from([0.0, 0.3, 0.5, 1.0]))).astype(np.int64)
    margin = rng.normal(scale=draw(st.sampled_from([0.1, 1.0, 4.0])), size=(heads, rows))
    return Case(torch.from_numpy(margin), torch.from_numpy(labels), torch.from_numpy(membership))


@settings(max_examples=300, deadline=None)
@given(cases(), st.sampled_from(WHATS), st.sampled_from(RELAXED))
def test_the_penalty_is_the_sum_over_pairs_and_its_slope_the_autograd_gradient(
    case: Case, what: str, relaxation: str
) -> None:
    cells = cell_weights(NOTIONS[what], case.labels, case.membership)
    value, slope = penalty_and_slope(case.margin, cells, relaxation)
    for head in range(len(case.margin)):
        labels, membership = case.of_head(head)
        margin = case.margin[head].clone().requires_grad_()
        expected = reference.penalty(margin, labels, membership, what, relaxation)
        (gradient,) = torch.autograd.grad(expected + 0 * margin.sum(), margin)
        np.testing.assert_allclose(float(value[head]), float(expected.detach()), atol=1e-10, rtol=1e-10)
        np.testing.assert_allclose(slope[head].numpy(), gradient.numpy(), atol=1e-10, rtol=1e-9)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from(WHATS), st.sampled_from(RELAXED))
def test_the_slope_is_the_finite_difference_of_the_value(case: Case, what: str, relaxation: str) -> None:
    cells = cell_weights(NOTIONS[what], case.labels, case.membership)
    _, slope = penalty_and_slope(case.margin, cells, relaxation)
    width = 1e-5
    for row in range(case.margin.shape[1]):
        up, down = case.margin.clone(), case.margin.clone()
        up[:, row] += width
        down[:, row] -= width
        difference = penalty_and_slope(up, cells, relaxation)[0] - penalty_and_slope(down, cells, relaxation)[0]
        np.testing.assert_allclose(slope[:, row].numpy(), (difference / (2 * width)).numpy(), atol=1e-5, rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from(WHATS), st.sampled_from(RELAXED))
def test_padding_and_empty_cells_contribute_nothing(case: Case, what: str, relaxation: str) -> None:
    value, slope = penalty_and_slope(case.margin, cell_weights(NOTIONS[what], case.labels, case.membership), relaxation)
    trajectories, rows, groups = case.membership.shape
    wider = Case(
        torch.cat([case.margin, torch.full((len(case.margin), 2), 9.0)], 1),
        torch.cat([case.labels, torch.ones((trajectories, 2), dtype=torch.int64)], 1),
        torch.cat([case.membership, torch.zeros((trajectories, 2, groups), dtype=torch.float64)], 1),
    )
    wider_value, wider_slope = penalty_and_slope(
        wider.margin, cell_weights(NOTIONS[what], wider.labels, wider.membership), relaxation
    )
    np.testing.assert_allclose(wider_value.numpy(), value.numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wider_slope[:, :rows].numpy(), slope.numpy(), rtol=1e-12, atol=1e-14)
    assert not wider_slope[:, rows:].any()
    # a group nobody belongs to changes nothing either
    another = torch.cat([case.membership, torch.zeros((trajectories, rows, 1), dtype=torch.float64)], 2)
    more_value, more_slope = penalty_and_slope(
        case.margin, cell_weights(NOTIONS[what], case.labels, another), relaxation
    )
    np.testing.assert_allclose(more_value.numpy(), value.numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(more_slope.numpy(), slope.numpy(), rtol=1e-12, atol=1e-14)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 15))
def test_two_groups_and_equalized_odds_are_the_papers_formula(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    margin, labels, groups = rng.normal(size=rows), rng.integers(2, size=rows), rng.integers(2, size=rows)
    expected = 0.0
    for y in (0, 1):
        cells = [[m for m, b, a in zip(margin, labels, groups, strict=True) if (b, a) == (y, g)] for g in (0, 1)]
        if all(cells):
            p0, p1 = (sum(cell) / len(cell) for cell in cells)
            expected += (p0 - p1) ** 2
    membership = torch.from_numpy(np.eye(2)[groups])[None]
    weights = cell_weights(NOTIONS["equalized_odds"], torch.from_numpy(labels)[None], membership)
    value, _ = penalty_and_slope(torch.from_numpy(margin)[None], weights, "linear")
    assert float(value) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@dataclass(frozen=True)
class AccuracyParity(EqualizedOdds):
    """The right decision is counted, of everybody: of the negatives that is the decision 0."""

    def cells(self, labels: np.ndarray) -> np.ndarray:
        return np.ones((*labels.shape, 1), dtype=bool)

    def events(self, labels: np.ndarray) -> np.ndarray:
        return labels[..., None]


@pytest.mark.parametrize("relaxation", RELAXED)
def test_a_notion_that_counts_the_right_decision_is_trained_by_the_same_penalty(relaxation: str) -> None:
    rng = np.random.default_rng(7)
    labels, groups = rng.integers(0, 2, 30), rng.integers(0, 2, 30)
    membership = torch.from_numpy(np.eye(2)[groups])[None]
    margin = torch.from_numpy(rng.normal(size=(3, 30))).requires_grad_()
    right = reference.STEP_RELAXED[relaxation](margin * torch.from_numpy(2.0 * labels - 1))
    rates = [right[:, groups == group].mean(dim=1) for group in (0, 1)]
    wanted = (rates[0] - rates[1]) ** 2
    (gradient,) = torch.autograd.grad(wanted.sum(), margin)
    cells = cell_weights(AccuracyParity(), torch.from_numpy(labels)[None], membership)
    value, slope = penalty_and_slope(margin.detach(), cells, relaxation)
    torch.testing.assert_close(value, wanted.detach())
    torch.testing.assert_close(slope, gradient)


def test_cell_weights_of_filled_cells_sum_to_one_and_empty_ones_are_marked() -> None:
    membership = torch.tensor([[[1.0, 0, 0], [0.5, 0, 0], [0, 1, 0], [0, 0, 0]]], dtype=torch.float64)
    cells = cell_weights(NOTIONS["equalized_odds"], torch.tensor([[1, 1, 0, 1]]), membership)
    assert cells.filled.tolist() == [[[False, True, False], [True, False, False]]]
    sums = cells.weight.sum(dim=2).view(1, 2, 3)
    assert torch.equal(sums, cells.filled.double())
    np.testing.assert_allclose(cells.weight[0, 3].numpy(), [2 / 3, 1 / 3, 0, 0])


@pytest.mark.parametrize("relaxation", RELAXED)
@pytest.mark.parametrize(("groups", "rounding"), [(2, 0.0), (3, 1e-12)])  # a third of three equal floats may round
def test_equal_rates_are_not_penalised(groups: int, rounding: float, relaxation: str) -> None:
    membership = torch.eye(groups)[None]
    cells = cell_weights(NOTIONS["demographic_parity"], torch.zeros((1, groups), dtype=torch.int64), membership)
    value, slope = penalty_and_slope(torch.full((2, groups), 0.7), cells, relaxation)
    assert float(value.max()) <= rounding
    assert float(slope.abs().max()) <= rounding**0.5


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from(WHATS), st.sampled_from(RELAXED), st.integers(1, 6))
def test_the_pod_slope_is_the_gradient_of_cross_entropy_plus_strength_times_penalty(
    case: Case, what: str, relaxation: str, batch: int
) -> None:
    heads = len(case.margin)
    rng = np.random.default_rng(batch)
    front, y = torch.from_numpy(rng.normal(size=(heads, batch))), torch.from_numpy(rng.integers(2, size=batch))
    strengths = torch.from_numpy(rng.uniform(0, 2, size=heads))
    cells = cell_weights(NOTIONS[what], case.labels, case.membership)
    slope = pod_slope(torch.cat([front, case.margin], 1), y.double(), strengths, cells, relaxation)
    for head in range(heads):
        both = torch.cat([front[head], case.margin[head]]).requires_grad_()
        logits = torch.stack([-both / 2, both / 2], 1)
        loss = torch.nn.functional.cross_entropy(logits[:batch], y)
        loss = loss + strengths[head] * reference.penalty(both[batch:], *case.of_head(head), what, relaxation)
        (gradient,) = torch.autograd.grad(loss, both)
        np.testing.assert_allclose(slope[head].numpy(), gradient.numpy(), atol=1e-10, rtol=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.integers(1, 8), st.integers(2, 4), st.booleans(), st.integers(0, 2**32 - 1))
def test_the_cross_entropy_slope_is_the_autograd_gradient_and_skips_padding(
    heads: int, rows: int, classes: int, shared: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=(heads, rows, classes))).requires_grad_()
    targets = torch.from_numpy(rng.integers(-1, classes, size=(rows,) if shared else (heads, rows)))
    slope = cross_entropy_slope(logits.detach().clone(), targets)
    for head in range(heads):
        mine = targets if shared else targets[head]
        if not (mine >= 0).any():
            assert not slope[head].any()
            continue
        loss = torch.nn.functional.cross_entropy(logits[head], mine, ignore_index=-1)
        (gradient,) = torch.autograd.grad(loss, logits)
        np.testing.assert_allclose(slope[head].numpy(), gradient[head].numpy(), atol=1e-12)
