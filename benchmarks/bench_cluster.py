"""What a cluster costs per answer beside the work itself, and what a lost part costs. On three nodes of this machine.

    python benchmarks/bench_cluster.py                 # 1,000,000 x 64 in three parts, and 3,000 rows for the overhead
    python benchmarks/bench_cluster.py --rows 200000 --json

Nodes on one machine share its cores and memory, so the time of a large pool says nothing about a real cluster; the
time of a tiny one is the price of sending: it does not depend on the rows. Goal: the same picks as on one machine.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from apod.data.arrays import open_parts
from apod.maxmin import Coverage
from apod.maxmin.ray_pool import RayShards
from bench_coverage import clustered

NODES = 3


def measure(path: Path, rounds: int) -> dict[str, Any]:
    matrix = np.load(path, mmap_mode="r")
    mask = np.random.default_rng(1).random(len(matrix)) < 0.3
    start = time.perf_counter()
    with RayShards(open_parts(path, NODES), threads=1) as pool:
        found: dict[str, Any] = {"rows": len(matrix), "opening_seconds": round(time.perf_counter() - start, 2)}
        here, there = Coverage(matrix), pool.coverage()
        times, same = [], True
        for row in np.random.default_rng(2).integers(0, len(matrix), rounds).tolist():
            here.add([row])
            expected = here.farthest(mask)
            start = time.perf_counter()
            there.add([row])
            picked = there.farthest(mask)
            times.append(time.perf_counter() - start)
            same &= picked == expected
        found["milliseconds_per_answer"] = round(1000 * median(times), 2)
        found["same_picks"] = same and there.farthest(k=50) == here.farthest(k=50)
        import ray

        ray.kill(pool.remote[1].actor)
        start = time.perf_counter()
        found["same_picks"] &= there.farthest(mask) == here.farthest(mask)
        found["rebuilding_seconds"] = round(time.perf_counter() - start, 2)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    warnings.simplefilter("ignore")
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(NODES - 1):
        cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    results = []
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder:
        for rows in (3_000, given.rows):
            matrix = np.empty((rows, given.width), np.float32)
            clustered(rows, given.width, np.random.default_rng(0), matrix)
            np.save(Path(folder) / "m.npy", matrix)
            results.append(measure(Path(folder) / "m.npy", given.rounds))
            print("  " + ", ".join(f"{key} {value}" for key, value in results[-1].items()), file=sys.stderr)
    ray.shutdown()
    cluster.shutdown()
    if given.json:
        print(json.dumps(results))
    return 0 if all(one["same_picks"] for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
