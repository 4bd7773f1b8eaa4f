"""Runs per minute of `apod bench`, where the time goes, and the memory it takes.

The command itself is run in a new folder, start-up, bodies, evaluation and files included, and watched from outside.
Then one unit (the first dataset, seed 0) is run once more in this process with a stopwatch at every part, on one
thread, for the shares and for the number of optimiser steps.

    python benchmarks/bench_runs.py --seeds 5                # meps, all methods, beside the authors' seconds per run
    python benchmarks/bench_runs.py --judged                 # five tables, five seeds: the goals; status 1 if missed
    python benchmarks/bench_runs.py --datasets example --methods vanilla,apod --strengths 0.5    # a moment
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import psutil
import torch

import apod.bench.unit
from apod.bench.arms import ARMS
from apod.bench.methods import METHODS, PAPER, resolve
from apod.bench.runner import TABLES, BenchPlan, run_unit
from apod.bench.store import ResultStore
from apod.bench.unit import load_source
from apod.heads.bank import HeadBank

AUTHORS_SECONDS = 29.0
"""One run of the authors' published code: one strength, one seed, MEPS, 31 answers; start-up and a body trained anew
included, on two otherwise idle cores. Our seconds per run are the wall clock of the whole comparison by its runs."""

MINUTES, GIGABYTES, FASTER, FASTER_GOAL = 20.0, 4.0, 80.0, 100.0


@dataclass
class Watched:
    """A command that ran: how long, and the most memory its processes held together."""

    seconds: float
    peak_bytes: int  # sum of resident sets: what processes share counts for each of them
    largest_bytes: int
    processes: int


def watch(command: list[str]) -> Watched:
    """Run a command to its end, looking at its processes ten times a second."""
    start = time.perf_counter()
    peak, largest, most = 0, 0, 0
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stderr=errors)
        while process.poll() is None:
            sizes = [size for size in map(_resident, _family(process.pid)) if size]
            peak, largest, most = max(peak, sum(sizes)), max([largest, *sizes]), max(most, len(sizes))
            time.sleep(0.1)
        seconds = time.perf_counter() - start
        errors.seek(0)
        if process.returncode:
            sys.exit(f"{' '.join(command)} ended with status {process.returncode}: {errors.read()}")
    return Watched(seconds, peak, largest, most)


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:  # it has just ended
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


@dataclass
class Stopwatches:
    """Seconds and optimiser steps inside one unit, by part."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    steps: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # steps x heads, by part
    part: str = ""

    def around(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time taken from the part that calls it and given to `name`."""

        def timed(*arguments: Any, **named: Any) -> Any:
            outer, self.part, start = self.part, name, time.perf_counter()
            try:
                return inner(*arguments, **named)
            finally:
                spent = time.perf_counter() - start
                self.seconds[name] += spent
                self.seconds[outer] -= spent
                self.part = outer

        return timed

    def counting(self, step: Callable[..., None]) -> Callable[..., None]:
        """HeadBank.step_margins, counted where the bank holds classifiers (f_a has no hidden layer)."""

        def counted(bank: HeadBank, *arguments: Any, **named: Any) -> None:
            if len(bank.sizes) > 2:
                self.steps[self.part] += len(bank)
            step(bank, *arguments, **named)

        return counted


def dissect(plan: BenchPlan) -> Stopwatches:
    """One unit with a stopwatch at every part."""
    watches = Stopwatches()
    places: list[tuple[Any, str, str]] = [
        (apod.bench.unit, "prepare", "body: pre-training and embedding"),
        (apod.bench.unit, "pretrain_head", "head pre-training"),
        (apod.bench.unit.ArmRecorder, "advance", "evaluation: head selection and test counts"),
        (apod.bench.unit.ArmRecorder, "part", "evaluation: metrics of all rounds"),
        (ResultStore, "write", "writing"),
    ]
    places += [(arm, "advance", f"trainer {name}") for name, arm in ARMS.items()]
    places += [(arm, "__init__", f"trainer {name}") for name, arm in ARMS.items()]
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        for place, name, part in places:
            stack.enter_context(mock.patch.object(place, name, watches.around(part, getattr(place, name))))
        stack.enter_context(mock.patch.object(HeadBank, "step_margins", watches.counting(HeadBank.step_margins)))
        ResultStore(Path(folder) / "results").open()
        watches.around("all else: loading, fingerprint, split", run_unit)(
            plan, Path(folder) / "results", plan.datasets[0], plan.seeds[0]
        )
    del watches.seconds[""]
    return watches


def report_command(watched: Watched, runs: pd.DataFrame) -> None:
    """Speed and memory of the command."""
    failed = int((runs["status"] != "ok").sum())
    print(f"\n{len(runs)} runs ({failed} failed) in {watched.seconds:.1f} s, start-up and bodies included:")
    print(f"  {60 * len(runs) / watched.seconds:.0f} runs per minute, {watched.seconds / len(runs):.3f} s per run")
    print(
        f"  peak memory {watched.peak_bytes / 2**30:.2f} GB, resident sets of {watched.processes} processes added up "
        f"(the largest alone {watched.largest_bytes / 2**30:.2f} GB)"
    )
    by_trainer = runs.assign(trainer=runs["method"].map({name: m.trainer for name, m in METHODS.items()}))
    print("\nSeconds of the trainers, from the results (evaluation included, bodies not; processes added up):")
    table = by_trainer.pivot_table(index="trainer", columns="dataset", values="seconds", aggfunc="sum", margins=True)
    print(table.round(1).to_string())


def report_unit(watches: Stopwatches, plan: BenchPlan) -> None:
    """Where the time of one unit goes, and how many steps its runs take."""
    total, runs = sum(watches.seconds.values()), plan.runs()
    print(f"\nOne unit ({plan.datasets[0]}, seed {plan.seeds[0]}, {len(runs)} runs), one thread, {total:.1f} s:")
    for part, seconds in sorted(watches.seconds.items(), key=lambda item: -item[1]):
        print(f"  {part:45}{seconds:8.2f} s {100 * seconds / total:6.1f} %{1e3 * seconds / len(runs):9.1f} ms per run")
    train = len(load_source(plan.datasets[0], plan.data_dir).split(plan.seeds[0]).train)
    body = plan.settings.body_epochs * -(-train // plan.settings.batch_size)
    print(f"Optimiser steps per run, besides the body's {body}, which all runs of a seed share:")
    for part, steps in sorted(watches.steps.items()):
        own = [run for run in runs if part == f"trainer {run.method.trainer}"]
        print(f"  {part:45}{steps // max(len(own), 1):8}" + (_why(part) if own else "  (once, shared by all)"))


def _why(part: str) -> str:
    if part.endswith("lff"):
        return "  (half of them of the biased twin)"
    return "  (full-batch on S alone; most of them of candidates that are only tried)" if part.endswith("fal") else ""


def against_the_authors(watched: Watched, plan: BenchPlan, runs: pd.DataFrame, watches: Stopwatches) -> bool:
    """On MEPS: how many times faster per run than the published code; whether the goal is met."""
    body = watches.seconds["body: pre-training and embedding"]
    per_run = watched.seconds / len(runs)
    ratio = AUTHORS_SECONDS / per_run
    fal = runs["method"] == "fal"
    equal = ratio * (1 - runs.loc[fal, "seconds"].sum() / runs["seconds"].sum()) ** -1 * (~fal).mean()
    print(f"\nMEPS: {per_run:.3f} s per run, the authors' code {AUTHORS_SECONDS:g} s: {ratio:.0f}x faster per run")
    print(f"  without FAL, whose steps are not comparable (all others take equal numbers of steps): {equal:.0f}x")
    print(f"  a body is trained once per seed, not once per run: {body:.1f} s by {len(plan.runs())} runs")
    if len(plan.methods) < len(PAPER) or plan.strengths is not None:
        print("  a part of the comparison: the goals are for all methods and strengths")
        return True
    met, more = ratio >= FASTER, ratio >= FASTER_GOAL
    print(f"  goal {FASTER:g}x {'met' if met else 'MISSED'}, {FASTER_GOAL:g}x {'met' if more else 'not met'}")
    return met


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--datasets", default="meps", help="comma-separated")
    parser.add_argument("--methods", default="paper", help="comma-separated (default: the paper's)")
    parser.add_argument("--strengths", help="comma-separated, instead of the grid")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, help="keep the results here (default: they are thrown away)")
    parser.add_argument("--judged", action="store_true", help="five tables, five seeds, all methods and strengths")
    given = parser.parse_args()
    if given.judged:
        given.datasets, given.seeds, given.methods, given.strengths = ",".join(TABLES), 5, "paper", None
    return given


def main() -> int:
    given = arguments()
    command = [sys.executable, "-m", "apod", "bench", "--datasets", given.datasets, "--methods", given.methods]
    command += ["--seeds", str(given.seeds), "--jobs", str(given.jobs)]
    command += ["--strengths", given.strengths] if given.strengths else []
    command += ["--data-dir", str(given.data_dir)] if given.data_dir else []
    plan = BenchPlan(
        tuple(given.datasets.split(",")),
        tuple(resolve(given.methods.split(","))),
        tuple(range(given.seeds)),
        tuple(map(float, given.strengths.split(","))) if given.strengths else None,
        data_dir=given.data_dir,
    )
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {given.jobs} processes, load {os.getloadavg()[0]:.1f}")
    if len(plan.datasets) * len(plan.seeds) < given.jobs:
        print("Fewer units (dataset x seed) than processes: some stay idle, ask for more seeds to see the full speed.")
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder) / "results"
        if out.exists():
            sys.exit(f"{out} exists: finished runs would be kept, and the time mean nothing. Choose another --out.")
        watched = watch([*command, "--out", str(out)])
        runs = ResultStore(out).read("runs")
    report_command(watched, runs)
    watches = dissect(plan)
    report_unit(watches, plan)
    met = True
    if plan.datasets == ("meps",):
        met = against_the_authors(watched, plan, runs, watches)
    if given.judged:
        in_time, fits = watched.seconds <= 60 * MINUTES, watched.peak_bytes <= GIGABYTES * 2**30
        print(f"\ngoal under {MINUTES:g} minutes {'met' if in_time else 'MISSED'}")
        print(f"goal under {GIGABYTES:g} GB {'met' if fits else 'MISSED'}")
        met = in_time and fits
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
