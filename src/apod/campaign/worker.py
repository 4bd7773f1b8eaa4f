"""The parent's side of a process that refits: niced, one thread, gone when its parent is gone.

The child is `python -m apod.campaign.refit_main`. Its job goes through standard input: a database URL may hold a
password, and arguments can be read by everybody.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from apod.campaign.engine import EngineFactory
from apod.errors import InputError

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerProcess:
    """The parent's hold on a worker."""

    def __init__(self, job: dict[str, Any]) -> None:
        environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "apod.campaign.refit_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        self._tell(job)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def wake(self) -> None:
        """There is something new."""
        if self._process.poll() is None:
            self._tell({})

    def stop(self) -> None:
        """End the worker at once; a refit under way is lost and done again by the next."""
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, message: dict[str, Any]) -> None:
        pipe = self._process.stdin
        if pipe is not None:
            with suppress(BrokenPipeError):  # it died; another process's worker takes over
                pipe.write(json.dumps(message).encode() + b"\n")
                pipe.flush()


def engine_name(factory: EngineFactory) -> str:
    """How another process finds the same factory."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise InputError("refit='process' needs an engine factory that can be imported: a function of a module.")
    return f"{module}:{name}"
