"""What the default preset achieves, piece by piece, and against random questions and the paper's settings.

    python benchmarks/bench_default.py --seeds 20 --jobs 2 --data-dir data --out out/default
    python benchmarks/bench_default.py --arms default,stratified,paper --out out/default

Each run is the whole of `apod run` (questions, refits, choice of the head); the recorded groups answer, the figures are
those of the test part. An arm is the default preset with one piece changed, or the paper's preset. The arms of a seed
share body and split, so differences between them are paired. Finished runs are kept in --out and not repeated: after a
change of the method, name another folder. `--figure` wants the arm default and two seeds at least.
Picture tasks take their bodies from --bodies, the folder `bodies` of an `apod bench`, or train them there, 20 minutes
each; with `--picture-bodies 7` seeds from 7 on use those of seeds 0 to 6 in turn. A body sees no label and no group,
but then has seen pictures of the test part, and the intervals take runs of one body for independent.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import joblib
import numpy as np
import torch
from scipy import stats
from torch import Tensor

from apod.bench.unit import load_source
from apod.data import Dataset, Split, TableEncoder
from apod.data.pictures import CELEBA_GROUPS
from apod.fairness.metrics import evaluate
from apod.method.choice import GATE, RoundHeads, clear_direction, posterior_gaps
from apod.method.outlook import is_enough
from apod.method.prepare import Prepared, make_pool
from apod.method.proxy import LaplaceProxy, inputs_for
from apod.method.settings import PRESETS, Settings
from apod.models.body import EmbeddingBody
from apod.run import Outcome, run_experiment

FROZEN = {"adult": 0.102, "meps": 0.035, "loan": 0.017, "german": 0.075, "bank": 0.054}
"""Gap of POD with all groups known, docs/replication.md: five seeds, chosen on the validation part."""
MEASURES = ("accuracy", "balanced_accuracy", "gap")
LEAST_GAINS = (0.002, 0.005, 0.01, 0.02)
LIMITS = (
    (0.005, 0.01, 0.6, 0.8), (0.0075, 0.0125, 0.6, 0.8), (0.01, 0.015, 0.6, 0.8), (1.0, 1.0, 0.6, 0.8),
    (0.0075, 0.0125, 0.7, 0.8), (0.0075, 0.0125, 0.6, 0.0), (0.0075, 0.0125, 0.6, 0.7), (0.0075, 0.0125, 0.6, 0.9),
)  # fmt: skip
"""Of the head choice: accuracy and balanced accuracy that may be lost, and the two probabilities asked for."""

DEFAULT = PRESETS["heads"]
ARMS: Mapping[str, Settings] = MappingProxyType(
    {
        "default": DEFAULT,
        "stratified": replace(DEFAULT, selector="stratified"),
        "random": replace(DEFAULT, selector="random"),
        "paper-questions": replace(DEFAULT, selector="apod"),
        "answered-only": replace(DEFAULT, over="annotated"),
        "sigmoid": replace(DEFAULT, relaxation="sigmoid"),
        "linear": replace(DEFAULT, relaxation="linear"),
        "by-score": replace(DEFAULT, head_choice="score"),
        "epochs-10": replace(DEFAULT, epochs=10),
        "embeddings": replace(DEFAULT, proxy_reads="embeddings"),
        "no-head-steps": replace(DEFAULT, head_steps=0),
        "paper": PRESETS["paper"],
    }
)
"""The default preset, the same with one piece changed, and the paper's."""

Run = dict[str, Any]


def run_unit(task: str, seed: int, arms: Sequence[str], told: argparse.Namespace) -> None:
    """Run the arms of one task and seed that are not on file yet, on one body."""
    missing = [arm for arm in arms if not kept(told, arm, task, seed).exists()]
    if not missing:
        return
    source = load_source(task, told.data_dir)
    dataset, split = source.dataset, source.split(seed)
    bodies = told.bodies or told.out / "bodies"
    embeddings = source.embeddings(DEFAULT, body_of(told, task, seed), bodies, lambda done, total, text: None)
    for arm in missing:
        prepared = prepared_for(ARMS[arm], dataset, split, embeddings, seed)
        outcome = run_experiment(dataset, ARMS[arm], seed=seed, preset=arm, prepared=prepared)
        result = outcome.result
        found = {name: {m: result[name][m] for m in (*MEASURES, "strength")} for name in ("vanilla", "selected")}
        file = kept(told, arm, task, seed)
        unfinished = file.with_suffix(".partial")
        unfinished.write_text(json.dumps(found | {"rounds": path_of(outcome), "heads": heads_of(outcome)}))
        unfinished.replace(file)
        before, after = (found[name]["gap"] for name in ("vanilla", "selected"))
        print(f"{task} {seed} {arm}: gap {before:.3f} to {after:.3f}", flush=True)


def prepared_for(settings: Settings, dataset: Dataset, split: Split, embeddings: Tensor, seed: int) -> Prepared:
    """As `apod run` prepares a dataset, with embeddings that are there already; pictures have no columns to read."""
    inputs = None
    if len(dataset.features.columns):
        encoder = TableEncoder().fit(dataset.features.iloc[split.train])
        read = inputs_for(settings.proxy_reads, encoder.transform(dataset.features), len(dataset.group_names))
        inputs = None if read is None else torch.from_numpy(read)
    pool = make_pool(dataset, split, embeddings, seed, inputs)
    return Prepared(dataset, split, TableEncoder(), EmbeddingBody(embeddings.shape[1]), embeddings, pool, inputs)


def heads_of(outcome: Outcome) -> list[Run]:
    """The head of every round and strength, by what the choice knew, and on the validation part by recorded groups.

    The unpenalised head of the last round comes first.
    """
    if not isinstance(outcome.approach.best, RoundHeads):
        return []
    prepared, mitigation = outcome.approach.prepared, outcome.approach.mitigation
    dataset, rows, pool = prepared.dataset, prepared.split.validation, prepared.pool
    assert isinstance(mitigation.proxy, LaplaceProxy)
    predicted = outcome.approach.best.decisions(pool.validation, mitigation.heads.sizes)  # (R, K, V)
    draws = mitigation.proxy.draws(pool.validation_seen)
    gaps = posterior_gaps(dataset.labels[rows], predicted, draws)
    better = (gaps < gaps[:, -1:, :1]).mean(axis=0)
    clear = float(clear_direction(dataset.labels[rows], predicted[-1, 0], draws)[0])
    found = []
    for place in np.ndindex(*predicted.shape[:2]):
        own = evaluate(dataset.labels[rows], predicted[place], dataset.groups[rows], dataset.group_names, warn=False)
        head = {
            "plain": place[1] == 0,
            "clear": clear,
            "expected": float(np.nanmean(gaps[:, *place])),
            "better": float(better[place]),
        }
        found.append(head | {"validation": {name: getattr(own, name) for name in MEASURES}})
    last = found.pop(-predicted.shape[1])
    return [last, *found]


def path_of(outcome: Outcome) -> list[Run]:
    """After every answer: the head that would be chosen then, on the test part, and what was expected."""
    found = []
    for entry, estimate in zip(outcome.result["rounds"], outcome.approach.choices, strict=True):
        if estimate is None:
            continue
        head = next(h for h in estimate["heads"] if h["strength"] == estimate["strength"])
        ahead = estimate["outlook"]
        found.append(
            {"answered": entry["answered"], "expected": head["gap"], "at_the_end": ahead["gap"], "gain": ahead["gain"]}
            | estimate["test"]
            | {"strength": estimate["strength"]}
        )
    return found


def kept(told: argparse.Namespace, arm: str, task: str, seed: int) -> Path:
    """Where a run is kept, on the body of its own seed or of another."""
    body = body_of(told, task, seed)
    name = f"{arm}-{task}-{seed}" + (f"-body-{body}" if body != seed else "")
    return Path(told.out) / f"{name}.json"


def body_of(told: argparse.Namespace, task: str, seed: int) -> int:
    """The seed whose body a run uses."""
    return seed % told.picture_bodies if task in CELEBA_GROUPS and told.picture_bodies else seed


def mean_and_interval(values: Sequence[float]) -> str:
    """Mean and Student's 95 % interval of it."""
    mean, half = np.mean(values), half_interval(values)
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


def half_interval(values: Sequence[float]) -> float:
    """Half the width of Student's 95 % interval of the mean; NaN of a single value."""
    if len(values) < 2:
        return float("nan")
    return float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


def achieved(arm: str, runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """What one arm achieves, a row per task."""
    lines = [
        f"\n{arm}: accuracy / balanced accuracy / gap on the test part",
        "| task | seeds | plain head | selected head | change of the gap | closed | plain head kept |",
        "| --- " * 7 + "|",
    ]
    for task, own in runs.items():
        before, after = (
            np.array([[run[name][m] for m in MEASURES] for run in own]) for name in ("vanilla", "selected")
        )
        change = after[:, 2] - before[:, 2]
        error = change.std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.nan
        gain = before[:, 2].mean() - FROZEN.get(task, np.nan)
        closed = "-" if np.isnan(gain) else f"{-change.mean() / gain:.0%}" if gain >= 0.02 else "fair already"
        cells = ["{:.3f} / {:.3f} / {:.3f}".format(*values.mean(axis=0)) for values in (before, after)]
        same = np.mean([run["selected"]["strength"] == 0 for run in own])
        lines.append(
            f"| {task} | {len(own)} | {cells[0]} | {cells[1]} | {change.mean():+.3f} +- {error:.3f} | {closed} "
            f"| {same:.0%} |"
        )
    return lines


def compared(arm: str, runs: Mapping[str, Sequence[Run]], default: Mapping[str, Sequence[Run]]) -> list[str]:
    """The default minus this arm, seed by seed: below 0 the default is fairer; accuracies above 0, more accurate."""
    lines = [f"\ndefault - {arm}, paired, mean [95 % interval]", "| task | gap | accuracy | balanced accuracy |"]
    lines.append("| --- " * 4 + "|")
    for task, own in runs.items():
        cells = []
        for measure in ("gap", "accuracy", "balanced_accuracy"):
            pairs = zip(default[task], own, strict=True)
            cells.append(mean_and_interval([a["selected"][measure] - b["selected"][measure] for a, b in pairs]))
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return lines


def by_answers(runs: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[str]:
    """The gap of the head that would be chosen, by number of answers."""
    steps = (5, 10, 15, 20, 25, 30, 37)
    lines = ["\ngap by number of answers", f"| task, arm | {' | '.join(map(str, steps))} |", "| --- " * 8 + "|"]
    for task in next(iter(runs.values())):
        for arm, of_task in runs.items():
            if of_task[task][0]["rounds"]:
                lines.append(f"| {task}, {arm} | {' | '.join(_gap_at(of_task[task], step) for step in steps)} |")
    return lines


def _gap_at(runs: Sequence[Run], answers: int) -> str:
    gaps = [entry["gap"] for run in runs for entry in run["rounds"] if entry["answered"] == answers]
    return f"{np.mean(gaps):.3f}" if len(gaps) == len(runs) else ""


def compared_by_answers(runs: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[str]:
    """The default minus another arm with the same number of answers, paired."""
    steps = (10, 15, 20, 25, 30)
    lines = [
        "\ndefault - other, by number of answers",
        f"| task, other | {' | '.join(map(str, steps))} |",
        "| --- " * 6 + "|",
    ]
    for arm, of_task in runs.items():
        for task, others in of_task.items() if arm != "default" else ():
            if others[0]["rounds"]:
                cells = [_difference_at(runs["default"][task], others, step) for step in steps]
                lines.append(f"| {task}, {arm} | {' | '.join(cells)} |")
    return lines


def _difference_at(runs: Sequence[Run], others: Sequence[Run], answers: int) -> str:
    pairs = []
    for pair in zip(runs, others, strict=True):
        gaps = [entry["gap"] for run in pair for entry in run["rounds"] if entry["answered"] == answers]
        if len(gaps) == len(pair):
            pairs.append(gaps[0] - gaps[1])
    return mean_and_interval(pairs) if len(pairs) == len(runs) else ""


def limits(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """Other limits of the head choice, judged on the validation part by recorded groups: gap, balanced accuracy."""
    lines = [
        "\nchange by the head chosen with other limits, validation part: gap, balanced accuracy, plain head kept",
        f"| at most lost: accuracy, balanced; smaller gap, direction | {' | '.join(runs)} |",
        "| --- " * (len(runs) + 1) + "|",
    ]
    rules: list[tuple[str, Callable[[Sequence[Run]], int]]] = [
        (f"{accuracy:g}, {balanced:g}; {sure:g}, {clear:g}", partial(_chosen, limit=(accuracy, balanced, sure, clear)))
        for accuracy, balanced, sure, clear in LIMITS
    ]
    for name, rule in [*rules, ("the default's limits, by recorded groups", _fairest)]:
        lines.append(f"| {name} | {' | '.join(_changed(own, rule) for own in runs.values())} |")
    return lines


def _changed(runs: Sequence[Run], rule: Callable[[Sequence[Run]], int]) -> str:
    """Mean change of gap and balanced accuracy on the validation part, and how often the plain head stayed."""
    places = [rule(run["heads"]) for run in runs]
    pairs = [
        (run["heads"][0]["validation"], run["heads"][k]["validation"]) for run, k in zip(runs, places, strict=True)
    ]
    gap, balance = (
        np.mean([after[name] - before[name] for before, after in pairs]) for name in ("gap", "balanced_accuracy")
    )
    return f"{gap:+.3f}, {balance:+.3f}, {np.mean([k == 0 for k in places]):.0%}"


def _chosen(heads: Sequence[Run], limit: tuple[float, float, float, float]) -> int:
    """The head that the choice would take with these limits."""
    accuracy, balanced, sure, clear = limit
    allowed = [
        k
        for k in _within(heads, accuracy, balanced)
        if heads[k]["expected"] == heads[k]["expected"] and heads[k]["better"] >= sure and heads[k]["clear"] >= clear
    ]
    return min(allowed, key=lambda k: float(heads[k]["expected"]), default=0)


def _fairest(heads: Sequence[Run]) -> int:
    """The head that a choice with everybody's group would take: the limit of any choice among these heads."""
    allowed = _within(heads, GATE.accuracy, GATE.balanced)
    return min([0, *allowed], key=lambda k: float(heads[k]["validation"]["gap"]))


def _within(heads: Sequence[Run], accuracy: float, balanced: float) -> list[int]:
    """Penalised heads that lose at most so much on the validation part."""
    plain = heads[0]["validation"]
    return [
        k
        for k, head in enumerate(heads)
        if not head["plain"]
        and head["validation"]["accuracy"] >= plain["accuracy"] - accuracy
        and head["validation"]["balanced_accuracy"] >= plain["balanced_accuracy"] - balanced
    ]


def stopped(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """Where a least gain would have ended the runs, and the gap there; and what was foreseen at a third of the way."""
    lines = [
        "\nending early: answers asked, gap there",
        f"| task | {' | '.join(f'{least:g}' for least in LEAST_GAINS)} | all | expected at the end, foreseen early |",
        "| --- " * (len(LEAST_GAINS) + 3) + "|",
    ]
    for task, own in runs.items():
        cells = []
        for least in (*LEAST_GAINS, 0.0):
            ends = [_end(run["rounds"], least) for run in own]
            answers, gap = (np.mean([end[name] for end in ends]) for name in ("answered", "gap"))
            cells.append(f"{answers:.1f}, {gap:.3f}")
        early = [next(e for e in run["rounds"] if e["answered"] >= run["rounds"][-1]["answered"] / 3) for run in own]
        came = np.mean([run["rounds"][-1]["expected"] for run in own])
        foreseen = [entry["at_the_end"] for entry in early if entry["at_the_end"] is not None]
        lines.append(f"| {task} | {' | '.join(cells)} | {came:.3f}, {np.mean(foreseen):.3f} |")
    return lines


def _end(rounds: Sequence[Run], least: float) -> Run:
    """The first round after which the rest of the budget is expected to gain less, or the last."""
    return next((entry for entry in rounds if is_enough(entry["gain"], least)), rounds[-1])


def draw(runs: Mapping[str, Mapping[str, Sequence[Run]]], path: Path) -> None:
    """Before and after on every task, and the gap by number of answers against random ones, where both were run."""
    from apod.bench.figures.style import BLUE, GREY, VERMILLION, new_figure, paper_style

    own = runs["default"]
    curves = [task for task in ("adult", "meps") if task in own]
    with paper_style():
        figure = new_figure(7.2, 2.4)
        panels = figure.subplots(1, 1 + len(curves), width_ratios=[1.2, *[1.0] * len(curves)])
        first = np.ravel(panels)[0]
        for place, of_task in enumerate(own.values()):
            before, after = (np.array([run[name]["gap"] for run in of_task]) for name in ("vanilla", "selected"))
            half = half_interval((after - before).tolist())
            label = place == 0
            first.plot([before.mean(), after.mean()], [place] * 2, color=GREY, lw=1)
            first.plot(before.mean(), place, "s", ms=4, color=GREY, label="plain head" if label else None)
            told = "after, 95 % interval of the change" if label else None
            first.errorbar(after.mean(), place, xerr=half, fmt="o", ms=4, color=VERMILLION, capsize=2, label=told)
        first.set(
            yticks=range(len(own)), yticklabels=list(own), xlabel="gap on the test part", title="Before and after"
        )
        first.set(xlim=(0, None), ylim=(len(own) - 0.4, -2))
        first.legend(loc="upper left")
        for axes, task in zip(np.ravel(panels)[1:], curves, strict=True):
            for arm, colour, name in (("default", VERMILLION, "typical people"), ("stratified", BLUE, "random people")):
                if arm in runs:
                    _curve(axes, runs[arm][task], colour, name)
            plain = np.mean([run["vanilla"]["gap"] for run in own[task]])
            axes.axhline(plain, color=GREY, ls=":", lw=0.8, label="plain head")
            axes.set(title=task, xlabel="answers", ylabel="gap on the test part", ylim=(0, None))
            axes.legend(loc="lower left")
        figure.savefig(path, dpi=200)


def _curve(axes: Any, runs: Sequence[Run], colour: str, name: str) -> None:
    """Mean gap by number of answers, with its standard error, from where every run has one."""
    gaps_at: dict[int, list[float]] = {}
    for run in runs:
        for entry in run["rounds"]:
            gaps_at.setdefault(entry["answered"], []).append(entry["gap"])
    answers = sorted(n for n, gaps in gaps_at.items() if len(gaps) == len(runs))
    mean = np.array([np.mean(gaps_at[n]) for n in answers])
    error = np.array([np.std(gaps_at[n], ddof=1) / np.sqrt(len(runs)) for n in answers])
    axes.fill_between(answers, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    axes.plot(answers, mean, color=colour, label=name)


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="adult,meps,loan,german,bank")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--arms", default="default", help=", ".join(ARMS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--bodies", type=Path, help="default: OUT/bodies")
    parser.add_argument("--picture-bodies", type=int, help="train picture bodies for so many seeds (default: for each)")
    parser.add_argument("--out", type=Path, default=Path("out/default"))
    parser.add_argument("--figure", type=Path, help="draw what the default achieves into this file")
    told = parser.parse_args()
    told.out.mkdir(parents=True, exist_ok=True)
    tasks, arms, seeds = told.tasks.split(","), told.arms.split(","), range(told.seeds)
    joblib.Parallel(n_jobs=told.jobs)(
        joblib.delayed(run_unit)(task, seed, arms, told) for seed in seeds for task in tasks
    )
    runs: dict[str, dict[str, list[Run]]] = {
        arm: {task: [json.loads(kept(told, arm, task, seed).read_text()) for seed in seeds] for task in tasks}
        for arm in arms
    }
    lines = [line for arm in arms for line in achieved(arm, runs[arm])]
    if "default" in arms:
        lines += [line for arm in arms if arm != "default" for line in compared(arm, runs[arm], runs["default"])]
        lines += [*limits(runs["default"]), *stopped(runs["default"]), *compared_by_answers(runs)]
    print("\n".join([*lines, *by_answers(runs)]))
    if told.figure is not None:
        draw(runs, told.figure)


if __name__ == "__main__":
    main()
