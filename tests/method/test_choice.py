"""The choice by posterior over rounds and strengths, against counting and loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from apod.fairness.counts import soft_group_counts
from apod.fairness.metrics import METRICS
from apod.fairness.notions import NOTIONS
from apod.heads.bank import HeadBank
from apod.method.choice import (
    Gate,
    RoundHeads,
    RoundScores,
    choose_head,
    choose_rounds,
    clear_direction,
    posterior_gaps,
)
from apod.method.pool import Pool

SIZES, ROUNDS, HEADS, VALIDATION, DRAWS = (3, 2), 5, 4, 400, 16
STRENGTHS = torch.tensor([0.0, 0.1, 0.5, 2.0])
UNSCORED = RoundScores(*np.zeros((3, HEADS)))  # the paper's score plays no part here


def simple(seed: int, n_groups: int = 2, per_head: bool = False) -> tuple[Pool, list[HeadBank], torch.Tensor]:
    """Validation rows, the heads of every round (linear ones, around a good one), and draws of the groups."""
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.standard_normal((VALIDATION, 3)).astype(np.float32))
    labels = torch.from_numpy((rows.numpy() @ [1.0, 1.0, 0.0] + 0.5 * rng.standard_normal(VALIDATION) > 0).astype(int))
    pool = Pool("people", 0, rows[:0], labels[:0], rows, labels, n_groups)
    good = np.array([-1, 1, -1, 1, 0, 0, 0, 0])  # weights (3, 2), biases
    banks = [
        HeadBank(torch.from_numpy((good + 0.15 * rng.standard_normal((HEADS, 8))).astype(np.float32)), SIZES)
        for _ in range(ROUNDS)
    ]
    scores = rng.standard_normal((DRAWS, HEADS if per_head else 1, VALIDATION, n_groups))
    scores[..., 1] += 2 * rows.numpy()[:, 0]  # whom a head favours is clear; by how much, less so
    return pool, banks, torch.from_numpy(scores).softmax(dim=3)


def kept(banks: list[HeadBank]) -> RoundHeads:
    heads = RoundHeads(banks[0])
    for round_, bank in enumerate(banks):
        heads.update(bank, UNSCORED, round_)
    return heads


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("per_head", [False, True])
def test_gaps_are_those_of_counting_draw_by_draw(n_groups: int, per_head: bool) -> None:
    pool, banks, draws = simple(1, n_groups, per_head)
    predicted = np.stack([(bank.margins(pool.validation) > 0).numpy() for bank in banks])
    found = posterior_gaps(pool.validation_labels.numpy(), predicted, draws)
    assert found.shape == (DRAWS, ROUNDS, HEADS)
    for round_ in range(ROUNDS):
        counts = soft_group_counts(pool.validation_labels.numpy(), predicted[round_][None], draws.numpy())
        np.testing.assert_allclose(found[:, round_], METRICS["gap"](counts), atol=1e-12)


@pytest.mark.parametrize("name", NOTIONS)
def test_heads_are_judged_by_the_gap_of_the_notion_that_is_equalised(name: str) -> None:
    pool, banks, draws = simple(3)
    labels, predicted = pool.validation_labels.numpy(), (banks[0].margins(pool.validation) > 0).numpy()
    choice = choose_head(pool, banks[0], STRENGTHS, draws, NOTIONS[name])
    gaps = np.zeros((DRAWS, HEADS))
    for draw, head in np.ndindex(DRAWS, HEADS):
        counts = soft_group_counts(labels, predicted[head], draws[draw, 0].numpy())
        gaps[draw, head] = sum(np.ptp(METRICS[rate](counts)) for rate in NOTIONS[name].rates)
    np.testing.assert_allclose(choice.gap, gaps.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(choice.better[1:], (gaps < gaps[:, [0]]).mean(axis=0)[1:])


def test_a_gap_without_anybody_of_a_group_is_undefined() -> None:
    pool, banks, draws = simple(2)
    draws[3, 0, :, 0], draws[3, 0, :, 1] = 0.0, 1.0
    predicted = (banks[0].margins(pool.validation) > 0).numpy()[None]
    gaps = posterior_gaps(pool.validation_labels.numpy(), predicted, draws)
    assert np.isnan(gaps[3]).all()
    assert np.isfinite(np.delete(gaps, 3, axis=0)).all()


@pytest.mark.parametrize("seed", range(8))
def test_every_strength_is_kept_at_the_allowed_round_with_the_smallest_expected_gap(seed: int) -> None:
    pool, banks, draws = simple(seed)
    heads = kept(banks)
    choose_rounds(pool, heads, SIZES, STRENGTHS, draws)
    labels = pool.validation_labels.numpy()

    def judged(bank: HeadBank, head: int) -> tuple[np.ndarray, float, float]:
        predicted = (bank.margins(pool.validation) > 0).numpy()[head]
        gaps = METRICS["gap"](soft_group_counts(labels, predicted[None, None], draws.numpy()))[:, 0]
        right = predicted == labels
        return gaps, right.mean(), (right[labels == 1].mean() + right[labels == 0].mean()) / 2

    plain, accuracy, balanced = judged(banks[-1], 0)
    for head in range(HEADS):
        best, place = np.inf, ROUNDS - 1
        for round_ in range(ROUNDS if head else 0):
            gaps, own, own_balanced = judged(banks[round_], head)
            cheap = own >= accuracy - 0.0075 and own_balanced >= balanced - 0.0125
            if cheap and (gaps < plain).mean() >= 0.6 and gaps.mean() < best:
                best, place = gaps.mean(), round_
        assert heads.round[head] == place
        assert torch.equal(heads.parameters[head], banks[place].parameters[head])


def test_first_the_round_then_the_strength_is_the_best_of_all() -> None:
    chosen = 0
    for seed in range(8):
        pool, banks, draws = simple(seed)
        heads = kept(banks)
        choose_rounds(pool, heads, SIZES, STRENGTHS, draws)
        kept_heads = heads.bank(SIZES)
        choice = choose_head(pool, kept_heads, STRENGTHS, draws)
        for bank in banks:  # no round on its own has a better head to offer
            last = HeadBank(torch.cat([kept_heads.parameters[:1], bank.parameters[1:]]), SIZES)
            other = choose_head(pool, last, STRENGTHS, draws)
            assert other.head == 0 or other.gap[other.head] >= choice.gap[choice.head]
        chosen += choice.head > 0
    assert chosen > 2  # it was about something


@pytest.mark.parametrize("n_groups", [2, 3])
def test_a_direction_is_as_clear_as_the_draws_agree_on_it(n_groups: int) -> None:
    pool, banks, draws = simple(4, n_groups)
    labels = pool.validation_labels.numpy()
    predicted = (banks[0].margins(pool.validation) > 0).numpy()[0]
    draws[: DRAWS // 4] = draws[: DRAWS // 4].roll(1, 3)  # a quarter of the draws have it the other way round
    rates = np.empty((DRAWS, 2, n_groups))
    for draw, member in enumerate(draws[:, 0].numpy()):
        for label in (0, 1):
            inside = labels == label
            rates[draw, label] = (predicted[inside, None] * member[inside]).sum(axis=0) / member[inside].sum(axis=0)
    shares = []
    for label in (0, 1):
        mean = rates[:, label].mean(axis=0)
        shares.append((rates[:, label, mean.argmax()] > rates[:, label, mean.argmin()]).mean())
    found = clear_direction(labels, predicted, draws)
    assert found.shape == (1,)
    assert found[0] == pytest.approx(max(shares))
    assert 0.5 <= found[0] < 1


def test_an_unclear_direction_leaves_the_plain_head() -> None:
    chosen = []
    for clear in (0.0, 1.01):
        for seed in range(8):
            pool, banks, draws = simple(seed)
            chosen.append(choose_head(pool, banks[0], STRENGTHS, draws, gate=Gate(clear=clear)))
    assert any(choice.head for choice in chosen[:8])
    for choice in chosen[8:]:
        assert choice.head == 0
        assert "clearly enough which group" in choice.reason


def test_of_very_many_rounds_evenly_spaced_ones_stay_and_the_last() -> None:
    _, banks, _ = simple(0)
    heads = RoundHeads(banks[0], most_rounds=8)
    for round_ in range(101):
        heads.update(banks[round_ % ROUNDS], UNSCORED, round_)
        rounds = heads.state()["rounds"].tolist()
        assert len(rounds) <= 9
        assert rounds[0] == 0
        assert rounds[-1] == round_
        assert len(set(np.diff([r for r in rounds[:-1] if r != round_ - 1]).tolist())) <= 1
    for round_, parameters in zip(rounds, heads.state()["heads"], strict=True):
        assert np.array_equal(parameters, banks[round_ % ROUNDS].parameters)


def test_restored_from_its_state_it_continues_alike() -> None:
    pool, banks, draws = simple(3)
    whole = RoundHeads(banks[0], most_rounds=4)
    for round_ in range(20):  # by then every second or fourth round is kept
        again = RoundHeads(banks[0], most_rounds=4)
        again.restore({name: own.copy() for name, own in whole.state().items()})
        for heads in (whole, again):
            heads.update(banks[round_ % ROUNDS], UNSCORED, round_)
            choose_rounds(pool, heads, SIZES, STRENGTHS, draws)
        assert again.round.tolist() == whole.round.tolist()
        for name, own in whole.state().items():
            assert np.array_equal(again.state()[name], own)


def test_the_round_a_head_is_chosen_from_is_never_thinned_away() -> None:
    _, banks, _ = simple(0)
    heads = RoundHeads(banks[0], most_rounds=4)
    for round_ in range(30):
        heads.update(banks[round_ % ROUNDS], UNSCORED, round_)
        if round_ >= 3:
            rounds = heads.state()["rounds"].tolist()
            heads.choose_rounds(np.array([len(rounds) - 1, rounds.index(3), 0, 0]))
    assert heads.round.tolist() == [29, 3, 0, 0]


def test_other_rows_are_decided_about_anew() -> None:
    pool, banks, _ = simple(5)
    heads = kept(banks)
    few = heads.decisions(pool.validation[::3], SIZES)
    everybody = heads.decisions(pool.validation, SIZES)
    assert few.shape[2] == len(pool.validation[::3])
    np.testing.assert_array_equal(everybody[:, :, ::3], few)


def test_rows_that_take_the_place_of_others_in_memory_are_decided_about_anew() -> None:
    pool, banks, _ = simple(5)
    heads = kept(banks)
    for shift in range(20):
        rows = pool.validation + shift  # the last ones' memory is free again
        expected = np.stack([(bank.margins(rows) > 0).numpy() for bank in banks])
        np.testing.assert_array_equal(heads.decisions(rows, SIZES), expected)
        del rows


def test_where_a_label_has_nobody_no_gap_is_known_and_the_plain_head_stays() -> None:
    pool, banks, draws = simple(6)
    ones = replace(pool, validation_labels=torch.ones_like(pool.validation_labels))
    heads = kept(banks)
    choose_rounds(ones, heads, SIZES, STRENGTHS, draws)
    assert heads.round.tolist() == [ROUNDS - 1] * HEADS
    choice = choose_head(ones, heads.bank(SIZES), STRENGTHS, draws)
    assert choice.head == 0
    assert np.isnan(choice.gap).all()


def test_an_f_a_that_knows_nothing_makes_no_head_look_better() -> None:
    """With a trajectory per strength every head is judged by its own f_a, and so is the plain head beside it."""
    pool, banks, draws = simple(7, per_head=True)
    same = HeadBank(banks[0].parameters[:1].expand(HEADS, -1), SIZES)
    groups = torch.from_numpy((pool.validation.numpy()[:, 0] > 0).astype(int))
    draws[:, 0] = torch.nn.functional.one_hot(groups, 2).double()  # f_a of the plain head's trajectory knows all
    draws[:, 1:] = 0.5 + 0.01 * (draws[:, 1:] - 0.5)  # the others' know nothing
    choice = choose_head(pool, same, STRENGTHS, draws)
    assert choice.better.max() == 0
    assert choice.head == 0
