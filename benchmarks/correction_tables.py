"""Tables and the picture of `bench_correction.py`, from the runs on file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

UNFAIR, FAIR = ("adult", "law_school", "meps", "compas"), ("loan", "bank", "german")
TASKS = (*UNFAIR, *FAIR)
CAUTIONS = np.array([0, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 2])
REVERSED = 0.02
"""A signed gap is reversed when it is more than this on the other side."""

Arrays = dict[str, Any]


def budgets_of(task: str, budgets: Sequence[int]) -> list[int]:
    """The small table is asked about 100 people at most."""
    return [budget for budget in budgets if task != "german" or budget <= 100]


@dataclass(frozen=True, eq=False)
class Runs:
    """Where runs lie and which of them count."""

    out: Path
    judge_on: str
    tasks: Sequence[str]
    budgets: Sequence[int]
    seeds: Sequence[int]

    def paired(self, arm: str, task: str, budget: int) -> list[tuple[Arrays, Arrays]]:
        """Runs of an arm, each with the one of its seed that knows everybody's group."""
        folder = self.out / self.judge_on
        files = [
            (folder / arm / f"{task}-{seed}-{budget}.npz", folder / "known" / f"{task}-{seed}-0.npz")
            for seed in self.seeds
        ]
        return [(dict(np.load(own)), dict(np.load(known))) for own, known in files if own.exists() and known.exists()]


@dataclass(frozen=True, eq=False)
class Result:
    """One run at one caution."""

    before: float
    after: float
    accuracy_lost: float
    balanced_lost: float
    acted: bool
    reversed_by: float
    interval: tuple[float, float]

    @property
    def covered(self) -> bool:
        return self.interval[0] <= self.after <= self.interval[1]


def result(run: Arrays, caution: int) -> Result:
    direction, strength = run["picks"][caution]
    low, high = run["intervals"][caution][1:]
    before = float(np.abs(run["base"]).sum())
    if direction < 0:
        return Result(before, before, 0.0, 0.0, False, 0.0, (low, high))
    signed = run["signed"][direction, strength]
    reversed_by = float((-np.sign(run["base"]) * signed).max())
    lost = (float(run[name][direction, strength]) for name in ("accuracy_lost", "balanced_lost"))
    return Result(before, float(np.abs(signed).sum()), *lost, True, reversed_by, (low, high))


def share_table(runs: Runs, arm: str, caution: int) -> list[str]:
    """Per task and budget: gap before and after, share of what all groups would close, costs, coverage, reversals."""
    lines = [
        f"\n{arm}, caution {CAUTIONS[caution]:g}, judged on {runs.judge_on}",
        "| task | answers | seeds | gap before | after | all groups | share [95 %], or harm | acted | accuracy "
        "| balanced | covers base / selected | width | signed covers / width | to an audit's | reversed |",
        "| --- " * 15 + "|",
    ]
    for task in runs.tasks:
        for budget in budgets_of(task, runs.budgets):
            pairs = runs.paired(arm, task, budget)
            if pairs:
                lines.append(_row(task, budget, pairs, caution))
    return lines


def _row(task: str, budget: int, pairs: list[tuple[Arrays, Arrays]], caution: int) -> str:
    runs = [run for run, _ in pairs]
    own, known = ([result(run, caution) for run in side] for side in zip(*pairs, strict=True))
    before, after, best = (
        np.array(v) for v in ([r.before for r in own], [r.after for r in own], [r.after for r in known])
    )
    share = shares(before, after, best) if task not in FAIR else f"harm {(after - before).mean():+.3f}"
    base_covered, selected = np.mean(base_covers(runs)), np.mean([r.covered for r in own])
    inside = [((r["signed_part"][0] <= r["base"]) & (r["base"] <= r["signed_part"][1])).mean() for r in runs]
    width = np.mean([r["base_interval"][2] - r["base_interval"][1] for r in runs])
    signed = np.array([r["signed_interval"][1] - r["signed_interval"][0] for r in runs])
    audit = np.array([r["audit_width"] for r in runs]) / np.sqrt(budget)
    cost = [np.mean([getattr(r, name) for r in own]) for name in ("accuracy_lost", "balanced_lost")]
    return (
        f"| {task} | {budget} | {len(own)} | {before.mean():.3f} | {after.mean():.3f} +- {_error(after - before):.3f} "
        f"| {best.mean():.3f} | {share} | {np.mean([r.acted for r in own]):.0%} | {-cost[0]:+.4f} | {-cost[1]:+.4f} | "
        f"{base_covered:.2f} / {selected:.2f} | {width:.2f} | {np.mean(inside):.2f} / {signed.mean():.2f} | "
        f"{signed.mean() / audit.mean():.2f} | {np.mean([r.reversed_by > REVERSED for r in own]):.0%} |"
    )


def base_covers(runs: Sequence[Arrays]) -> list[bool]:
    gaps = [np.abs(run["base"]).sum() for run in runs]
    return [
        bool(run["base_interval"][1] <= gap <= run["base_interval"][2]) for run, gap in zip(runs, gaps, strict=True)
    ]


def coverage_line(runs: Runs, arm: str, caution: int) -> list[str]:
    """Coverage by task and pooled (base and selected counted once where nothing is done), and reversals."""
    by_task: dict[str, list[bool]] = {}
    reversed_by = []
    for task in runs.tasks:
        found = []
        for budget in budgets_of(task, runs.budgets):
            own = [run for run, _ in runs.paired(arm, task, budget)]
            results = [result(run, caution) for run in own]
            found += base_covers(own) + [r.covered for r in results if r.acted]
            reversed_by += [r.reversed_by > REVERSED for r in results]
        by_task[task] = found
    pooled = [one for found in by_task.values() for one in found]
    each = ", ".join(f"{task} {np.mean(found):.1%}" for task, found in by_task.items() if found)
    return [
        f"\n{arm}: intervals cover in {np.mean(pooled):.1%} of {len(pooled)} ({each}); "
        f"a difference is reversed in {np.mean(reversed_by):.1%} of {len(reversed_by)} runs"
    ]


def shares(before: Any, after: Any, best: Any) -> str:
    """Share of what all groups would close, a ratio of means, with a bootstrap interval over seeds."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(before), (2000, len(before)))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = (before - after)[draws].mean(axis=1) / (before - best)[draws].mean(axis=1)
    low, high = np.nanquantile(each, [0.025, 0.975])
    return f"{(before - after).mean() / (before - best).mean():.0%} [{low:.0%}, {high:.0%}]"


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def known_table(runs: Runs, caution: int) -> list[str]:
    """With everybody's group known: the part of the gap that is closed within the limits."""
    lines = [
        f"\nall groups known, caution {CAUTIONS[caution]:g}, judged on {runs.judge_on}",
        "| task | seeds | gap before | after | closed | accuracy | balanced |",
        "| --- " * 7 + "|",
    ]
    for task in runs.tasks:
        own = [result(known, caution) for _, known in runs.paired("known", task, 0)]
        if own:
            before, after = (np.mean([getattr(r, name) for r in own]) for name in ("before", "after"))
            cost = [-np.mean([getattr(r, name) for r in own]) for name in ("accuracy_lost", "balanced_lost")]
            lines.append(
                f"| {task} | {len(own)} | {before:.3f} | {after:.3f} | {1 - after / before:.0%} | {cost[0]:+.4f} "
                f"| {cost[1]:+.4f} |"
            )
    return lines


def accuracy_table(runs: Runs) -> list[str]:
    """The default model against scikit-learn's logistic regression and boosting as they come, test part."""
    lines = [
        "\naccuracy of the default model, test part",
        "| task | seeds | default | logistic regression | histogram gradient boosting | against the better | seconds |",
        "| --- " * 7 + "|",
    ]
    for task in runs.tasks:
        files = [runs.out / "base" / f"{task}-{seed}.npz" for seed in runs.seeds]
        kept = [np.load(file) for file in files if file.exists()]
        if kept:
            own = np.mean([np.mean((k["scores"] > 0.5)[k["test"]] == k["labels"][k["test"]]) for k in kept])
            rivals = np.mean([k["rivals"] for k in kept], axis=0)
            seconds = np.mean([k["seconds"] for k in kept])
            lines.append(
                f"| {task} | {len(kept)} | {own:.4f} | {rivals[0]:.4f} | {rivals[1]:.4f} | {own - rivals.max():+.4f} "
                f"| {seconds:.1f} |"
            )
    return lines


def frontier(runs: Runs, arm: str) -> list[str]:
    """Mean share on the unfair tasks against mean harm on the fair ones, as caution grows."""
    lines = [f"\nfrontier of {arm}: mean share / mean harm", f"| caution | {' | '.join(map(str, runs.budgets))} |"]
    lines.append("| --- " * (len(runs.budgets) + 1) + "|")
    for place, caution in enumerate(CAUTIONS):
        cells = []
        for budget in runs.budgets:
            closed, harm = frontier_point(runs, arm, budget, place)
            each = " ".join(f"{100 * s:.0f}" for s in closed)
            cells.append(f"{np.mean(closed):.0%} ({each}) / {np.mean(harm):+.4f}" if closed and harm else "")
        lines.append(f"| {caution:g} | {' | '.join(cells)} |")
    return lines


def frontier_point(runs: Runs, arm: str, budget: int, place: int) -> tuple[list[float], list[float]]:
    """Shares on the unfair tasks, harm on the fair ones."""
    closed, harm = [], []
    for task in runs.tasks:
        pairs = runs.paired(arm, task, budget) if budget in budgets_of(task, runs.budgets) else []
        own, best = ([result(pair[side], place) for pair in pairs] for side in (0, 1))
        fall, possible = (sum(r.before - r.after for r in side) for side in (own, best))
        if pairs and task in UNFAIR:
            closed.append(fall / possible)
        elif pairs:
            harm.append(-fall / len(pairs))
    return closed, harm


def verdict_table(runs: Runs, arm: str, caution: int) -> list[str]:
    """What fresh answers say of corrections, and how often the gap falls with those that pass."""
    lines = [f"\n{arm}: verdicts", "| task | answers | passed | shrunk | failed | other | share or harm |"]
    lines.append("| --- " * 7 + "|")
    fell = []
    for task in runs.tasks:
        for budget in budgets_of(task, runs.budgets):
            pairs = runs.paired(arm, task, budget)
            if not pairs:
                continue
            verdicts = [str(run["verdict"]) for run, _ in pairs]
            falls = np.array([np.abs(run["base"]).sum() - run["after"] for run, _ in pairs])
            fell += [fall > 0 for fall, said in zip(falls, verdicts, strict=True) if said in ("passed", "shrunk")]
            counts = [verdicts.count(said) for said in ("passed", "shrunk", "failed")]
            possible = sum(r.before - r.after for r in (result(known, caution) for _, known in pairs))
            closed = f"{falls.sum() / possible:.0%}" if task in UNFAIR else f"{-falls.mean():+.4f}"
            others = len(pairs) - sum(counts)
            lines.append(f"| {task} | {budget} | {' | '.join(map(str, counts))} | {others} | {closed} |")
    return [*lines, f"the gap falls in {np.mean(fell) if fell else np.nan:.0%} of {len(fell)} runs that passed"]


def error_table(runs: Runs, one: str, other: str) -> list[str]:
    """Squared error of the estimated signed gaps, paired over seeds."""
    lines = [f"\nsquared error of the signed gaps (root of the mean): {one} against {other}"]
    lines += ["| task | answers | seeds | " + f"{one} | {other} | difference of squares, +- |", "| --- " * 6 + "|"]
    for task in runs.tasks:
        for budget in budgets_of(task, runs.budgets):
            both = [[_squared_error(run) for run, _ in runs.paired(arm, task, budget)] for arm in (one, other)]
            if both[0] and len(both[0]) == len(both[1]):
                first, second = map(np.array, both)
                roots = [f"{np.sqrt(side.mean()):.3f}" for side in (first, second)]
                difference = f"{(first - second).mean():+.4f} +- {_error(first - second):.4f}"
                lines.append(f"| {task} | {budget} | {len(first)} | {' | '.join(roots)} | {difference} |")
    return lines


def _squared_error(run: Arrays) -> float:
    return float(((run["signed_mean"] - run["base"]) ** 2).sum())


def draw_frontier(runs: Runs, arms: Sequence[str], file: Path) -> None:
    """Mean share against mean harm, a line per arm, a panel per budget."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(runs.budgets), figsize=(3.6 * len(runs.budgets), 3.4), sharey=True)
    for axis, budget in zip(np.atleast_1d(axes), runs.budgets, strict=True):
        for arm in arms:
            points = [frontier_point(runs, arm, budget, place) for place in range(len(CAUTIONS))]
            line = [(np.mean(harm), 100 * np.mean(closed)) for closed, harm in points if closed and harm]
            if line:
                axis.plot(*zip(*line, strict=True), marker="o", markersize=3, label=arm)
                for place in (0, 4, 7):
                    axis.annotate(f"{CAUTIONS[place]:g}", line[place], fontsize=7)
        axis.axvline(0, color="grey", linewidth=0.6)
        axis.set_title(f"{budget} answers")
        axis.locator_params(axis="x", nbins=4)
        axis.set_xlabel("mean harm on the fair tasks")
    np.atleast_1d(axes)[0].set_ylabel("mean share closed, %")
    np.atleast_1d(axes)[0].legend(fontsize=8)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
