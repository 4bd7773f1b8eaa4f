"""Threads of our own instead of BLAS's.

BLAS's threads wait for each other in every product; where the cores have other work to do, that makes a small product
fifty times as slow. So work here runs on threads that meet once per pass, with BLAS on one thread each.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


class _OneThread:
    """Keeps BLAS on one thread while anybody is inside: the first in sets it, the last out sets it back.

    The number of BLAS threads belongs to the process, so its keeper is one object for the process too.
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


blas_on_one_thread = _OneThread()
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
