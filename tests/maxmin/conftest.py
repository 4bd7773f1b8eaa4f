"""A cluster of three nodes on this machine's loopback, small, without a dashboard."""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import suppress

import psutil
import pytest

from support.waiting import PATIENCE

NODES = 3
STORE = 80 << 20  # bytes of each node's object store: about the least Ray takes
QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 4,
}


class SmallCluster:
    """Three nodes; the first is the head, which must live."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args={**head, "_system_config": QUICK_TO_NOTICE})
        self._others = {}
        while len(self._others) < NODES - 1:
            self.grow()

    @property
    def address(self) -> str:
        return self._cluster.address

    def grow(self) -> None:
        node = self._cluster.add_node(num_cpus=1, object_store_memory=STORE)
        self._others[node.node_id] = node

    def lose(self, node: str) -> None:
        """Kill a node as a power cut would: Ray's own processes, and the actors, which would live on for a second."""
        lost = self._others.pop(node)
        started = [one.process.pid for of_a_kind in lost.all_processes.values() for one in of_a_kind]
        actors = [child for pid in started for child in psutil.Process(pid).children(recursive=True)]
        self._cluster.remove_node(lost, allow_graceful=False)
        for actor in actors:
            with suppress(psutil.NoSuchProcess):
                actor.kill()
        psutil.wait_procs(actors, timeout=PATIENCE)

    def may_lose(self, nodes: list[str]) -> str:
        """One of these nodes that is not the head."""
        return next(node for node in nodes if node in self._others)

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="session")
def cluster():
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'apod-fairness[ray]'")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # otherwise Ray warns about a change to come
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            small = SmallCluster()
            ray.init(address=small.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError) as error:
            pytest.skip(f"this machine starts no Ray cluster: {error}")
    yield small
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.shutdown()
        small.close()
