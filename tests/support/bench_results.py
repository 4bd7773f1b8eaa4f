"""Results folders made of known confusion counts, written the way the bench writes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from apod.bench.methods import METHODS, Method
from apod.bench.store import Part, ResultStore, Row

GROUPS = 2


@dataclass(frozen=True)
class Rates:
    """A classifier by its rates, per group."""

    tpr: tuple[float, float]
    fpr: tuple[float, float]


@dataclass(frozen=True)
class World:
    """What is in a results folder; `drop` and `fail` name (dataset, seed, method) whose runs are absent or failed."""

    tasks: tuple[str, ...] = ("meps", "adult", "loan")
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    methods: tuple[str, ...] = tuple(METHODS)
    people: tuple[int, int] = (2000, 3000)
    positives: tuple[int, int] = (400, 900)
    drop: frozenset[tuple[str, int, str]] = frozenset()
    fail: frozenset[tuple[str, int, str]] = frozenset()
    error: str = "ValueError: a rate is undefined"
    bodies: bool = True
    answered: int = 12
    rounds: int = 4
    setting: str = "paper"
    overrides: dict[tuple[str, int, str, float], dict[str, float]] = field(default_factory=dict)


def rates(world: World, task: str, seed: int, method: Method, value: float, step: float = 1.0) -> Rates:
    """Known rates: the gap shrinks along the range, seeds scatter a little, some methods collapse."""
    rng = np.random.default_rng([seed, *task.encode(), list(METHODS).index(method.name), int(1000 * value)])
    place = method.values.index(value) / max(len(method.values) - 1, 1) if value in method.values else 0.5
    if method.name == "lff":
        return Rates((1.0, 1.0), (1.0, 1.0))  # everybody positive
    if method.name == "pod-al" and place > 0.5:
        return Rates((0.0, 0.0), (0.0, 0.0))  # nobody positive
    reach = {"vanilla": 0.0, "pod-all": 0.95, "apod": 0.7}.get(method.name, 0.45)
    gap = 0.16 * (1 - reach * place * step) + rng.normal(0, 0.012)
    noise = rng.normal(0, 0.01, size=2)
    return Rates(
        (0.55 - 0.12 * place - gap / 2 + noise[0], 0.55 - 0.12 * place + gap / 2 + noise[0]),
        (0.06 - gap / 6 + 0.01 * noise[1], 0.06 + gap / 6 + 0.01 * noise[1]),
    )


def metrics(world: World, of: Rates) -> Row:
    """The columns of a run, by counting people."""
    n, p = np.array(world.people), np.array(world.positives)
    tp, fp = np.rint(np.array(of.tpr) * p), np.rint(np.array(of.fpr) * (n - p))
    tpr, fpr = tp / p, fp / (n - p)
    d_tpr, d_fpr = tpr[0] - tpr[1], fpr[0] - fpr[1]
    row: Row = {
        "accuracy": float((tp + (n - p - fp)).sum() / n.sum()),
        "balanced_accuracy": float((tp.sum() / p.sum() + 1 - fp.sum() / (n - p).sum()) / 2),
        "eop": float(tpr[0] / tpr[1]) if tpr[1] else float("nan"),
        "delta_eo": float(d_tpr + d_fpr),
        "gap": float(abs(d_tpr) + abs(d_fpr)),
        "demographic_parity_difference": float(np.ptp((tp + fp) / n)),
        "equalized_odds_difference": float(max(abs(d_tpr), abs(d_fpr))),
    }
    for a in range(GROUPS):
        row |= {f"tpr_{a}": float(tpr[a]), f"fpr_{a}": float(fpr[a]), f"selection_rate_{a}": float((tp + fp)[a] / n[a])}
    return row | {f"n_{a}": int(n[a]) for a in range(GROUPS)}


def write_results(folder: Path, world: World | None = None) -> Path:
    """A results folder of this world."""
    world = world or World()
    store = ResultStore(folder).open()
    for task in world.tasks:
        for seed in world.seeds:
            for name in world.methods:
                if (task, seed, name) not in world.drop:
                    store.write(f"{task}-{seed}-{name}-{world.setting}", _part(world, task, seed, METHODS[name]))
            if world.bodies:
                _body(folder, task, seed)
    return folder


def _part(world: World, task: str, seed: int, method: Method) -> Part:
    part = Part([], [], [])
    for value in method.values:
        head = {"dataset": task, "seed": seed, "method": method.name, "value": value, "annotation": method.annotation,
                "key": f"{world.setting}/{task}/{seed}/{method.name}/{value}"}  # fmt: skip
        if (task, seed, method.name) in world.fail:
            part.runs.append({**head, "status": "failed", "error": world.error, "seconds": 1.0})
            continue
        part.runs.append({**head, **_run(world, task, seed, method, value)})
        part.rounds.extend(_rounds(world, task, seed, method, value, head))
        if method.annotation == "partial":
            part.answers.extend(_answers(world, task, seed, method, value, head))
    return part


def _run(world: World, task: str, seed: int, method: Method, value: float) -> Row:
    numbers = metrics(world, rates(world, task, seed, method, value))
    knows = method.annotation != "none" and not np.isnan(numbers["eop"])
    fairness = 1 - numbers["gap"] if knows else float("nan")
    row: Row = {
        "status": "ok", "error": None, "round": 3, "rounds": 4, "answered": world.answered,
        "validation_accuracy": numbers["accuracy"] + 0.002, "validation_fairness": fairness,
        "validation_score": numbers["accuracy"] + fairness, **numbers, "seconds": 0.5,
    }  # fmt: skip
    return row | world.overrides.get((task, seed, method.name, value), {})


def _rounds(world: World, task: str, seed: int, method: Method, value: float, head: Row) -> Iterable[Row]:
    first = 4 + seed % 2 if method.annotation == "partial" else 0  # seeds begin with different numbers of answers
    for number in range(world.rounds):
        numbers = metrics(world, rates(world, task, seed, method, value, number / max(world.rounds - 1, 1)))
        asked = first + number if method.annotation == "partial" else 0
        yield {**head, "round": number, "answered": asked, **numbers}


def _answers(world: World, task: str, seed: int, method: Method, value: float, head: Row) -> Iterable[Row]:
    from apod.data import split_rows

    train = split_rows(task, 240, (0.25, 0.25, 0.5), seed).train
    rng = np.random.default_rng([seed, len(method.name)])
    for order, row in enumerate(rng.choice(train, world.answered, replace=False)):
        yield {**head, "order": order, "row": int(row), "group": int(row % 2), "label": int(row // 2 % 2)}


def _body(folder: Path, task: str, seed: int) -> None:
    (folder / "bodies").mkdir(exist_ok=True)
    embeddings = np.random.default_rng(seed).normal(size=(240, 6)).astype(np.float32)
    np.save(folder / "bodies" / f"{task}-{seed}-0123abcd.npy", embeddings)
