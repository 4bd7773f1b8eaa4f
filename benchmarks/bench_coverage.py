"""Selection against the speed of memory, against other libraries, and against its own size.

    python benchmarks/bench_coverage.py                      # all of it; status 1 where a goal is missed
    python benchmarks/bench_coverage.py --only answer growth --rows 1000000
    python benchmarks/bench_coverage.py --json

Clustered rows are written to a .npy file in a temporary folder (2.56 GB at the default size) and mapped.

answer   one answer's update and the next pick, beside reading the file once (two threads, the fastest of three ways
         to read it), in turn, page cache warm; then the same with the file thrown out of the page cache; and the peak
         of memory that is not the file. Goals: 1.5 x, and 16 bytes a row + 100 MB. From it, what an answer over 10^9
         rows would cost on so many machines like this one.
batch    100 picks: passes over the matrix, time, peak memory. Goal: at most 10 passes.
growth   time per answer and memory from 10^4 rows up. Goals: slope of 1 +- 0.1 on log-log over the last factor of ten,
         16 bytes a row + 100 MB. `--figure` draws both.
rivals   20 picks among 300,000 x 512 with 20 rows answered, beside a scikit-learn loop and scikit-activeml's CoreSet
         (if installed). Goals: same picks, 10 x faster, peak at most a tenth of the matrix above it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import mmap
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from apod.maxmin import Coverage

THREADS = len(os.sched_getaffinity(0))
CHUNK = 4 << 20
MB = 1e6


@dataclass
class Findings:
    """What was measured, and whether the goals were met."""

    figures: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, bool] = field(default_factory=dict)

    def note(self, name: str, value: Any, unit: str = "", goal: bool | None = None) -> None:
        self.figures[name] = value
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        verdict = "" if goal is None else ("   goal met" if goal else "   GOAL MISSED")
        if goal is not None:
            self.goals[name] = goal
        print(f"  {name:58s} {shown} {unit}{verdict}", file=sys.stderr, flush=True)


def clustered(n: int, width: int, rng: np.random.Generator, out: np.ndarray, clusters: int = 200) -> None:
    """Rows around cluster centres of uneven popularity, in random order."""
    centres = 4 * rng.standard_normal((clusters, width), dtype=np.float32)
    share = rng.dirichlet(np.ones(clusters))
    for start in range(0, n, 100_000):
        stop = min(start + 100_000, n)
        out[start:stop] = rng.standard_normal((stop - start, width), dtype=np.float32)
        out[start:stop] += centres[rng.choice(clusters, stop - start, p=share)]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Memory:
    """Peak of this process's own memory (not of mapped files), above what it was at the start, or at `since`."""

    def __init__(self, since: int | None = None) -> None:
        self.start = self.now() if since is None else since

    def __enter__(self) -> Memory:
        self.peak = self.now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        return self.peak - self.start

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self.peak = max(self.peak, self.now())

    @staticmethod
    def now() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("RssAnon:")[1].split()[0])


class Reader:
    """The time to read a mapped matrix once with all cores, in three ways."""

    def __init__(self, path: Path, matrix: np.ndarray) -> None:
        self._path = path
        self._flat = matrix.reshape(-1).view(np.uint8)
        self._buffers = [np.empty(CHUNK, np.uint8) for _ in range(THREADS)]

    def every_way(self) -> list[float]:
        return [seconds(lambda way=way: self._all(way)) for way in (self._look, self._copy, self._read)]

    def from_disk(self) -> float:
        return seconds(lambda: self._all(self._read))

    def _all(self, way: Callable[[int, int], None]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda number: self._stripe(way, number), range(THREADS)))

    def _stripe(self, way: Callable[[int, int], None], number: int) -> None:
        for start in range(number * CHUNK, len(self._flat), THREADS * CHUNK):
            way(number, start)

    def _look(self, _: int, start: int) -> None:
        self._flat[start : start + CHUNK].view(np.float32).max()

    def _copy(self, number: int, start: int) -> None:
        part = self._flat[start : start + CHUNK]
        np.copyto(self._buffers[number][: len(part)], part)

    def _read(self, number: int, start: int) -> None:
        with self._path.open("rb", buffering=0) as file:
            file.seek(start)  # the header's few bytes change nothing
            file.readinto(self._buffers[number])


def forget(path: Path, matrix: np.ndarray) -> None:
    """Throw a mapped file out of the page cache: first its pages out of this process, then out of memory."""
    mapped = matrix.base
    while not isinstance(mapped, mmap.mmap):
        mapped = mapped.base
    mapped.madvise(mmap.MADV_DONTNEED)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def one_answer(coverage: Coverage, rng: np.random.Generator, mask: np.ndarray) -> None:
    coverage.add([int(rng.integers(len(coverage)))])
    coverage.farthest(mask)


def bench_answer(path: Path, matrix: np.ndarray, rounds: int, found: Findings) -> None:
    rng, since = np.random.default_rng(1), Memory.now()
    mask = rng.integers(0, 10, len(matrix), dtype=np.uint8) < 3  # the subgroup to pick from
    reader = Reader(path, matrix)
    reader.every_way()
    with Memory(since) as memory:
        coverage = Coverage(matrix, rng.integers(len(matrix), size=20))
        one_answer(coverage, rng, mask)
    rows = [(reader.every_way(), seconds(lambda: one_answer(coverage, rng, mask))) for _ in range(rounds)]
    way = min(range(3), key=lambda way: median(reads[way] for reads, _ in rows))  # judged by the fastest way to read
    pairs = [(reads[way], answer) for reads, answer in rows]
    ratio = median(answer / read for read, answer in pairs)
    found.note("rows", len(matrix))
    found.note("columns", matrix.shape[1])
    found.note("read the matrix once, warm", median(read for read, _ in pairs), "s")
    found.note("bandwidth, warm", matrix.nbytes / 1e9 / median(read for read, _ in pairs), "GB/s")
    found.note("one answer and the next pick, warm", median(answer for _, answer in pairs), "s")
    found.note("answer over read, warm", ratio, "x", ratio <= 1.5)
    found.note("memory beyond the matrix", memory.bytes / len(matrix), "bytes a row")
    found.note("memory beyond the matrix, in all", memory.bytes / MB, "MB", memory.bytes <= 16 * len(matrix) + 100 * MB)
    cold = []
    for _ in range(3):
        forget(path, matrix)
        read = reader.from_disk()
        forget(path, matrix)
        cold.append((read, seconds(lambda: one_answer(coverage, rng, mask))))
    found.note("read the matrix once, cold", median(read for read, _ in cold), "s")
    found.note("one answer and the next pick, cold", median(answer for _, answer in cold), "s")
    found.note("answer over read, cold", median(answer / read for read, answer in cold), "x")
    coverage.add([0])
    found.note("undo of one answer", seconds(lambda: coverage.remove([0])), "s")


def bench_batch(matrix: np.ndarray, k: int, found: Findings) -> None:
    rng = np.random.default_rng(2)
    since = Memory.now()
    for answered in (0, 20, 200):
        with Memory(since) as memory:
            coverage = Coverage(matrix, rng.integers(len(matrix), size=answered))
            before = coverage.passes
            took = seconds(lambda coverage=coverage: coverage.farthest(k=k))
        passes = coverage.passes - before
        name = f"{k} picks, {answered} answered"
        found.note(f"{name}: passes", passes, "", passes <= 10)
        found.note(f"{name}: time", took, "s")
        limit = 16 * len(matrix) + 100 * MB
        found.note(f"{name}: memory", memory.bytes / MB, "MB", memory.bytes <= limit)


def bench_growth(matrix: np.ndarray, found: Findings) -> None:
    """Every size in a process of its own, so that its memory is its own."""
    sizes = [10**e for e in range(4, 12) if 10**e < len(matrix)] + [len(matrix)]
    for size in sizes:
        in_own_process(lambda size=size: one_size(matrix[:size], found), found)
    times = {size: found.figures[f"one answer, {size} rows"] for size in sizes}
    last = sizes[-1]
    tenth = min(sizes, key=lambda size: abs(math.log(size) - math.log(last / 10)))
    slope = math.log(times[last] / times[tenth]) / math.log(last / tenth)
    found.note(f"slope from {tenth} to {last} rows", slope, "", abs(slope - 1) <= 0.1)


def one_size(part: np.ndarray, found: Findings) -> None:
    rng, size, since = np.random.default_rng(3), len(part), Memory.now()
    with Memory(since) as memory:
        coverage = Coverage(part, rng.choice(size, 20, replace=False))
        mask = rng.integers(0, 10, size, dtype=np.uint8) < 3
        repeats = max(7, min(200, 10**7 // size))
        took = median(seconds(lambda: one_answer(coverage, rng, mask)) for _ in range(repeats))
    found.note(f"one answer, {size} rows", 1000 * took, "ms")
    found.note(f"memory beyond the matrix, {size} rows", memory.bytes / MB, "MB", memory.bytes <= 16 * size + 100 * MB)


def draw(found: Findings, path: Path) -> None:
    """Time per answer and memory against the rows, as docs/scale.md shows them."""
    import matplotlib.pyplot as plt

    columns = {
        "one answer and the next pick (ms)": "one answer, {} rows",
        "memory beyond the matrix (MB)": "memory beyond the matrix, {} rows",
    }
    sizes = sorted(int(name.split()[2]) for name in found.figures if name.startswith("one answer, "))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, (title, key) in zip(axes, columns.items(), strict=True):
        values = [found.figures[key.format(size)] for size in sizes]
        axis.loglog(sizes, values, "o-", color="#1f5a96", label="measured")
        if "answer" in key and "bandwidth, warm" in found.figures:
            width = found.figures["columns"]
            read = [4 * width * size / 1e6 / found.figures["bandwidth, warm"] for size in sizes]
            axis.loglog(sizes, read, "--", color="#777777", label="reading the matrix once")
        if "memory" in key:
            axis.loglog(sizes, [16 * size / MB + 100 for size in sizes], "--", color="#777777", label="the goal")
        axis.set(xlabel="rows", title=title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=110)


def plan(found: Findings, rows: int = 10**9, sending: float = 0.015) -> None:
    """What one answer would cost on a cluster of machines like this one: a part's bytes over the measured speed.

    `sending` seconds are the round trips of an answer, as bench_cluster.py measures them.
    """
    width, seen = found.figures["columns"], found.figures["rows"]
    speed = seen / found.figures["one answer and the next pick, warm"]  # rows a second of one machine
    for machines in (16, 32, 64, 128):
        part = rows / machines
        took = part / speed + sending
        memory = part * (4 * width + 16) / 1e9
        name = f"{rows:.0e} rows on {machines} machines like this"
        found.note(f"{name}: GB in each", memory)
        found.note(f"{name}: one answer", took, "s")


def sklearn_loop(matrix: np.ndarray, answered: np.ndarray, k: int) -> list[int]:
    """Greedy max-min as a user writes it: distances to the answered rows, then one column per pick."""
    nearest = pairwise_distances(matrix, matrix[answered]).min(axis=1)
    picks = []
    for _ in range(k):
        picks.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, pairwise_distances(matrix, matrix[picks[-1:]])[:, 0])
    return picks


def core_set(matrix: np.ndarray, answered: np.ndarray, k: int) -> list[int]:
    """The same by scikit-activeml."""
    from skactiveml.pool import CoreSet

    labels = np.full(len(matrix), np.nan)
    labels[answered] = 0
    return [int(row) for row in CoreSet(random_state=0).query(matrix, labels, batch_size=k)]


def ours(matrix: np.ndarray, answered: np.ndarray, k: int) -> list[int]:
    """Norms, answers and picks: nothing is cached beforehand."""
    return [pick.row for pick in Coverage(matrix, answered).farthest(k=k)]


def ours_one_by_one(matrix: np.ndarray, answered: np.ndarray, k: int) -> list[int]:
    """The same with a pass for every pick, as when each answer is waited for."""
    coverage, picks = Coverage(matrix, answered), []
    for _ in range(k):
        picks.append(coverage.farthest()[0].row)
        coverage.add(picks[-1:])
    return picks


def bench_rivals(rows: int, width: int, k: int, found: Findings) -> None:
    rng = np.random.default_rng(4)
    matrix = np.empty((rows, width), np.float32)
    clustered(rows, width, rng, matrix)
    answered = rng.choice(rows, 20, replace=False)
    programs = {"apod": ours, "apod, one by one": ours_one_by_one, "scikit-learn": sklearn_loop}
    try:
        import skactiveml  # noqa: F401

        programs["scikit-activeml"] = core_set
    except ImportError:
        found.note("scikit-activeml", "not installed: pip install scikit-activeml")
    picks, times = {}, {}
    for name, program in programs.items():
        runs = 3 if name.startswith("apod") else 1
        with Memory() as memory:
            took = []
            for _ in range(runs):
                start = time.perf_counter()
                picks[name] = program(matrix, answered, k)
                took.append(time.perf_counter() - start)
        times[name] = median(took)
        share = memory.bytes / matrix.nbytes
        found.note(f"{k} picks by {name}", times[name], "s")
        found.note(f"memory of {name} above the matrix", share, "x", share <= 0.1 if runs == 3 else None)
    for name in list(programs)[2:]:
        found.note(f"same picks as {name}", picks[name] == picks["apod"], "", picks[name] == picks["apod"])
        faster = times[name] / times["apod"]
        found.note(f"faster than {name}", faster, "x", faster >= 10)
        found.note(f"faster than {name}, one by one", times[name] / times["apod, one by one"], "x")


def in_own_process(job: Callable[[], object], found: Findings) -> None:
    """Run a job where no memory another one left behind hides its own; bring its findings home."""
    here, there = multiprocessing.Pipe(duplex=False)

    def child() -> None:
        ctypes.CDLL(None).malloc_trim(0)  # memory the parent freed but kept would hide what the job takes
        job()
        there.send((found.figures, found.goals))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    there.close()
    try:
        found.figures, found.goals = here.recv()
    except EOFError:
        raise SystemExit("bench_coverage: a part failed, see above.") from None
    process.join()


@contextmanager
def matrix_file(rows: int, width: int) -> Iterator[tuple[Path, np.ndarray]]:
    """A mapped file of clustered rows that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="bench-coverage-"))
    try:
        size = 4 * rows * width
        if shutil.disk_usage(folder).free < 1.2 * size:
            raise SystemExit(f"bench_coverage needs {size / 1e9:.1f} GB in {folder.parent}: set TMPDIR or --rows.")
        path = folder / "matrix.npy"
        out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, width))
        clustered(rows, width, np.random.default_rng(0), out)
        out.flush()
        del out
        os.sync()
        yield path, np.asarray(np.load(path, mmap_mode="r"))
    finally:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["answer", "batch", "growth", "rivals"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9, help="answers timed")
    parser.add_argument("--picks", type=int, default=100, help="picks of a batch")
    parser.add_argument("--rival-rows", type=int, default=300_000)
    parser.add_argument("--rival-width", type=int, default=512)
    parser.add_argument("--rival-picks", type=int, default=20)
    parser.add_argument("--figure", type=Path, help="draw time and memory by rows into this file (growth, answer)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    wanted = given.only or ["answer", "batch", "growth", "rivals"]
    found = Findings()
    if set(wanted) - {"rivals"}:
        with matrix_file(given.rows, given.width) as (path, matrix):
            jobs = {
                "answer": lambda: bench_answer(path, matrix, given.rounds, found),
                "batch": lambda: bench_batch(matrix, given.picks, found),
                "growth": lambda: bench_growth(matrix, found),
            }
            for name in wanted:
                if name in jobs:
                    in_own_process(jobs[name], found)
    if "rivals" in wanted:
        in_own_process(lambda: bench_rivals(given.rival_rows, given.rival_width, given.rival_picks, found), found)
    if "answer" in wanted:
        plan(found)
    if given.figure is not None:
        draw(found, given.figure)
    if given.json:
        print(json.dumps(asdict(found), indent=1))
    return 0 if all(found.goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
