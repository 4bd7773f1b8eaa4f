"""A connection to Ray, or one line that says why there is none."""

from __future__ import annotations

import importlib
import logging
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from apod.errors import ClusterError, InputError
from apod.processes import safe_children

REACH_SECONDS = 5.0
LOCAL = "local"


def load_ray() -> Any:
    """The ray package."""
    try:
        return importlib.import_module("ray")
    except ImportError:
        what = "pip install 'apod-fairness[ray]' here and on every machine"
        raise ClusterError(f"Ray is not installed: {what}.") from None


def connect(address: str | None) -> Any:
    """Ray, connected to the cluster at this address.

    HOST:PORT, `auto` for the cluster this machine belongs to, or `local` for one started in this machine's processes.
    A connection this process already has is used again.
    """
    ray = load_ray()
    named = address not in (None, LOCAL, "auto")
    if named:
        _reach(str(address))
    if ray.is_initialized():
        here = str(ray.get_runtime_context().gcs_address)
        if named and address != here:
            raise ClusterError(f"This process is connected to the cluster at {here}: leave it before {address}.")
        return ray
    if not address:
        raise InputError("The engine ray needs an address: --address HOST:PORT, or auto, or local.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's about itself: nothing a user of this package can act on
        try:
            with safe_children():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **_starting(address))
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise ClusterError(f"No Ray cluster answers at {address}: {_first_line(error)}") from None
    return ray


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray for a while: a connection that was not there before is ended.

    Ray writes news of lost machines to standard output, which belongs to a command's result: here they go to standard
    error.
    """
    fresh = not load_ray().is_initialized()
    with redirect_stdout(sys.stderr):
        ray = connect(address)
        try:
            yield ray
        finally:
            if fresh:
                ray.shutdown()


class _NoFolders(list[str]):
    """Search folders that Ray's workers get from this process: not the current one, which Ray would put first."""

    def extend(self, folders: Iterable[str]) -> None:
        """Take none of them."""


def _starting(address: str) -> dict[str, object]:
    config = importlib.import_module("ray.job_config").JobConfig()
    config._py_driver_sys_path = _NoFolders()
    return {"job_config": config} | ({"include_dashboard": False} if address == LOCAL else {})


def _reach(address: str) -> None:
    """Raise where nobody listens: Ray itself would try for a minute."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit()) or "//" in address:
        raise InputError(f"{address!r} is no address of a Ray cluster: pass HOST:PORT, or auto, or local.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ClusterError(
            f"No Ray cluster answers at {address} ({why}): start one with `ray start --head`, or correct --address."
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def machines(ray: Any) -> int:
    """How many machines of the cluster are alive."""
    return max(1, sum(1 for node in ray.nodes() if node["Alive"]))


@contextmanager
def joblib_backend(address: str | None) -> Iterator[tuple[str, int]]:
    """The name of joblib's Ray backend, connected and registered, and how many processors the cluster has."""
    with connected(address) as ray:
        importlib.import_module("ray.util.joblib").register_ray()
        yield "ray", max(1, int(ray.cluster_resources().get("CPU", 1)))
