"""Child processes and threads: the one way to start them, and how numerics use them.

`python -m` puts the folder it is started in first on its search path: a `queue.py` beside a database would run with the
user's rights. Children start in safe-path mode (`-P`), and PYTHONSAFEPATH hands that on to whatever they start
themselves. PYTHONPATH keeps its meaning. A job goes through standard input: a database URL may hold a password, and
everybody can read arguments.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

log = logging.getLogger(__name__)
RESTART_SECONDS = 5.0
_SAFE_PATH = "PYTHONSAFEPATH"
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def start(module: str, output: int = subprocess.DEVNULL, errors: int | None = None) -> subprocess.Popen[bytes]:
    """Start `python -m module` on one thread; it reads its job from standard input."""
    environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), _SAFE_PATH: "1"}
    command = _command(module)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors, env=environment)


def run(module: str, *arguments: str, folder: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` in a folder of its own until it ends; what it wrote comes back."""
    return subprocess.run(
        [*_command(module), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=folder,
        env={**os.environ, _SAFE_PATH: "1"},
    )


def as_line(job: Mapping[str, object]) -> bytes:
    """A job as a child reads it."""
    return json.dumps(job).encode() + b"\n"


def _command(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", module]


@contextmanager
def safe_children() -> Iterator[None]:
    """Safe-path mode for children that a library starts within the block."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def be_nice(by: int = 10) -> None:
    """Lower the priority of this thread (Linux) so that people are served first."""
    if hasattr(os, "setpriority") and os.uname().sysname == "Linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), by)


class Worker:
    """A child that works until its standard input closes. One that died is started again, but not over and over.

    It is gone when its parent is gone: the pipe closes however the parent ended.
    """

    def __init__(self, module: str, job: Mapping[str, object], restart_seconds: float = RESTART_SECONDS) -> None:
        self._module, self._job, self._restart_seconds = module, as_line(job), restart_seconds
        self._lock, self._stopped = threading.Lock(), False
        self._process = self._start()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def wake(self) -> None:
        """There is something new."""
        with self._lock:
            self._send(b"{}\n")  # to a process that has just died, nothing: the next one looks for itself

    def stop(self) -> None:
        """End the worker at once; what it is at is lost and done again by the next."""
        with self._lock:
            self._stopped = True
            self._close()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Start another process when this one dies, whether or not anything new comes in to notice it by."""
        status = process.wait()
        wait = self._started + self._restart_seconds - time.monotonic()
        time.sleep(max(0.0, wait))  # one that cannot start must not spin
        with self._lock:
            if not self._stopped:
                log.warning("the process %s ended with status %s: another is started", self._module, status)
                self._close()
                self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started = time.monotonic()
        self._process = start(self._module)
        self._send(self._job)
        threading.Thread(target=self._watch, args=(self._process,), name="apod-worker", daemon=True).start()
        return self._process

    def _send(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it just died
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def _close(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()


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
