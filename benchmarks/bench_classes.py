"""A correction of four labels with few answers: Adult's education in four bands, predicted from the rest, by sex.

    python benchmarks/bench_classes.py --seeds 20 --data-dir data --out out/classes
    python benchmarks/bench_classes.py --judge-on pool --notion equalized_odds

Recorded groups answer. `known` has everybody's group in training and validation part; the share is what the answers
close of the gap that it closes, ratio of means over seeds with a 95 % bootstrap interval. `coin` is the same model with
groups drawn by a coin: a fair one, whose gap should be left alone. `--judge-on pool` judges on training and validation
part, for choosing settings; `test`, on the test part, for what is claimed. Finished runs are kept in --out.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from apod.data import Dataset, load_dataset, split_rows
from apod.fairness.metrics import evaluate
from apod.method.algorithm1 import Answers
from apod.method.corrected import ModelPool, corrected, model_pool
from apod.method.settings import Settings
from apod.models.scored import Scored
from apod.models.standard import fit_standard
from apod.processes import blas_on_one_thread
from apod.randomness import generator

BANDS = ("no diploma", "high school", "some college", "degree")
ARMS = ("known", "gap", "stratified", "coin")
EVERYBODY, COIN = "known", "coin"


def education(data_dir: Path | None) -> Dataset:
    """Adult with the education as label, in four bands, and the income among the features."""
    adult = load_dataset("adult", data_dir=data_dir)
    years = adult.features["education-num"].to_numpy(dtype=np.int64)
    features = adult.features.drop(columns=["education", "education-num"], errors="ignore")
    features = features.assign(income=np.where(adult.labels == 1, ">50K", "<=50K"))
    labels = np.digitize(years, [9, 10, 13]).astype(np.int64)
    return replace(adult, features=features, labels=labels, label_names=BANDS, label_values=BANDS, name="education")


def scored_parts(dataset: Dataset, seed: int) -> tuple[ModelPool, Scored, Any]:
    """The default model, with training and validation part, the test part, and the split."""
    split = split_rows(dataset.key, len(dataset), dataset.task.split, seed)
    X, y = dataset.features, dataset.labels
    fitted = fit_standard(X.iloc[split.train], y[split.train], seed)
    pool = model_pool(fitted, (X.iloc[split.train], y[split.train]), (X.iloc[split.validation], y[split.validation]))
    return pool, pool.scored.score(X.iloc[split.test]), split


def run(dataset: Dataset, seed: int, told: argparse.Namespace) -> None:
    """All arms and budgets of one seed that are not on file yet."""
    files = {(arm, budget): told.out / told.judge_on / told.notion / f"{arm}-{seed}-{budget}.json" for arm in told.arms
             for budget in ([0] if arm == EVERYBODY else told.budgets)}  # fmt: skip
    missing = {key: file for key, file in files.items() if not file.exists()}
    if not missing:
        return
    pool, test, split = scored_parts(dataset, seed)
    both = np.concatenate([split.train, split.validation])
    for arm in dict.fromkeys(arm for arm, _ in missing):
        groups = dataset.groups
        if arm == COIN:
            groups = generator(seed, "coin", dataset.key).integers(0, 2, len(groups))
        selector = "gap" if arm in (EVERYBODY, COIN) else arm
        settings = Settings(notion=told.notion, selector=selector, caution=told.caution)
        mitigation = pool.mitigation(settings, 2, seed, dataset.key)
        for budget in sorted(own for name, own in missing if name == arm):
            if arm == EVERYBODY:
                mitigation.begin_with(Answers(tuple(range(len(both))), tuple(groups[both].tolist())))
            while arm != EVERYBODY and len(mitigation.answers[0]) < budget:
                (question,) = mitigation.ask(1)
                mitigation.add_answer(0, question.row, int(groups[both[question.row]]))
            mitigation.refit()
            assert mitigation.fitted is not None
            model, fitted = corrected(pool.scored, mitigation.fitted), mitigation.fitted
            people, rows = (test, split.test) if told.judge_on == "test" else (pool.people, both)
            found = {}
            for name, decided in (("base", people.decisions), ("corrected", model.decisions(people)[0])):
                own = evaluate(dataset.labels[rows], decided, groups[rows], dataset.group_names, mitigation.notion)
                found[name] = {m: getattr(own, m) for m in ("accuracy", "balanced_accuracy", "gap")}
                found[name]["differences"] = [
                    one.tpr - other.tpr
                    for one, other in zip(*(each.labels.values() for each in own.groups.values()), strict=True)
                ]
            estimates = fitted.estimates(len(rows), seed)
            found |= {name: vars(one) for name, one in zip(("before", "after"), estimates, strict=True)}
            found |= {"strength": fitted.strength, "reason": fitted.reason}
            file = missing[arm, budget]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(found))
            print(f"{arm} {seed} {budget}: {found['base']['gap']:.3f} to {found['corrected']['gap']:.3f}", flush=True)


def load(arm: str, budget: int, told: argparse.Namespace) -> list[dict[str, Any]]:
    """The runs of an arm, by seed."""
    folder = told.out / told.judge_on / told.notion
    return [json.loads((folder / f"{arm}-{seed}-{budget}.json").read_text()) for seed in range(told.seeds)]


def reverses(before: list[float], after: list[float]) -> bool:
    """Whether a difference ends clearly on the other side."""
    return any(one * other < 0 and abs(other) > 0.02 for one, other in zip(before, after, strict=True))


def report(told: argparse.Namespace) -> None:
    """Gaps, shares with intervals, losses, coverage and reversals."""
    best = np.array([one["corrected"]["gap"] for one in load(EVERYBODY, 0, told)])
    rng = np.random.default_rng(0)
    print(
        "| questions | answers | before | after | known | share (95 %) | accuracy lost | balanced | covered | turned |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for arm in told.arms:
        for budget in [0] if arm == EVERYBODY else told.budgets:
            runs = load(arm, budget, told)
            before, after = (np.array([one[name]["gap"] for one in runs]) for name in ("base", "corrected"))
            draws = rng.integers(0, len(runs), (4000, len(runs)))
            share = (before - after).mean() / (before - best).mean()
            low, high = np.quantile((before - after)[draws].mean(1) / (before - best)[draws].mean(1), [0.025, 0.975])
            lost = [
                np.mean([one["base"][name] - one["corrected"][name] for one in runs])
                for name in ("accuracy", "balanced_accuracy")
            ]
            covered = np.mean([
                one[est]["low"] <= one[real]["gap"] <= one[est]["high"]
                for one in runs for est, real in (("before", "base"), ("after", "corrected"))
            ])  # fmt: skip
            turned = np.mean([reverses(one["base"]["differences"], one["corrected"]["differences"]) for one in runs])
            shown = "fair" if arm == COIN else f"{share:.0%} ({low:.0%} to {high:.0%})"
            print(
                f"| {arm} | {budget or 'all'} | {before.mean():.3f} | {after.mean():.3f} | {best.mean():.3f} "
                f"| {shown} | {lost[0]:.4f} | {lost[1]:.4f} | {covered:.0%} | {turned:.0%} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", type=lambda text: [int(part) for part in text.split(",")], default=[100])
    parser.add_argument("--arms", type=lambda text: text.split(","), default=list(ARMS))
    parser.add_argument("--notion", default="true_positive_rate_parity")
    parser.add_argument("--caution", type=float, default=Settings.caution)
    parser.add_argument("--judge-on", choices=("test", "pool"), default="test")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/classes"))
    told = parser.parse_args()
    dataset = education(told.data_dir)
    with blas_on_one_thread:
        for seed in range(told.seeds):
            run(dataset, seed, told)
    report(told)


if __name__ == "__main__":
    main()
