"""What rivals make of few answers, against brute force and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from bench_units import unit_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from apod.bench.fairlearn_arms import repetitions
from apod.bench.rivals import (
    assign_groups,
    balanced_weights,
    confidence_threshold,
    ensemble,
    group_shares,
    held_out,
    last_layer,
    least_uncertain,
    spread,
    subgroup,
    top_activations,
    uncertainty,
    with_answers,
)
from apod.data import UNKNOWN
from apod.heads.bank import HeadBank, initial_parameters
from apod.method.algorithm1 import Answers
from support.training import paper_training


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(5, 10), st.booleans()), min_size=1, max_size=12))
def test_the_threshold_tells_right_from_wrong_guesses_as_well_as_any(pairs: list[tuple[int, bool]]) -> None:
    confidence, right = np.array([c / 10 for c, _ in pairs]), np.array([r for _, r in pairs])

    def told(threshold: float) -> int:
        return sum((c >= threshold) == r for c, r in zip(confidence, right, strict=True))

    found = confidence_threshold(confidence, right)
    best = max(told(t) for t in (0.0, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05))
    assert told(found) == best
    assert all(told(float(other)) < best for other in confidence if other > found)


def test_sure_guesses_are_kept_and_the_others_drawn_by_label() -> None:
    n = 20_000
    labels = np.arange(n) % 2
    membership = np.tile([[0.9, 0.1, 0.0]], (n, 1))
    membership[n // 2 :] = [0.3, 0.3, 0.4]
    shares = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]])
    groups = assign_groups(membership, 0.6, shares, labels, np.random.default_rng(0))
    assert (groups[: n // 2] == 0).all()
    for label in (0, 1):
        drawn = np.bincount(groups[n // 2 :][labels[n // 2 :] == label], minlength=3) / (n / 4)
        np.testing.assert_allclose(drawn, shares[label], atol=0.03)


def test_shares_are_those_of_the_answers_by_label_and_equal_where_a_label_has_none() -> None:
    shares = group_shares(np.array([1, 1, 1, 1]), np.array([0, 1, 1, 2]), 3)
    np.testing.assert_allclose(shares, [[1 / 3, 1 / 3, 1 / 3], [0.25, 0.5, 0.25]])


def told_apart(n: int = 300, seed: int = 0, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose first feature tells the group; a third are of group 0."""
    rng = np.random.default_rng(seed)
    groups = (np.arange(n) % 3 > 0).astype(np.int64)
    inputs = np.column_stack([2.0 * groups - 1 + noise * rng.normal(size=n), rng.normal(size=(n, 3))])
    return inputs, rng.integers(2, size=n), groups


def test_a_held_out_guess_does_not_hang_on_its_own_answer_and_others_do() -> None:
    inputs, labels, groups = told_apart(noise=2.0)
    pool = unit_of(inputs, labels, groups, paper_training(hidden=(4,))).pool
    rows = tuple(range(40))
    answers = Answers(rows, tuple(groups[:40].tolist()))
    flipped = Answers(rows, (1 - groups[0], *groups[1:40].tolist()))
    (before, codes), (after, _) = held_out(pool, answers), held_out(pool, flipped)
    np.testing.assert_array_equal(codes, groups[:40])
    np.testing.assert_array_equal(before[0], after[0])
    assert (np.abs(before - after).sum(axis=1) > 0).sum() == 32  # the four folds that row 0 is not in


def test_uncertainty_is_the_entropy_from_none_to_all() -> None:
    membership = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    expected = [0, 1, -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))]
    np.testing.assert_allclose(uncertainty(membership), expected, atol=1e-9)
    np.testing.assert_allclose(uncertainty(np.full((1, 3), 1 / 3)), 1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 30), st.sampled_from([0.1, 1 / 3, 0.5, 1.0]))
def test_the_least_uncertain_of_each_guessed_group_and_label_are_kept(seed: int, n: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    p, labels = rng.random(n).round(1), rng.integers(2, size=n)
    membership = np.column_stack([1 - p, p])
    kept = least_uncertain(membership, labels, share)
    guess = [(int(row[1] > row[0]), int(label)) for row, label in zip(membership, labels, strict=True)]
    for group in ((0, 0), (0, 1), (1, 0), (1, 1)):
        mine = [i for i in range(n) if guess[i] == group]
        mine.sort(key=lambda i: (-abs(membership[i, 1] - 0.5).round(9), i))  # farthest from even odds first
        wanted = set(mine[: math.ceil(share * len(mine))])
        chosen = {i for i in np.flatnonzero(kept) if guess[i] == group}
        assert len(chosen) == len(wanted)
        furthest = sorted(abs(membership[i, 1] - 0.5).round(9) for i in wanted)
        assert sorted(abs(membership[i, 1] - 0.5).round(9) for i in chosen) == furthest


def test_an_ensemble_is_less_sure_than_its_members_where_answers_are_few() -> None:
    inputs, labels, groups = told_apart()
    pool = unit_of(inputs, labels, groups, paper_training(hidden=(4,))).pool
    few = ensemble(pool, Answers(tuple(range(10)), tuple(groups[:10].tolist())))
    many = ensemble(pool, Answers(tuple(range(200)), tuple(groups[:200].tolist())))
    np.testing.assert_allclose(few.sum(axis=1), 1)
    assert uncertainty(few).mean() > uncertainty(many).mean()
    assert (many.argmax(axis=1) == groups).mean() > 0.95


def test_spread_groups_keep_the_answers_and_follow_what_tells_groups_apart() -> None:
    inputs, labels, groups = told_apart()
    pool = unit_of(inputs, labels, groups, paper_training(hidden=(4,))).pool
    rows = tuple(range(30))
    wrong = (*groups[:1].tolist(), *(1 - groups[1:2]).tolist(), *groups[2:30].tolist())  # the second answer lies
    found = spread(pool, Answers(rows, wrong))
    assert tuple(found[list(rows)]) == wrong
    assert (found[30:] == groups[30:]).mean() > 0.97


def test_answers_replace_guesses_but_for_those_that_could_not_be_given() -> None:
    guess = np.array([0, 0, 1, 1])
    np.testing.assert_array_equal(with_answers(guess, Answers((0, 2), (1, UNKNOWN))), [1, 0, 1, 1])


def test_subgroups_are_group_by_label_and_unknown_stays_unknown() -> None:
    np.testing.assert_array_equal(subgroup(np.array([0, 0, 1, UNKNOWN]), np.array([0, 1, 1, 1])), [0, 1, 3, UNKNOWN])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_balanced_weights_make_every_cell_count_the_same(cells: list[int]) -> None:
    codes = np.array(cells)
    weights = balanced_weights(codes)
    totals = [weights[codes == cell].sum() for cell in set(cells)]
    np.testing.assert_allclose(totals, totals[0])
    assert weights.mean() == pytest.approx(1)


@pytest.mark.parametrize("c", [0.03, 1.0])
def test_the_last_layer_is_where_the_weighed_loss_is_least(c: float) -> None:
    rng = np.random.default_rng(1)
    hidden, labels, weights = rng.normal(size=(30, 4)) * 3 + 1, rng.integers(2, size=30), rng.random(30) * 2
    slope, bias = last_layer(hidden, labels, weights, c)
    centre, scale = hidden.mean(axis=0), hidden.std(axis=0)

    def loss(at: np.ndarray) -> float:
        """C x sum of w l + ||v||^2 / 2, v being the weights of the standardised activations."""
        margin = (hidden - centre) / scale @ at[:-1] + at[-1]
        return float(
            c * (weights * np.logaddexp(0, np.where(labels == 1, -margin, margin))).sum() + at[:-1] @ at[:-1] / 2
        )

    at = np.append(slope * scale, bias + centre @ slope)
    assert np.abs(approx_fprime(at, loss, 1e-6)).max() < 1e-3
    assert loss(at) < loss(np.zeros(5))


def test_top_activations_are_those_the_head_s_last_layer_sees() -> None:
    sizes = (3, 5, 4, 2)
    bank = HeadBank.replicate(initial_parameters(sizes, np.random.default_rng(0)), 1, sizes)
    rows = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    last = bank.layers[-1]
    logits = torch.from_numpy(top_activations(bank, rows)).float() @ last.weight[0] + last.bias[0]
    torch.testing.assert_close(logits, bank.logits(rows)[0])


@pytest.mark.parametrize("share", [0.05, 0.17, 0.5, 0.8])
def test_repeated_answers_have_the_labels_of_everybody(share: float) -> None:
    everybody = (np.arange(1000) < 1000 * share).astype(np.int64)
    answered = np.arange(30) % 2
    times = repetitions(answered, everybody)
    assert times.min() == 4
    assert np.average(answered, weights=times) == pytest.approx(share, abs=0.01)
