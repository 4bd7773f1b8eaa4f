"""Runs benches that are killed in the middle of their work. Started by test_bench_crash.py, in a process of its own.

The nursery imports everything once, then forks bench after bench and kills each with SIGKILL at a random moment. A
bench that was through before its kill is set aside as survived, and a new folder is begun.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from bench_units import tiny_plan, tiny_source

import apod.bench.runner


def fork_bench(folder: Path, seeds: int) -> int:
    """Start a bench in a process of its own."""
    child = os.fork()
    if child == 0:
        apod.bench.runner.load_source = tiny_source
        plan = tiny_plan("vanilla", "group-dro", "lff", "fal", "apod", seeds=range(seeds))
        apod.bench.runner.run_bench(plan, folder, jobs=1)
        os._exit(0)
    return child


def finish(folder: Path, seeds: int) -> None:
    """A bench that is left in peace."""
    _, status = os.waitpid(fork_bench(folder, seeds), 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"the bench in {folder.name} did not end well")


def written(folder: Path) -> dict[str, int]:
    """When every finished part and body was written."""
    files = [*folder.glob("parts/*[!l]/*.parquet"), *folder.glob("bodies/*.npy")]
    return {str(file): file.stat().st_mtime_ns for file in files}


def main() -> None:
    job = json.loads(sys.argv[1])
    folder, chance = Path(job["folder"]), random.Random(job["seed"])
    start = time.monotonic()
    finish(folder / "calm", job["seeds"])
    longest = time.monotonic() - start
    hits, survived, repeated = 0, [], 0
    now = folder / "0"
    kept: dict[str, int] = {}
    while hits < job["kills"]:
        child = fork_bench(now, job["seeds"])
        time.sleep(chance.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        repeated += sum(written(now).get(file) != moment for file, moment in kept.items())
        kept = written(now)
        if os.WIFSIGNALED(status):
            hits += 1
        else:
            survived.append(now.name)
            now, kept = folder / str(len(survived)), {}
    finish(now, job["seeds"])
    repeated += sum(written(now).get(file) != moment for file, moment in kept.items())
    sys.stdout.write(json.dumps({"hits": hits, "survived": [*survived, now.name], "repeated": repeated}) + "\n")


if __name__ == "__main__":
    main()
