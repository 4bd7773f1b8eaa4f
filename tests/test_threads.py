"""Training steps run on one thread, passes over a matrix with BLAS on one; all is as before afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from apod.maxmin import Coverage
from apod.processes import blas_on_one_thread, in_parallel, one_thread, training_steps

TINY = 1e-30


def below_normal() -> float:
    """Of single precision's smallest: 1e-40."""
    return float((torch.tensor([TINY]) * torch.tensor([1e-10]))[0])


def test_numbers_next_to_nothing_are_nothing_in_training_and_only_there() -> None:
    assert below_normal() > 0
    with training_steps():
        assert below_normal() == 0
    assert below_normal() > 0


def fail_inside(context: Callable[[], AbstractContextManager[None]]) -> None:
    with context():
        assert torch.get_num_threads() == 1
        raise ZeroDivisionError


@pytest.mark.parametrize("context", [one_thread, training_steps])
def test_all_is_as_before_after_an_error(context: Callable[[], AbstractContextManager[None]]) -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        fail_inside(context)
    assert torch.get_num_threads() == before
    assert below_normal() > 0


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_its_own_number_again_afterwards():
    with threadpool_limits(2, user_api="blas"):
        before, seen = blas_threads(), []
        with blas_on_one_thread:
            in_parallel(lambda turn: seen.append(blas_threads()), 6, threads=2)
            assert blas_threads() == [1] * len(before)
        Coverage(np.random.default_rng(0).standard_normal((500, 3)), [1]).farthest(k=5)
        assert seen == [[1] * len(before)] * 6
        assert blas_threads() == before


def test_every_turn_is_taken_once_and_an_error_reaches_the_caller():
    taken = []
    in_parallel(taken.append, 100, threads=3)
    assert sorted(taken) == list(range(100))

    def fail(turn):
        if turn == 3:
            raise ValueError("turn three")

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        for threads in (1, 2):
            with pytest.raises(ValueError, match="turn three"):
                in_parallel(fail, 10, threads=threads)
        assert blas_threads() == before


def test_pools_in_several_threads_do_not_disturb_each_other():
    matrix = np.random.default_rng(0).standard_normal((3000, 8))
    expected, found = Coverage(matrix, [1]).farthest(k=30), []
    workers = [
        threading.Thread(target=lambda: found.append(Coverage(matrix, [1], threads=2).farthest(k=30))) for _ in range(4)
    ]
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert blas_threads() == before
    assert found == [expected] * 4
