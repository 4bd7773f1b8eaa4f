"""How many threads the numerics use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread within the block.

    The matrices of a training step are so small that a second thread gains little, and on a busy machine waiting for
    it costs many times the work. It also makes the result independent of the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
