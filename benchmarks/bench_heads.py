"""The bank's training step against its bare batched matrix products, in the same run.

A step is everything `train_heads` does per mini-batch: drawing rows and dropout masks, forward, cross-entropy and
penalty, backward, Adam, on one thread. The bare products are the matrix products that step cannot do without, and
nothing else, on one thread and on all. All are measured in turn, many times; the table shows medians and, of the
paired ratios, the median. The goals are judged on equal terms, one thread against one thread; the ratio to the faster
of the two bare programs stands beside it. What runs on one thread is timed by that thread's processor time, so that a
busy machine spoils only the column with all threads.

    python benchmarks/bench_heads.py                # the table and the goals; status 1 where one is missed
    python benchmarks/bench_heads.py --profile 40   # where the time goes, by operation, at 40 heads
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch

from apod.heads.bank import HeadBank, initial_parameters
from apod.heads.schedule import Schedule
from apod.method.algorithm1 import Answers
from apod.method.pod import PenaltyRows, Training, train_heads
from apod.method.pool import Pool
from apod.method.settings import PRESETS

HEADS = (1, 8, 40, 64)
BODIES = ((64, 32, 2), (32, 32, 32, 2))
BATCH, ANNOTATED, STEPS = 256, 30, 20
GOALS = {8: 6.0, 40: 4.0}
LATER_GOALS = {40: 3.0, 64: 3.0}


@dataclass(frozen=True)
class Case:
    """K heads of these sizes; S is each head's own or shared by all."""

    sizes: tuple[int, ...]
    heads: int
    separate: bool

    @property
    def name(self) -> str:
        return "-".join(map(str, self.sizes)) + (", own S" if self.separate else ", one S")


def make_pool(case: Case) -> Pool:
    rng = np.random.default_rng(0)
    embeddings = torch.as_tensor(rng.normal(size=(BATCH * STEPS, case.sizes[0])), dtype=torch.float32)
    labels = torch.from_numpy(rng.integers(2, size=len(embeddings)))
    return Pool("bench", 0, embeddings, labels, embeddings[:1], labels[:1], 2)


def training_steps(case: Case) -> Callable[[], None]:
    """One epoch of STEPS steps, as in every round of the loop."""
    pool, rng = make_pool(case), np.random.default_rng(1)
    bank = HeadBank.replicate(initial_parameters(case.sizes, rng), case.heads, case.sizes)
    strengths = torch.linspace(0, 2, case.heads)
    settings = replace(PRESETS["paper"], epochs=1, batch_size=BATCH)
    training = Training.from_settings(settings, case.sizes[1:-1])
    trajectories = []
    for _ in range(case.heads):
        rows = rng.choice(len(pool.labels), ANNOTATED, replace=False)
        trajectories.append(Answers(tuple(rows.tolist()), tuple(rng.integers(2, size=ANNOTATED).tolist())))
    of_head = list(range(case.heads)) if case.separate else [0] * case.heads
    behind = PenaltyRows(pool, training.penalty.notion, trajectories, of_head)
    return lambda: train_heads(bank, pool, training, 0, strengths, behind)


def schedule_alone(case: Case) -> Callable[[], None]:
    """What drawing the rows and masks of those steps costs by itself."""
    schedule = Schedule(
        n=BATCH * STEPS, hidden=case.sizes[1:-1], seed=0, dataset="bench", round=0, epochs=1, batch_size=BATCH,
        own=ANNOTATED,
    )  # fmt: skip

    def draw() -> None:
        for _ in schedule:
            pass

    return draw


def bare_products(case: Case) -> Callable[[], None]:
    """The batched matrix products of STEPS steps: forward, weight gradients, and gradients of hidden layers."""
    rng = np.random.default_rng(2)

    def random(*shape: int) -> torch.Tensor:
        return torch.as_tensor(rng.normal(size=shape), dtype=torch.float32)

    heads, rows = case.heads, BATCH + ANNOTATED
    shared = random(BATCH if case.separate else rows, case.sizes[0])
    parts = [shared.expand(heads, -1, -1)] + ([random(heads, ANNOTATED, case.sizes[0])] if case.separate else [])
    weights = [random(heads, i, o) for i, o in zip(case.sizes, case.sizes[1:], strict=False)]
    outputs = [random(heads, rows, width) for width in case.sizes[1:]]
    slices = list(torch.split(outputs[0], [part.shape[1] for part in parts], dim=1))

    def run() -> None:
        for _ in range(STEPS):
            for part in parts:
                torch.bmm(part, weights[0])
            for inputs, weight in zip(outputs, weights[1:], strict=False):
                torch.bmm(inputs, weight)
            for depth in range(len(weights) - 1, 0, -1):
                torch.bmm(outputs[depth - 1].transpose(1, 2), outputs[depth])
                torch.bmm(outputs[depth], weights[depth].transpose(1, 2))
            for part, slope in zip(parts, slices, strict=True):
                torch.bmm(part.transpose(1, 2), slope)

    return run


def seconds(work: Callable[[], None], clock: Callable[[], float] = time.thread_time) -> float:
    """Seconds per step; several threads need the wall clock."""
    start = clock()
    work()
    return (clock() - start) / STEPS


@dataclass(frozen=True)
class Result:
    """Median seconds per step, and median paired ratios of the step to the bare products."""

    bare: float
    bare_all_threads: float
    step: float
    draws: float
    ratio: float  # to the bare products on one thread
    ratio_to_faster: float


def measure(case: Case, repetitions: int) -> Result:
    """Bare products, training step and its draws in turn, many times."""
    bare, everything = bare_products(case), torch.get_num_threads()

    def on_one_thread() -> None:
        torch.set_num_threads(1)
        bare()

    def on_all_threads() -> None:
        torch.set_num_threads(everything)
        bare()

    works = [(on_one_thread, time.thread_time), (on_all_threads, time.perf_counter)]
    works += [(training_steps(case), time.thread_time), (schedule_alone(case), time.thread_time)]
    for work, clock in works:
        seconds(work, clock)  # warm up
    times = [[seconds(work, clock) for work, clock in works] for _ in range(repetitions)]
    one, every, step, draws = (median(column) for column in zip(*times, strict=True))
    return Result(one, every, step, draws, median(t[2] / t[0] for t in times), median(t[2] / min(t[:2]) for t in times))


def verdict(heads: int, ratio: float) -> tuple[str, bool]:
    """What the goals say of a ratio, and whether a goal of today is missed."""
    words, missed = [], False
    for goals, name in ((GOALS, "goal"), (LATER_GOALS, "later goal")):
        if heads in goals:
            met = ratio <= goals[heads]
            missed |= goals is GOALS and not met
            words.append(f"{name} {goals[heads]:g}x {'met' if met else 'MISSED'}")
    return ", ".join(words), missed


def table(repetitions: int) -> int:
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    print(f"torch {torch.__version__}, {threads} threads, {repetitions} alternating repetitions of {STEPS} steps;")
    print(
        f"mini-batch {BATCH} + {ANNOTATED} annotated rows, float32, dropout and penalty included, milliseconds per step"
    )
    if load > 0.5:
        print(f"The machine is busy (load {load:.1f}): the column with all threads means little.")
    head = ("sizes", "heads", "bare 1", f"bare {threads}", "step", "draws", "us/head", "to 1", "to best")
    print("\n{:20}{:>6}{:>9}{:>9}{:>9}{:>8}{:>9}{:>7}{:>9}  goals".format(*head))
    failed = False
    for sizes in BODIES:
        for separate in (False, True):
            for heads in HEADS:
                case = Case(sizes, heads, separate)
                r = measure(case, repetitions)
                words, missed = verdict(heads, r.ratio)
                failed |= missed
                print(
                    f"{case.name:20}{heads:6}{1e3 * r.bare:9.3f}{1e3 * r.bare_all_threads:9.3f}{1e3 * r.step:9.3f}"
                    f"{1e3 * r.draws:8.3f}{1e6 * r.step / heads:9.1f}{r.ratio:7.2f}{r.ratio_to_faster:9.2f}  {words}",
                    flush=True,
                )
    return int(failed)


def profile(heads: int) -> None:
    """Time by operation, for each pair of sizes, S of each head's own."""
    for sizes in BODIES:
        work = training_steps(Case(sizes, heads, separate=True))
        work()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for _ in range(5):
                work()
        print(sizes, f"{heads} heads, {5 * STEPS} steps")
        print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=22, max_name_column_width=40))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--threads", type=int, help="default: torch's own choice")
    parser.add_argument("--profile", type=int, metavar="HEADS", help="show the time by operation instead")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.profile:
        profile(arguments.profile)
        return 0
    return table(arguments.repetitions)


if __name__ == "__main__":
    sys.exit(main())
