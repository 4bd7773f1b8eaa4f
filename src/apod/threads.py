"""How many threads the numerics use, and how they treat numbers next to nothing."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread within the block.

    The matrices of a training step are so small that a second thread gains little, and on a busy machine waiting for
    it costs many times the work. It also makes the result independent of the number of cores.
    """
    import torch

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
    import torch

    with one_thread():
        torch.set_flush_denormal(True)  # of this thread
        try:
            yield
        finally:
            torch.set_flush_denormal(False)


class _OneBlasThread:
    """Keeps BLAS on one thread while anybody is inside: the first in sets it, the last out sets it back.

    BLAS's threads wait for each other in every product; where the cores have other work to do, that makes a small
    product fifty times as slow. So passes over a matrix run on threads of our own, which meet once per pass. The number
    of BLAS threads belongs to the process, and so does this object.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                # looking for the libraries takes a millisecond, setting their threads none
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


blas_on_one_thread = _OneBlasThread()
_ONE_PASS_AT_A_TIME = threading.Lock()  # a pass keeps every core busy: two at once would only fight over them


def in_parallel(work: Callable[[int], None], turns: int, threads: int | None = None) -> None:
    """Call work(0), work(1), ... work(turns - 1) from several threads (default: one per core)."""
    threads = min(threads or _cores(), turns)
    with blas_on_one_thread:
        if threads <= 1:
            for turn in range(turns):
                work(turn)
            return
        ticket = itertools.count()

        def loop(_: int) -> None:
            while (turn := next(ticket)) < turns:
                work(turn)

        with _ONE_PASS_AT_A_TIME, ThreadPoolExecutor(threads) as pool:
            list(pool.map(loop, range(threads)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
