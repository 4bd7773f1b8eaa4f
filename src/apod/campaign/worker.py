"""The parent's side of a process that refits: niced, one thread, gone when its parent is gone.

The child is `python -m apod.campaign.refit_main`. Its job goes through standard input: a database URL may hold a
password, and arguments can be read by everybody.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from apod.campaign.engine import EngineFactory
from apod.errors import InputError

log = logging.getLogger(__name__)
RESTART_SECONDS = 5.0
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerProcess:
    """The parent's hold on a worker. One that died is started again, but not over and over."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job, self._lock, self._stopped = job, threading.Lock(), False
        self._process = self._start()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def wake(self) -> None:
        """There is something new."""
        with self._lock:
            self._send(b"{}\n")  # to a process that has just died, nothing: the next one looks for itself

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Start another process when this one dies, whether or not an answer comes in to notice it by."""
        status = process.wait()
        time.sleep(max(0.0, self._started + RESTART_SECONDS - time.monotonic()))  # one that cannot start must not spin
        with self._lock:
            if not self._stopped:
                log.warning("the refitting process ended with status %s: another is started", status)
                self._let_go()
                self._process = self._start()

    def stop(self) -> None:
        """End the worker at once; a refit under way is lost and done again by the next."""
        with self._lock:
            self._stopped = True
            self._let_go()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "apod.campaign.refit_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(ONE_THREAD, "1")},
        )
        self._send(json.dumps(self._job).encode() + b"\n")
        threading.Thread(target=self._watch, args=(self._process,), name="apod-worker", daemon=True).start()
        return self._process

    def _send(self, line: bytes) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it just died
                self._process.stdin.write(line)
                self._process.stdin.flush()

    def _let_go(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()


def engine_name(factory: EngineFactory) -> str:
    """How another process finds the same factory."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise InputError("refit='process' needs an engine factory that can be imported: a function of a module.")
    return f"{module}:{name}"
