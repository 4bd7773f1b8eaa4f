"""How well a correction of the default model works with few answers: shares, harm, coverage, the frontier over caution.

    python benchmarks/bench_correction.py --seeds 20 --jobs 2 --data-dir ../shared/data --out out/correction
    python benchmarks/bench_correction.py --arms gap,random --tasks adult,meps --budgets 30,100 --judge-on pool

Recorded groups answer. An arm is a way to ask and a prior of f_a; `known` has everybody's group in training and
validation part. For every run the fall of the gap that each of hundreds of corrections is expected to bring, and what
it really brings, are kept in --out: choices of any caution come from there. Finished runs are not repeated: after a
change of the method name another folder. `--judge-on pool` judges on training and validation part, for choosing
settings; `test`, on the test part, for what is claimed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import joblib
import numpy as np

from apod.data import Split, TableEncoder, load_dataset, split_rows
from apod.fairness.notions import EQUALIZED_ODDS
from apod.method.asking import Asking
from apod.method.correction_choice import Limits, affordable, choose
from apod.method.correction_fit import (
    STRENGTHS,
    FittedCorrection,
    Population,
    fit_correction,
    make_population,
)
from apod.method.gap_interval import signed_differences
from apod.method.judgement import Judged, bands, costs, trace_paths
from apod.method.posterior import DEFAULT_PRIOR, People, Prior, memberships
from apod.models.calibration import fit_calibration
from apod.models.standard import fit_standard
from apod.randomness import generator

UNFAIR, FAIR = ("adult", "law_school", "meps", "compas"), ("loan", "bank", "german")
TASKS = (*UNFAIR, *FAIR)
KEPT_OUT = ("law_school", "bank")
"""In no choice of a setting: whether it holds is checked on these."""
CAUTIONS = np.array([0, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 2])
NARROWER = 0.02
"""A signed gap is reversed when it is more than this on the other side."""

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Arm:
    """A way to ask and what f_a may be before any answer."""

    random_share: float = 0.5
    by: str = "label"
    prior: Prior = DEFAULT_PRIOR
    everybody: bool = False


WIDE = replace(DEFAULT_PRIOR, narrow_share=0.0)
ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        "known": Arm(everybody=True),
        "gap": Arm(),
        "random": Arm(random_share=1.0),
        "cell": Arm(random_share=1.0, by="cell"),
        "gap-by-cell": Arm(by="cell"),
        "gap-75": Arm(random_share=0.25),
        "gap-wide": Arm(prior=WIDE),
        "random-wide": Arm(random_share=1.0, prior=WIDE),
    }
)


@dataclass(frozen=True, eq=False)
class Base:
    """A task, split by seed, with the default model's scores: everybody's, out of fold in the training part."""

    inputs: Any
    labels: Any
    groups: Any
    split: Split
    scores: Any
    eta: Any
    cut: float
    seconds: float

    @property
    def decisions(self) -> Any:
        return (self.scores > 0.5).astype(np.int64)

    def people(self, rows: Any) -> People:
        margins = _log_odds(self.eta[rows].clip(1e-9, 1 - 1e-9)) - _log_odds(self.cut)
        return People(self.inputs[rows], self.labels[rows], self.decisions[rows], margins)

    @property
    def pool(self) -> Any:
        return np.concatenate([self.split.train, self.split.validation])


def _log_odds(probability: Any) -> Any:
    return np.log(probability / (1 - probability))  # scipy's own function cannot be sent to another process


def base_of(task: str, seed: int, told: argparse.Namespace) -> Base:
    """Fit the default model, or read what it said the last time."""
    file = Path(told.out) / "base" / f"{task}-{seed}.npz"
    if not file.exists():
        dataset = load_dataset(task, data_dir=told.data_dir)
        split = split_rows(dataset.key, len(dataset), dataset.task.split, seed)
        start = time.perf_counter()
        fitted = fit_standard(dataset.features.iloc[split.train], dataset.labels[split.train], seed)
        seconds = time.perf_counter() - start
        scores = fitted.model.margin(dataset.features)
        scores[split.train] = fitted.training_scores
        calibration = fit_calibration(fitted.training_scores, dataset.labels[split.train])
        encoded = TableEncoder().fit(dataset.features.iloc[split.train]).transform(dataset.features)
        write(
            file,
            {
                "inputs": encoded,
                "labels": dataset.labels,
                "groups": dataset.groups,
                "train": split.train,
                "validation": split.validation,
                "test": split.test,
                "scores": scores,
                "eta": calibration.probability(scores),
                "cut": calibration.cut,
                "seconds": seconds,
                "model": fitted.name,
                "rivals": sklearn_accuracies(dataset, split, encoded, seed),
            },
        )
    kept = np.load(file)
    split = Split(kept["train"], kept["validation"], kept["test"])
    each = (kept[name] for name in ("inputs", "labels", "groups"))
    return Base(*each, split, kept["scores"], kept["eta"], float(kept["cut"]), float(kept["seconds"]))


def sklearn_accuracies(dataset: Any, split: Split, encoded: Any, seed: int) -> list[float]:
    """Accuracy on the test part of scikit-learn's logistic regression and histogram gradient boosting, as they come."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    y, X = dataset.labels, dataset.features
    linear = LogisticRegression(max_iter=1000).fit(encoded[split.train], y[split.train])
    boosted = HistGradientBoostingClassifier(random_state=seed, categorical_features="from_dtype")
    boosted.fit(X.iloc[split.train], y[split.train])
    decided = (linear.predict(encoded[split.test]), boosted.predict(X.iloc[split.test]))
    return [float(np.mean(own == y[split.test])) for own in decided]


def write(file: Path, arrays: Arrays) -> None:
    """A whole file or none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".partial.npz")
    np.savez_compressed(unfinished, **arrays)
    unfinished.replace(file)


def run_file(arm: str, task: str, seed: int, budget: int, told: argparse.Namespace) -> Path:
    return Path(told.out) / told.judge_on / arm / f"{task}-{seed}-{budget}.npz"


def run_unit(task: str, seed: int, told: argparse.Namespace) -> None:
    """All arms and budgets of a task and seed that are not on file yet."""
    for name in told.arms:
        arm = ARMS[name]
        budgets = [0] if arm.everybody else told.budgets_of(task)
        missing = [b for b in budgets if not run_file(name, task, seed, b, told).exists()]
        if not missing:
            continue
        base = base_of(task, seed, told)
        population = make_population(
            EQUALIZED_ODDS,
            base.people(base.pool),
            base.eta[base.pool],
            base.cut,
            len(base.split.train),
            2,
            seed,
            arm.prior,
        )
        truth = np.eye(2)[base.groups[base.pool]]
        asked = (
            np.arange(len(truth))
            if arm.everybody
            else ask(arm, population, truth, max(missing), seed, told, name, task)
        )
        for budget in missing:
            rows = asked if arm.everybody else asked[:budget]
            fitted = fit_correction(population, {int(row): truth[row] for row in rows}, Limits(), seed)
            write(
                run_file(name, task, seed, budget, told), measured(base, fitted, told.judge_on, seed) | {"rows": rows}
            )
        print(f"{name} {task} {seed}", flush=True)


def ask(
    arm: Arm, population: Population, truth: Any, budget: int, seed: int, told: argparse.Namespace, name: str, task: str
) -> Any:
    """The first `budget` people that an arm asks about, each after the answers before it."""
    file = Path(told.out) / "asked" / name / f"{task}-{seed}.npz"
    if file.exists() and len(rows := np.load(file)["rows"]) >= budget:
        return rows[:budget]
    first = slice(0, population.training)
    labels, decisions = population.people.labels[first], population.people.decisions[first]
    asking = Asking(population, labels if arm.by == "label" else 2 * labels + decisions, seed, arm.random_share)
    asked: list[int] = []
    start = time.process_time()
    while len(asked) < budget:
        count = 1 if len(asked) < 60 else 2
        rng = generator(seed, "random questions", name, len(asked))
        for choice in asking.choose(min(count, budget - len(asked)), (), rng):
            asked.append(choice.row)
            asking.add_answer(choice.row, truth[choice.row])
    write(file, {"rows": np.array(asked), "seconds": time.process_time() - start})
    return np.array(asked)


def measured(base: Base, fitted: FittedCorrection, judge_on: str, seed: int) -> Arrays:
    """What every correction was expected to do, and what it does to the people judged on, by their recorded groups."""
    population = fitted.population
    rows = base.pool if judge_on == "pool" else base.split.test
    members = memberships(population.reader, fitted.weights, base.inputs[rows])
    own = fitted.scores.of(base.eta[rows], members).reshape(len(rows), -1)
    push = fitted.directions.reshape(len(fitted.directions), -1) @ own.T
    with np.errstate(divide="ignore", invalid="ignore"):
        at = 2 * (base.eta[rows] - base.cut) / push
    band = bands(np.where((at > 0) & np.isfinite(at), at, np.inf), STRENGTHS)
    judged = Judged(base.labels[rows], base.decisions[rows])
    blocks = [(slice(None), np.eye(2)[base.groups[rows]][:, None])]
    truth = trace_paths(EQUALIZED_ODDS, judged, band, len(STRENGTHS), (1, 2), blocks)
    lost = costs(judged, band, len(STRENGTHS))
    signed = truth.rates[:, :, 0, :, 0] - truth.rates[:, :, 0, :, 1]
    expected = signed_differences(fitted.paths.base)
    picks, intervals = [], []
    for caution in CAUTIONS:
        chosen = choose(fitted.falls, fitted.costs, Limits(caution=float(caution)))
        picks.append((chosen.direction, chosen.strength) if chosen.applied else (-1, -1))
        after = replace(fitted, chosen=chosen).estimates(len(rows), seed)[1]
        intervals.append((after.gap, after.low, after.high))
    before = fitted.estimates(len(rows), seed)[0]
    return {
        "mean": fitted.falls.mean,
        "deviation": fitted.falls.deviation,
        "affordable": affordable(fitted.costs, Limits()),
        "base": truth.base[0, :, 0] - truth.base[0, :, 1],
        "signed": signed,
        "accuracy_lost": lost.accuracy,
        "balanced_lost": lost.balanced,
        "accuracy": np.mean(judged.labels == judged.decisions),
        "picks": np.array(picks),
        "intervals": np.array(intervals),
        "base_interval": np.array([before.gap, before.low, before.high]),
        "signed_mean": expected.mean(axis=0),
        "signed_interval": np.quantile(expected, [0.025, 0.975], axis=0),
    }


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


def load_runs(told: argparse.Namespace, arm: str, task: str, budget: int) -> list[Arrays]:
    files = [run_file(arm, task, seed, budget, told) for seed in told.seeds]
    return [dict(np.load(file)) for file in files if file.exists()]


def share_table(told: argparse.Namespace, arm: str, caution: int) -> list[str]:
    """Per task and budget: gap before and after, share of what all groups would close, costs, coverage, reversals."""
    lines = [
        f"\n{arm}, caution {CAUTIONS[caution]:g}, judged on {told.judge_on}",
        "| task | answers | seeds | gap before | after | all groups | share [95 %] | acted | accuracy | balanced "
        "| covers base / selected | width | signed covers / width | reversed |",
        "| --- " * 14 + "|",
    ]
    for task in told.tasks:
        known = load_runs(told, "known", task, 0)
        for budget in told.budgets_of(task):
            runs = load_runs(told, arm, task, budget)
            if not runs or len(known) < len(runs):
                continue
            own, all_known = ([result(r, caution) for r in rs] for rs in (runs, known[: len(runs)]))
            lines.append(_row(task, budget, runs, own, all_known))
    return lines


def _row(task: str, budget: int, runs: list[Arrays], own: list[Result], known: list[Result]) -> str:
    before, after, best = (
        np.array(v) for v in ([r.before for r in own], [r.after for r in own], [r.after for r in known])
    )
    share = f"{shares(before, after, best)}" if task in UNFAIR else f"harm {(after - before).mean():+.3f}"
    covers = [
        np.mean([r["base_interval"][1] <= g <= r["base_interval"][2] for r, g in zip(runs, before, strict=True)]),
        np.mean([r.interval[0] <= r.after <= r.interval[1] for r in own]),
    ]
    inside = [((r["signed_interval"][0] <= r["base"]) & (r["base"] <= r["signed_interval"][1])).mean() for r in runs]
    width = np.mean([r["base_interval"][2] - r["base_interval"][1] for r in runs])
    signed = np.mean([r["signed_interval"][1] - r["signed_interval"][0] for r in runs])
    cost = [np.mean([getattr(r, name) for r in own]) for name in ("accuracy_lost", "balanced_lost")]
    return (
        f"| {task} | {budget} | {len(own)} | {before.mean():.3f} | {after.mean():.3f} +- {_error(after - before):.3f} "
        f"| {best.mean():.3f} | {share} | {np.mean([r.acted for r in own]):.0%} | {-cost[0]:+.4f} | {-cost[1]:+.4f} | "
        f"{covers[0]:.2f} / {covers[1]:.2f} | {width:.2f} | {np.mean(inside):.2f} / {signed:.2f} | "
        f"{np.mean([r.reversed_by > NARROWER for r in own]):.0%} |"
    )


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


def known_table(told: argparse.Namespace, caution: int) -> list[str]:
    """With everybody's group known: the part of the gap that is closed within the limits."""
    lines = [
        f"\nall groups known, caution {CAUTIONS[caution]:g}, judged on {told.judge_on}",
        "| task | seeds | gap before | after | closed | accuracy | balanced |",
        "| --- " * 7 + "|",
    ]
    for task in told.tasks:
        own = [result(run, caution) for run in load_runs(told, "known", task, 0)]
        if own:
            before, after = (np.mean([getattr(r, name) for r in own]) for name in ("before", "after"))
            cost = [-np.mean([getattr(r, name) for r in own]) for name in ("accuracy_lost", "balanced_lost")]
            lines.append(
                f"| {task} | {len(own)} | {before:.3f} | {after:.3f} | {1 - after / before:.0%} | {cost[0]:+.4f} "
                f"| {cost[1]:+.4f} |"
            )
    return lines


def accuracy_table(told: argparse.Namespace) -> list[str]:
    """The default model against scikit-learn's logistic regression and boosting as they come, test part."""
    lines = [
        "\naccuracy of the default model, test part",
        "| task | seeds | default | logistic regression | histogram gradient boosting | against the better | seconds |",
        "| --- " * 7 + "|",
    ]
    for task in told.tasks:
        files = [Path(told.out) / "base" / f"{task}-{seed}.npz" for seed in told.seeds]
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


def frontier(told: argparse.Namespace, arm: str) -> list[str]:
    """Mean share on the unfair tasks against mean harm on the fair ones, as caution grows."""
    unfair, fair = ([t for t in told.tasks if t in kind] for kind in (UNFAIR, FAIR))
    lines = [f"\nfrontier of {arm}: mean share / mean harm", f"| caution | {' | '.join(map(str, told.budgets))} |"]
    lines.append("| --- " * (len(told.budgets) + 1) + "|")
    for place, caution in enumerate(CAUTIONS):
        cells = []
        for budget in told.budgets:
            closed = [_share(told, arm, task, budget, place) for task in unfair]
            harm = [_harm(told, arm, task, budget, place) for task in fair]
            each = " ".join(f"{100 * s:.0f}" for s in closed)
            cells.append(f"{np.nanmean(closed):.0%} ({each}) / {np.nanmean(harm):+.4f}" if harm else "")
        lines.append(f"| {caution:g} | {' | '.join(cells)} |")
    return lines


def _share(told: argparse.Namespace, arm: str, task: str, budget: int, place: int) -> float:
    runs, known = load_runs(told, arm, task, budget), load_runs(told, "known", task, 0)
    own, best = ([result(r, place) for r in rs] for rs in (runs, known[: len(runs)]))
    fall = sum(r.before - r.after for r in own)
    return fall / sum(r.before - r.after for r in best) if own and best else float("nan")


def _harm(told: argparse.Namespace, arm: str, task: str, budget: int, place: int) -> float:
    own = [result(r, place) for r in load_runs(told, arm, task, budget)]
    return float(np.mean([r.after - r.before for r in own])) if own else float("nan")


class Told(argparse.Namespace):
    """What the user asked for."""

    tasks: Sequence[str]
    budgets: Sequence[int]
    seeds: Sequence[int]
    arms: Sequence[str]

    def budgets_of(self, task: str) -> list[int]:
        return [budget for budget in self.budgets if task != "german" or budget <= 100]


def arguments() -> Told:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--budgets", type=lambda text: [int(b) for b in text.split(",")], default=[30, 100, 300])
    parser.add_argument("--seeds", type=lambda text: range(int(text)), default=range(20))
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["known", "gap"], help=", ".join(ARMS))
    parser.add_argument("--caution", type=float, default=Limits().caution)
    parser.add_argument("--judge-on", choices=("pool", "test"), default="test")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/correction"))
    return parser.parse_args(namespace=Told())


def main() -> None:
    told = arguments()
    units = [(task, seed) for seed in told.seeds for task in told.tasks]
    joblib.Parallel(n_jobs=told.jobs)(joblib.delayed(run_unit)(task, seed, told) for task, seed in units)
    caution = int(np.abs(CAUTIONS - told.caution).argmin())
    lines = [*accuracy_table(told), *known_table(told, caution)]
    for arm in [arm for arm in told.arms if arm != "known"]:
        lines += [*share_table(told, arm, caution), *frontier(told, arm)]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
