"""Which head is kept: every score recomputed one person at a time."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.heads.bank import HeadBank
from apod.method.choice import GATE, BestHeads, RoundScores, choose_head, score_heads
from apod.method.pool import Pool

SIZES = (3, 4, 2)


def bank_of(heads: int, rng: np.random.Generator) -> HeadBank:
    count = 3 * 4 + 4 + 4 * 2 + 2
    return HeadBank(torch.as_tensor(rng.normal(size=(heads, count)), dtype=torch.float32), SIZES)


def validation(rng: np.random.Generator, n: int, n_groups: int, metric: str) -> Pool:
    inputs = torch.as_tensor(rng.normal(size=(n, 3)), dtype=torch.float32)
    labels = torch.from_numpy(rng.integers(2, size=n))
    return Pool("people", 0, inputs[:1], labels[:1], inputs, labels, n_groups, metric)  # type: ignore[arg-type]


def rates(labels: np.ndarray, predicted: np.ndarray, groups: np.ndarray, label: int, n_groups: int) -> list[float]:
    found = []
    for group in range(n_groups):
        inside = [p for y, p, a in zip(labels, predicted, groups, strict=True) if (y, a) == (label, group)]
        found.append(sum(inside) / len(inside) if inside else float("nan"))
    return found


def fairness(metric: str, tpr: list[float], fpr: list[float]) -> float:
    if metric == "delta_eo":
        return 1 - abs((tpr[0] - tpr[1]) + (fpr[0] - fpr[1]))
    if any(np.isnan(tpr)) or max(tpr) == 0:
        return float("nan")
    return min(tpr) / max(tpr)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(4, 40), st.sampled_from(["delta_eo", "eop"]))
def test_scores_are_accuracy_plus_fairness_by_the_likeliest_group(seed: int, n: int, metric: str) -> None:
    rng = np.random.default_rng(seed)
    pool, bank = validation(rng, n, 2, metric), bank_of(3, rng)
    membership = torch.as_tensor(rng.dirichlet(np.ones(2), size=(3, n)))
    strengths = torch.tensor([0.0, 0.5, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an undefined rate may be said aloud
        scores = score_heads(pool, bank, strengths, membership)
    labels = pool.validation_labels.numpy()
    for head in range(3):
        logits = reference.Head(bank.parameters[head], SIZES)(pool.validation).detach()
        predicted = logits.argmax(dim=1).numpy()
        groups = np.array([int(row[1] > row[0]) for row in membership[head]])
        accuracy = sum(p == y for p, y in zip(predicted, labels, strict=True)) / n
        fair = fairness(metric, *(rates(labels, predicted, groups, label, 2) for label in (1, 0)))
        assert scores.accuracy[head] == pytest.approx(accuracy)
        np.testing.assert_allclose(scores.fairness[head], fair, rtol=1e-12, atol=1e-12)
        expected = accuracy if head == 0 else accuracy + fair
        np.testing.assert_allclose(scores.score[head], expected, rtol=1e-12, atol=1e-12)


def test_the_vanilla_head_is_scored_by_accuracy_alone_even_where_fairness_is_undefined() -> None:
    rng = np.random.default_rng(0)
    pool, bank = validation(rng, 30, 2, "delta_eo"), bank_of(2, rng)
    one_group = torch.tensor([1.0, 0.0]).expand(2, 30, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = score_heads(pool, bank, torch.tensor([0.0, 1.0]), one_group)
    assert scores.score[0] == scores.accuracy[0]
    assert np.isnan(scores.fairness).all()
    assert np.isnan(scores.score[1])


def scores_of(*values: float) -> RoundScores:
    array = np.array(values)
    return RoundScores(array, array, array)


def play(rounds: list[list[float]]) -> tuple[BestHeads, list[torch.Tensor]]:
    bank = HeadBank(torch.zeros(len(rounds[0]), 2 * 2 + 2), (2, 2))
    best, history = BestHeads(bank), []
    for number, values in enumerate(rounds):
        bank.parameters += 1
        history.append(bank.parameters.clone())
        best.update(bank, scores_of(*values), number)
    return best, history


numbers = st.sampled_from([float("nan"), 0.2, 0.5, 0.5, 0.9, 1.3])


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.lists(numbers, min_size=k, max_size=k), min_size=1, max_size=7)))
def test_every_head_is_kept_at_its_best_round_nan_never_wins_and_ties_keep_the_earlier(
    rounds: list[list[float]],
) -> None:
    best, history = play(rounds)
    for head in range(len(rounds[0])):
        values = [row[head] for row in rounds]
        defined = [(value, -number) for number, value in enumerate(values) if not np.isnan(value)]
        if defined:
            value, number = max(defined)
            assert (best.score[head], best.round[head]) == (value, -number)
        else:
            number = 1 - len(rounds)
            assert best.score[head] == -np.inf
            assert best.round[head] == len(rounds) - 1
        assert torch.equal(best.parameters[head], history[-number][head])


def test_kept_heads_do_not_follow_the_bank() -> None:
    bank = HeadBank(torch.zeros(2, 6), (2, 2))
    best = BestHeads(bank)
    best.update(bank, scores_of(0.5, 0.5), 0)
    bank.parameters += 7
    assert not best.parameters.any()
    assert not best.bank((2, 2)).logits(torch.ones(3, 2)).any()


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_the_best_strength_is_a_penalised_one_and_never_one_without_a_score(
    values: list[float], random: object
) -> None:
    strengths = [0.0, 0.1, 0.5, 1.2, 2.0][: len(values)]
    best, _ = play([values])
    found = best.best(torch.tensor(strengths))
    candidates = [(value, -index) for index, value in enumerate(values) if index and not np.isnan(value)]
    if candidates:
        assert found == -max(candidates)[1]
    else:
        assert found == 1


def test_without_any_defined_score_the_weakest_penalty_is_chosen_in_whatever_order_they_stand() -> None:
    best, _ = play([[0.9, float("nan"), float("nan"), float("nan")]])
    assert best.best(torch.tensor([0.0, 2.0, 0.1, 0.5])) == 2


def _pool_and_heads(margins: np.ndarray, labels: np.ndarray) -> tuple[Pool, HeadBank]:
    """Heads whose margin on validation row i is margins[k, i]: embeddings are one-hot, heads a linear layer."""
    n = margins.shape[1]
    embeddings = torch.eye(n, dtype=torch.float32)
    pool = Pool("people", 0, embeddings, torch.from_numpy(labels), embeddings, torch.from_numpy(labels), 2)
    flat = np.concatenate([np.stack([-margins / 2, margins / 2], axis=2).reshape(len(margins), -1),
                           np.zeros((len(margins), 2))], axis=1)  # fmt: skip
    return pool, HeadBank(torch.from_numpy(flat.astype(np.float32)), (n, 2))


def _people() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, groups, and decisions: unfair to group 0 (TPR .5 against 1), and fair at the same accuracy."""
    labels = np.repeat([1, 1, 0, 0], 200)
    groups = np.tile(np.repeat([0, 1], 200), 2)
    unfair, fair = labels.copy(), labels.copy()
    unfair[:100] = 0
    fair[:50] = fair[200:250] = 0
    return labels, groups, unfair * 2 - 1, fair * 2 - 1


def test_the_posterior_chooses_the_fair_head_where_groups_are_known() -> None:
    labels, groups, unfair, fair = _people()
    pool, bank = _pool_and_heads(np.stack([unfair, fair]).astype(float), labels)
    draws = torch.nn.functional.one_hot(torch.from_numpy(groups), 2).double().expand(8, 1, -1, -1)
    choice = choose_head(pool, bank, torch.tensor([0.0, 1.0]), draws)
    assert choice.head == 1
    np.testing.assert_allclose(choice.gap, [0.5, 0.0], atol=1e-12)
    assert choice.better.tolist() == [0.0, 1.0]


def test_where_it_is_not_clear_who_is_favoured_the_head_stays_as_it_was_and_says_so() -> None:
    labels, groups, unfair, fair = _people()
    pool, bank = _pool_and_heads(np.stack([unfair, fair]).astype(float), labels)
    rng = np.random.default_rng(0)
    known = np.eye(2)[groups]
    anybody = [np.eye(2)[rng.permutation(groups)] for _ in range(6)]  # most draws see no gap to narrow
    choice = choose_head(pool, bank, torch.tensor([0.0, 1.0]), torch.from_numpy(np.stack([known, *anybody])[:, None]))
    assert choice.better[1] < GATE.sure
    assert choice.head == 0
    assert "is at a disadvantage" in choice.reason


def test_thin_evidence_for_a_smaller_gap_leaves_the_head_as_it_was_and_says_so() -> None:
    labels, groups, unfair, fair = _people()
    pool, bank = _pool_and_heads(np.stack([unfair, fair]).astype(float), labels)
    swapped = groups.copy()
    # now the plain head is the fairer one (.1 against .4), in the same direction
    swapped[50:90], swapped[200:240] = 1, 0
    draws = np.stack([np.eye(2)[groups]] * 5 + [np.eye(2)[swapped]] * 5)[:, None]
    choice = choose_head(pool, bank, torch.tensor([0.0, 1.0]), torch.from_numpy(draws))
    assert 0 < choice.better[1] < GATE.sure
    assert choice.head == 0
    assert "too little evidence" in choice.reason


def test_a_head_that_levels_down_is_never_chosen() -> None:
    labels, groups, unfair, _ = _people()
    nobody = np.full(len(labels), -1)
    pool, bank = _pool_and_heads(np.stack([unfair, nobody]).astype(float), labels)
    draws = torch.nn.functional.one_hot(torch.from_numpy(groups), 2).double().expand(8, 1, -1, -1)
    choice = choose_head(pool, bank, torch.tensor([0.0, 1.0]), draws)
    assert choice.gap[1] == 0
    assert choice.head == 0
    assert "accuracy" in choice.reason
