"""Pools larger than memory: sweeps give what one look at everything gives, and training is bounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apod.data import blocks
from apod.heads.schedule import Schedule
from apod.method.algorithm1 import Answers
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.pod import draw_round
from apod.method.pool import Pool, first_choices, mapped_tensor
from apod.method.proxy import LogisticProxy
from support.training import paper_penalty, paper_training

ROWS, WIDTH = 30_000, 6


@pytest.fixture
def small_limits(monkeypatch):
    """Everything is large; blocks end where forward passes do."""
    monkeypatch.setattr(blocks, "LARGE", 1000)
    monkeypatch.setattr(blocks, "ROUND_STEPS", 20)
    monkeypatch.setattr(blocks, "BLOCK", 8192)


@pytest.fixture(scope="module")
def matrix():
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32) * 3 + 1


@pytest.fixture
def mapped(matrix, tmp_path):
    np.save(tmp_path / "m.npy", matrix)
    return np.load(tmp_path / "m.npy", mmap_mode="r")


def pool_of(embeddings) -> Pool:
    labels = torch.from_numpy(np.random.default_rng(1).integers(0, 2, len(embeddings)))
    return Pool("people", 0, mapped_tensor(embeddings), labels, torch.zeros(0, WIDTH), labels[:0], 2)


def test_masks_drawn_some_at_a_time_are_those_of_one_draw(monkeypatch):
    schedule = Schedule(n=300, hidden=(5, 4), seed=1, dataset="p", round=0, epochs=2, batch_size=7, own=3, draw=2)
    monkeypatch.setattr("apod.heads.schedule.STEPS_AT_ONCE", 10**9)
    whole = list(schedule)
    monkeypatch.setattr("apod.heads.schedule.STEPS_AT_ONCE", 4)
    for one, other in zip(whole, schedule, strict=True):
        assert torch.equal(one.rows, other.rows)
        assert all(torch.equal(a, b) for a, b in zip(one.masks, other.masks, strict=True))


def test_a_round_of_a_large_pool_is_a_bounded_draw_without_repeats(small_limits, mapped, matrix):
    pool, training = pool_of(mapped), paper_training(batch_size=32)
    drawn, again, other = (draw_round(pool, training, round_) for round_ in (0, 0, 1))
    assert drawn.training.epochs == 1
    assert len(drawn.rows) == len(np.unique(drawn.rows)) == 20 * 32
    np.testing.assert_array_equal(drawn.rows, again.rows)
    assert set(drawn.rows) != set(other.rows)
    np.testing.assert_array_equal(drawn.pool.embeddings.numpy(), matrix[drawn.rows])
    assert torch.equal(drawn.pool.labels, pool.labels[drawn.rows])
    assert blocks.steps_per_round(ROWS, 10, 32) == 20
    here, places = drawn.places(np.array([drawn.rows[5], 10**6, drawn.rows[0]]))
    assert (here.tolist(), places.tolist()) == ([0, 2], [5, 0])


def test_a_small_pool_trains_on_itself(matrix):
    pool, training = pool_of(matrix), paper_training()
    drawn = draw_round(pool, training, 0)
    assert drawn.pool is pool
    assert drawn.training is training
    assert blocks.steps_per_round(ROWS, 10, 256) == 10 * 118


@pytest.mark.parametrize("proxy", ["perceptron", "logistic"])
@pytest.mark.parametrize("over", ["annotated", "pool"])
def test_a_mapped_pool_asks_and_learns_as_one_in_memory(small_limits, mapped, matrix, proxy, over):
    training = paper_training(penalty=paper_penalty(over=over), hidden=(8,), batch_size=32, proxy=proxy)
    plan = Plan.shared((0.2, 0.5), "apod", 0.5)
    asked, heads = [], []
    for embeddings in (mapped, matrix):
        mitigation = Mitigation(pool_of(embeddings), plan, training)
        for number, choice in zip(range(6), first_choices(mitigation.pool), strict=False):
            mitigation.add_answer(0, choice.row, number % 2)
        questions = []
        for _ in range(3):
            mitigation.refit()
            questions += mitigation.ask()
            mitigation.add_answer(0, questions[-1].row, questions[-1].row % 2)
        asked.append([(question.row, question.choice.reason) for question in questions])
        heads.append(mitigation.heads.parameters)
    assert asked[0] == asked[1]
    assert torch.equal(*heads)


def test_scores_of_a_sweep_are_those_of_one_look(small_limits, monkeypatch, mapped):
    training = paper_training(hidden=(8,), batch_size=32)
    mitigation = Mitigation(pool_of(mapped), Plan.shared((0.5,), "apod", 0.5), training)
    for row in range(6):
        mitigation.add_answer(0, row, row % 2)
    mitigation.refit()
    (swept,) = mitigation.views()
    monkeypatch.setattr(blocks, "LARGE", 10**9)
    (looked,) = mitigation.views()
    np.testing.assert_array_equal(swept.positive, looked.positive)
    np.testing.assert_array_equal(swept.membership, looked.membership)


def test_a_large_pool_is_standardised_once_and_another_one_anew(small_limits, monkeypatch, mapped):
    pool, other = pool_of(mapped).embeddings, pool_of(mapped).embeddings + 1
    sweeps = []
    moments = blocks.moments
    monkeypatch.setattr("apod.method.proxy.moments", lambda matrix: (sweeps.append(len(matrix)), moments(matrix))[1])
    answers = Answers(tuple(range(40)), tuple(row % 2 for row in range(40)))
    centres = []
    for embeddings in (pool, pool, other):
        proxy = LogisticProxy(1, pool.shape[1], 2, 0, "mapped")
        proxy.fit(embeddings, [answers])
        centres.append(proxy.state()["centre"])
    assert len(sweeps) == 2
    np.testing.assert_array_equal(centres[0], centres[1])
    np.testing.assert_allclose(centres[2], centres[0] + 1, rtol=1e-6)


def test_the_logistic_proxy_needs_no_copy_of_the_pool(small_limits, monkeypatch, mapped):
    answers = Answers(tuple(range(40)), tuple(row % 2 for row in range(40)))
    found = []
    for limit in (1000, 10**9):
        monkeypatch.setattr(blocks, "LARGE", limit)
        proxy = LogisticProxy(1, WIDTH, 2, 0, "people")
        proxy.fit(mapped_tensor(mapped), [answers])
        found.append(proxy.probabilities(mapped_tensor(mapped)).numpy())
    np.testing.assert_allclose(*found, atol=1e-6)
