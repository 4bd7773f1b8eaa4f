"""How well a correction of the default model works with few answers: shares, harm, coverage, the frontier over caution.

    python benchmarks/bench_correction.py --seeds 20 --jobs 2 --data-dir data --out out/correction
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
from apod.data.encode import EmbeddedBlock
from apod.fairness.notions import EQUALIZED_ODDS
from apod.method.correction_choice import Limits, affordable, bands, choose, trace_paths
from apod.method.correction_costs import Judged, costs
from apod.method.correction_fit import (
    STRENGTHS,
    FittedCorrection,
    Population,
    fit_correction,
    make_population,
)
from apod.method.gap_interval import signed_differences
from apod.method.posterior import DEFAULT_PRIOR, People, Prior, memberships
from apod.method.questions import Asking
from apod.method.verification import apply_verdict, plan_verification
from apod.models.scored import fit_calibration
from apod.models.standard import fit_standard
from apod.randomness import generator
from correction_tables import (
    CAUTIONS,
    TASKS,
    Arrays,
    Runs,
    accuracy_table,
    budgets_of,
    coverage_line,
    draw_frontier,
    error_table,
    frontier,
    known_table,
    share_table,
    verdict_table,
)

KEPT_OUT = ("law_school", "bank")
"""In no choice of a setting: whether it holds is checked on these."""


@dataclass(frozen=True)
class Arm:
    """A way to ask and what f_a may be before any answer."""

    random_share: float = 0.5
    by: str = "label"
    prior: Prior = DEFAULT_PRIOR
    everybody: bool = False
    verify_share: float = 0.0
    asks: str = ""  # the arm whose questions it shares


WIDE = replace(DEFAULT_PRIOR, narrow_share=0.0)
ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        "known": Arm(everybody=True),
        "gap": Arm(),
        "random": Arm(random_share=1.0),
        "cell": Arm(random_share=1.0, by="cell"),
        "gap-by-cell": Arm(by="cell"),
        "gap-25": Arm(random_share=0.75),
        "gap-75": Arm(random_share=0.25),
        "gap-wide": Arm(prior=WIDE),
        "random-wide": Arm(random_share=1.0, prior=WIDE, asks="random"),
        "laplace": Arm(random_share=1.0, prior=replace(DEFAULT_PRIOR, exact_answers=0), asks="random"),
        "verified": Arm(verify_share=0.33, asks="gap"),
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
    blocks: tuple[EmbeddedBlock, ...] = ()

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
    file = base_file(task, seed, told)
    if not file.exists():
        dataset = load_dataset(task, data_dir=told.data_dir)
        split = split_rows(dataset.key, len(dataset), dataset.task.split, seed)
        encoded = TableEncoder().fit(dataset.features.iloc[split.train]).transform(dataset.features)
        found = fitted_base(dataset, split, encoded, seed)
        write(file, found | {"rivals": sklearn_accuracies(dataset, split, encoded, seed)})
    kept = np.load(file)
    split = Split(kept["train"], kept["validation"], kept["test"])
    each = (kept[name] for name in ("inputs", "labels", "groups"))
    embedded = [name for name in sorted(kept) if name.startswith("embedded.")]
    blocks = tuple(EmbeddedBlock(kept[name][0].astype(np.int64), kept[name][1]) for name in embedded)
    return Base(*each, split, kept["scores"], kept["eta"], float(kept["cut"]), float(kept["seconds"]), blocks)


def base_file(task: str, seed: int, told: argparse.Namespace) -> Path:
    return Path(told.out) / "base" / f"{task}-{seed}.npz"


def fitted_base(dataset: Any, split: Split, encoded: Any, seed: int) -> Arrays:
    """The default model's scores, and all else that a run needs of a task and seed."""
    start = time.perf_counter()
    fitted = fit_standard(dataset.features.iloc[split.train], dataset.labels[split.train], seed)
    seconds = time.perf_counter() - start
    scores = fitted.model.margin(dataset.features)
    scores[split.train] = fitted.training_scores
    calibration = fit_calibration(fitted.training_scores, dataset.labels[split.train])
    return {
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
    }


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
        budgets = [0] if arm.everybody else budgets_of(task, told.budgets)
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
            blocks=base.blocks,
        )
        truth = np.eye(2)[base.groups[base.pool]]
        asked = (
            np.arange(len(truth))
            if arm.everybody
            else ask(arm, population, truth, max(missing), seed, told, name, task)
        )
        for budget in missing:
            verifying = round(arm.verify_share * budget)
            answers = {int(row): truth[row] for row in (asked if arm.everybody else asked[: budget - verifying])}
            fitted = fit_correction(population, answers, Limits(), seed)
            found = measured(base, fitted, told.judge_on, seed, told.reversal)
            if verifying:
                found |= verified(fitted, answers, truth, verifying, found)
            write(run_file(name, task, seed, budget, told), found | {"rows": np.array(list(answers))})
        print(f"{name} {task} {seed}", flush=True)


def ask(
    arm: Arm, population: Population, truth: Any, budget: int, seed: int, told: argparse.Namespace, name: str, task: str
) -> Any:
    """The first `budget` people that an arm asks about, each after the answers before it."""
    file = Path(told.out) / "asked" / (arm.asks or name) / f"{task}-{seed}.npz"
    if file.exists() and len(rows := np.load(file)["rows"]) >= budget:
        return rows[:budget]
    first = slice(0, population.training)
    labels, decisions = population.people.labels[first], population.people.decisions[first]
    asking = Asking(population, labels if arm.by == "label" else 2 * labels + decisions, seed, arm.random_share)
    asked: list[int] = []
    start = time.process_time()
    while len(asked) < budget:
        count = 1 if len(asked) < 60 else 2
        rng = generator(seed, "random questions", arm.by, len(asked))
        for choice in asking.choose(min(count, budget - len(asked)), (), rng):
            asked.append(choice.row)
            asking.add_answer(choice.row, truth[choice.row])
    write(file, {"rows": np.array(asked), "seconds": time.process_time() - start})
    return np.array(asked)


def verified(fitted: FittedCorrection, answers: Mapping[int, Any], truth: Any, count: int, found: Arrays) -> Arrays:
    """The verdict of fresh answers on what the default limits chose, and the gap that it leaves."""
    plan = plan_verification(fitted)
    before = np.abs(found["base"]).sum()
    if plan is None:
        return {"verdict": "nothing to verify", "after": before}
    askable = np.ones(len(truth), dtype=np.bool_)
    askable[list(answers)] = False
    drawn = plan.draw(count, askable, generator(0, "verifying", plan.fingerprint))
    fresh = {choice.row: truth[choice.row] for choice in drawn}
    told = plan.judge(fresh)
    kept = apply_verdict(fitted.population, {**answers, **fresh}, Limits(), 0, plan.frozen, told)
    if not kept.chosen.applied:
        return {"verdict": "dropped" if told.strength else told.verdict, "after": before}
    return {
        "verdict": told.verdict,
        "after": np.abs(found["signed"][fitted.chosen.direction, kept.chosen.strength]).sum(),
    }


def audit_widths(base: Base, rows: Any) -> Any:
    """(2,) how wide a 95 % interval of each signed gap is from one answer in all, by cell, times its square root.

    The delta method at the true shares of the groups in the cells (label, decision), a quarter of the answers each.
    """
    labels, decisions, groups = base.labels[rows], base.decisions[rows], base.groups[rows]
    widths = []
    for label in (0, 1):
        inside = labels == label
        rate = decisions[inside].mean()
        own = np.array([(groups[inside & (decisions == d)] == 0).mean() for d in (1, 0)])
        slope = np.array([_difference(rate, own + step) - _difference(rate, own - step) for step in 1e-5 * np.eye(2)])
        widths.append(2 * 1.96 * np.sqrt(4 * ((slope / 2e-5) ** 2 * own * (1 - own)).sum()))
    return np.array(widths)


def _difference(rate: float, shares: Any) -> float:
    """Of two groups' rates, by the share of the first among people decided 1 and 0."""
    of_first = rate * shares[0] + (1 - rate) * shares[1]
    return float(rate * shares[0] / of_first - rate * (1 - shares[0]) / (1 - of_first))


def measured(base: Base, fitted: FittedCorrection, judge_on: str, seed: int, reversal: float) -> Arrays:
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
        chosen = choose(fitted.falls, fitted.costs, Limits(caution=float(caution), reversal=reversal))
        picks.append((chosen.direction, chosen.strength) if chosen.applied else (-1, -1))
        after = replace(fitted, chosen=chosen).estimates(len(rows), seed)[1]
        intervals.append((after.gap, after.low, after.high))
    before = fitted.estimates(len(rows), seed)[0]
    return {
        "mean": fitted.falls.mean,
        "deviation": fitted.falls.deviation,
        "reverses": fitted.falls.reverses,
        "affordable": affordable(fitted.costs, Limits()),
        "base": truth.base[0, :, 0] - truth.base[0, :, 1],
        "signed": signed,
        "accuracy_lost": lost.accuracy,
        "balanced_lost": lost.balanced,
        "accuracy": np.mean(judged.labels == judged.decisions),
        "picks": np.array(picks),
        "intervals": np.array(intervals),
        "base_interval": np.array([before.gap, before.low, before.high]),
        "audit_width": audit_widths(base, rows),
        "signed_mean": expected.mean(axis=0),
        "signed_interval": np.quantile(expected, [0.025, 0.975], axis=0),
        "signed_part": np.quantile(fitted.signed_gaps(len(rows), seed), [0.025, 0.975], axis=0),
    }


class Told(argparse.Namespace):
    """What the user asked for."""

    tasks: Sequence[str]
    budgets: Sequence[int]
    seeds: Sequence[int]
    arms: Sequence[str]


def arguments() -> Told:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--budgets", type=lambda text: [int(b) for b in text.split(",")], default=[30, 100, 300])
    parser.add_argument("--seeds", type=lambda text: range(int(text)), default=range(20))
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["known", "gap"], help=", ".join(ARMS))
    parser.add_argument("--caution", type=float, default=Limits().caution)
    parser.add_argument("--reversal", type=float, default=Limits().reversal)
    parser.add_argument("--judge-on", choices=("pool", "test"), default="test")
    parser.add_argument("--figure", type=Path, help="draw the frontier of all arms here")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/correction"))
    return parser.parse_args(namespace=Told())


def main() -> None:
    told = arguments()
    units = [(task, seed) for seed in told.seeds for task in told.tasks]
    joblib.Parallel(n_jobs=told.jobs)(joblib.delayed(run_unit)(task, seed, told) for task, seed in units)
    caution = int(np.abs(CAUTIONS - told.caution).argmin())
    runs = Runs(told.out, told.judge_on, told.tasks, told.budgets, told.seeds)
    lines = [*accuracy_table(runs), *known_table(runs, caution)]
    arms = [arm for arm in told.arms if arm != "known"]
    for arm in arms:
        lines += [*share_table(runs, arm, caution), *coverage_line(runs, arm, caution)]
        lines += verdict_table(runs, arm, caution) if ARMS[arm].verify_share else frontier(runs, arm)
    if {"gap", "random"} <= set(arms):
        lines += error_table(runs, "gap", "random")
    print("\n".join(lines))
    if told.figure:
        draw_frontier(runs, [arm for arm in arms if not ARMS[arm].verify_share], told.figure)


if __name__ == "__main__":
    main()
