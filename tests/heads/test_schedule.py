"""Common random numbers: what the steps of training depend on, and what they must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.heads.schedule import Schedule, Step
from apod.randomness import generator

BASE = Schedule(n=50, hidden=(6, 4), seed=3, dataset="people", round=2, epochs=3, batch_size=16)


def steps(**changes: object) -> list[Step]:
    return list(replace(BASE, **changes))


def front(step: Step) -> list[torch.Tensor]:
    return [mask[: len(step.rows)] for mask in step.masks]


def behind(step: Step) -> list[torch.Tensor]:
    return [mask[len(step.rows) :] for mask in step.masks]


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 60), batch=st.integers(1, 70), epochs=st.integers(1, 4), own=st.integers(0, 3))
def test_every_row_comes_once_per_epoch_in_batches_of_that_size(n: int, batch: int, epochs: int, own: int) -> None:
    found = steps(n=n, batch_size=batch, epochs=epochs, own=own)
    per_epoch = -(-n // batch)
    assert len(found) == epochs * per_epoch
    orders = []
    for epoch in range(epochs):
        batches = found[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert all(len(step.rows) == batch for step in batches[:-1])
        orders.append(torch.cat([step.rows for step in batches]).tolist())
        assert sorted(orders[-1]) == list(range(n))
        for step in batches:
            assert [tuple(mask.shape) for mask in step.masks] == [(len(step.rows) + own, 6), (len(step.rows) + own, 4)]
    if n > 15:
        assert len({tuple(order) for order in orders}) == epochs


def test_one_more_annotated_row_changes_no_earlier_mask() -> None:
    for fewer, more in zip(steps(own=30), steps(own=31), strict=True):
        assert torch.equal(fewer.rows, more.rows)
        for a, b in zip(fewer.masks, more.masks, strict=True):
            assert len(b) == len(a) + 1
            assert torch.equal(a, b[:-1])


@pytest.mark.parametrize(
    "changes", [{"own": 30}, {"draw": 20}, {"dtype": torch.float64}, {"dropout": 0.1}, {"hidden": (3,)}, {"epochs": 7}]
)
def test_the_order_of_the_rows_depends_on_seed_dataset_round_and_batches_alone(
    changes: dict[str, object],
) -> None:
    for plain, changed in zip(steps(), steps(**changes), strict=False):
        assert torch.equal(plain.rows, changed.rows)


@pytest.mark.parametrize("changes", [{"own": 30}, {"draw": 20}, {"epochs": 7}, {"dtype": torch.float64}])
def test_the_masks_of_the_mini_batch_do_not_depend_on_who_stands_behind_it(changes: dict[str, object]) -> None:
    for plain, changed in zip(steps(), steps(**changes), strict=False):
        for a, b in zip(plain.masks, front(changed), strict=True):
            assert torch.equal(a.double(), b.double())


@pytest.mark.parametrize("changes", [{"seed": 4}, {"dataset": "others"}, {"round": 3}, {"round": "2"}])
def test_another_seed_dataset_or_round_gives_other_numbers(changes: dict[str, object]) -> None:
    one, other = steps(own=5, draw=5), steps(own=5, draw=5, **changes)
    assert not torch.equal(one[0].rows, other[0].rows)
    assert not torch.equal(front(one[0])[0], front(other[0])[0])
    assert not torch.equal(behind(one[0])[0], behind(other[0])[0])
    assert not torch.equal(one[0].penalty_rows, other[0].penalty_rows)


def test_iterating_twice_gives_the_same_steps_and_touches_no_global_state() -> None:
    state = torch.random.get_rng_state()
    schedule = replace(BASE, own=4, draw=6)
    for one, other in zip(schedule, schedule, strict=True):
        assert torch.equal(one.rows, other.rows)
        assert torch.equal(one.penalty_rows, other.penalty_rows)
        assert all(torch.equal(a, b) for a, b in zip(one.masks, other.masks, strict=True))
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("dropout", [0.0, 0.25, 0.5, 0.9])
def test_units_are_dropped_at_the_stated_rate_and_the_rest_scaled_up(dropout: float) -> None:
    found = steps(n=256, batch_size=128, hidden=(40, 30), own=32, dropout=dropout, epochs=4)
    masks = torch.cat([mask.flatten() for step in found for mask in step.masks]).double()
    kept = masks > 0
    assert torch.allclose(masks[kept], torch.tensor(1 / (1 - dropout), dtype=torch.float64))
    assert abs(float((~kept).double().mean()) - dropout) < 5 * (dropout * (1 - dropout) / len(masks)) ** 0.5 + 1e-9
    assert float(masks.mean()) == pytest.approx(1, abs=0.05)  # the expected activation is unchanged


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5, 1 / 3, 0.9])
def test_a_unit_is_kept_where_a_uniform_number_is_not_below_the_rate(dropout: float) -> None:
    odd = {"n": 5, "hidden": (3,), "batch_size": 2, "epochs": 1, "own": 1}  # streams that end amid a generator's step
    key = (BASE.dataset, BASE.round, 0)
    front_of = generator(BASE.seed, "dropout", *key).random((5, 3), dtype=np.float32) >= np.float32(dropout)
    behind_of = generator(BASE.seed, "dropout-penalty", *key).random((1, 3, 3), dtype=np.float32) >= np.float32(dropout)
    found = steps(**odd, dropout=dropout)
    assert np.array_equal(torch.cat([front(step)[0] for step in found]).numpy() > 0, front_of)
    assert np.array_equal(torch.stack([behind(step)[0] for step in found], 1).numpy() > 0, behind_of)


def test_masks_differ_between_steps_layers_and_rows() -> None:
    found = steps(n=64, batch_size=32, hidden=(20, 20), own=32, epochs=2)
    flat = [tuple(part.flatten().tolist()) for step in found for part in (*front(step), *behind(step))]
    assert len(set(flat)) == len(flat)
    rows = [tuple(row.tolist()) for row in found[0].masks[0]]
    assert len(set(rows)) == len(rows)


def test_penalty_rows_are_drawn_from_the_whole_pool_without_replacement_and_anew_in_every_step() -> None:
    found = steps(draw=20, epochs=40)
    drawn = [step.penalty_rows.tolist() for step in found]
    assert all(len(set(rows)) == 20 and min(rows) >= 0 and max(rows) < 50 for rows in drawn)
    assert len({tuple(rows) for rows in drawn}) == len(drawn)
    share = torch.bincount(torch.tensor(drawn).flatten(), minlength=50) / len(drawn)
    assert float((share - 0.4).abs().max()) < 5 * (0.4 * 0.6 / len(drawn)) ** 0.5
    everybody = steps(draw=50)[0].penalty_rows
    assert sorted(everybody.tolist()) == list(range(50))
    assert steps(own=3)[0].penalty_rows is None
