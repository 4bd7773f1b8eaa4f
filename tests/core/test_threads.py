"""What training steps run under: one thread, and numbers next to nothing are nothing; all as before afterwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch

from apod.threads import one_thread, training_steps

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
