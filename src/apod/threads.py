"""How many threads the numerics use, and how they treat numbers next to nothing."""

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


@contextmanager
def training_steps() -> Iterator[None]:
    """One thread, and numbers below 1e-38 count as zero.

    A head that predicts one label for everybody has gradients that small, and a processor takes a hundred times as long
    over them.
    """
    with one_thread():
        torch.set_flush_denormal(True)  # of this thread
        try:
            yield
        finally:
            torch.set_flush_denormal(False)
