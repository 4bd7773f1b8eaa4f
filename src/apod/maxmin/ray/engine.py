"""Where a pool lives: opened on a cluster, and its actors ended afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from apod.data.parts import open_parts
from apod.maxmin import Coverage
from apod.maxmin.ray.connect import connected
from apod.maxmin.ray.pool import ClusterPool
from apod.maxmin.select import Engine


@contextmanager
def ray_engine(address: str | None, parts: int | None = None) -> Iterator[Engine]:
    """Opens the embeddings of a .npy file, or of a folder of them, on the cluster at this address.

    A file is cut into `parts`, one per machine unless told; a folder has one part per file. Every machine must see
    the files under the same path.
    """
    with connected(address) as ray, ExitStack() as pools:

        def opened(path: str | os.PathLike[str]) -> Coverage:
            pool = ClusterPool(open_parts(path, parts or machines(ray)))
            return pools.enter_context(pool).coverage()

        yield opened


def machines(ray: Any) -> int:
    """How many machines of the cluster are alive."""
    return max(1, sum(1 for node in ray.nodes() if node["Alive"]))


@contextmanager
def joblib_backend(address: str | None) -> Iterator[tuple[str, int]]:
    """The name of joblib's Ray backend, connected and registered, and how many processors the cluster has."""
    with connected(address) as ray:
        import_module("ray.util.joblib").register_ray()
        yield "ray", max(1, int(ray.cluster_resources().get("CPU", 1)))
