"""Results made by hand, in the shape of docs/result.md: realistic by default, as odd as a test needs them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from apod.report import AskedPoint, Map, Pictures, Plane, Surface

STRENGTHS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)
SETTINGS: dict[str, Any] = {
    "notion": "equalized_odds",
    "relaxation": "linear",
    "over": "annotated",
    "selector": "apod",
    "proxy": "perceptron",
    "strengths": list(STRENGTHS),
    "trajectories": "shared",
    "ask_strength": 0.5,
    "questions_per_round": 1,
    "body": "contrastive",
    "body_epochs": 50,
    "epochs": 10,
    "batch_size": 256,
    "dropout": 0.5,
    "split": [0.25, 0.25, 0.5],
    "embedding": 64,
    "hidden": [32],
}


def around(value: float | None, half: float) -> list[float | None]:
    return [None, None] if value is None else [value - half, value + half]


def metrics(
    groups: dict[str, tuple[float | None, float | None, float | None, int]],
    accuracy: float = 0.845,
    balanced_accuracy: float = 0.76,
    half: float = 0.02,
    excluded: int = 0,
) -> dict[str, Any]:
    """The METRICS object of groups {name: (tpr, fpr, selection_rate, n)}; gap and ratios follow from the rates."""
    tprs, fprs = ([rates[k] for rates in groups.values()] for k in (0, 1))
    whole = not any(value is None for value in (*tprs, *fprs))
    gap = max(tprs) - min(tprs) + max(fprs) - min(fprs) if whole else None  # type: ignore[type-var, operator]
    two = whole and len(groups) == 2
    delta = (tprs[0] - tprs[1]) + (fprs[0] - fprs[1]) if two else None  # type: ignore[operator]
    eop = (tprs[0] / tprs[1] if two else min(tprs) / max(tprs)) if whole else None  # type: ignore[operator, type-var]
    return {
        "accuracy": accuracy,
        "balanced_accuracy": balanced_accuracy,
        "eop": eop,
        "delta_eo": delta,
        "gap": gap,
        "demographic_parity_difference": None if not whole else 0.17,
        "equalized_odds_difference": gap,
        "groups": {n: {"tpr": t, "fpr": f, "selection_rate": s, "n": k} for n, (t, f, s, k) in groups.items()},
        "excluded": excluded,
        "intervals": {
            "accuracy": around(accuracy, 0.006),
            "balanced_accuracy": around(balanced_accuracy, 0.007),
            "gap": around(gap, half),
            "eop": around(eop, 0.04),
            "delta_eo": around(delta, half),
            "groups": {
                n: {"tpr": around(t, half), "fpr": around(f, half / 2), "selection_rate": around(s, half / 2)}
                for n, (t, f, s, _) in groups.items()
            },
        },
    }


def make_result(
    group_names: Sequence[str] = ("Female", "Male"),
    label_names: Sequence[str] = ("<=50K", ">50K"),
    n_rounds: int = 27,
    strengths: Sequence[float] = STRENGTHS,
    recorded: bool = True,
    change: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """A run on 15,082 test people: gap 16.8 points without mitigation, 8.4 with strength 0.5 (or the last)."""
    rng = np.random.default_rng(0)
    chosen = 0.5 if 0.5 in strengths else strengths[-1]
    n_answers = 3 + n_rounds
    entries = [_entry(s, group_names, recorded, n_rounds) for s in (0.0, *strengths)]
    selected = next(e for e in entries if e["strength"] == chosen)
    answers = [_answer(k, group_names, label_names, rng) for k in range(n_answers)]
    result: dict[str, Any] = {
        "schema_version": 2,
        "apod_version": "0.1.0",
        "dataset": "adult",
        "preset": "default",
        "seed": 0,
        "n_train": 7540,
        "n_validation": 7540,
        "n_test": 15082,
        "budget": n_answers,
        "label_names": list(label_names),
        "group_names": list(group_names),
        "reference": group_names[-1],
        "metric": "delta_eo",
        "notion": "equalized_odds",
        "settings": SETTINGS | {"strengths": list(strengths)},
        "notes": ["30,162 complete rows of adult.data; sex is never a feature."],
        "vanilla": entries[0],
        "tradeoff": entries[1:],
        "selected": selected,
        "changes": _changes(group_names, recorded),
        "rounds": [_round(r, entries, group_names, label_names, answers) for r in range(n_rounds)],
        "answers": answers,
        "trajectories": None,
        "bound": [_bound(r, group_names) for r in range(n_rounds)],
        "timing": {"total_seconds": 31.4, "body_seconds": 18.2, "rounds_seconds": 11.0},
    }
    result = copy.deepcopy(result)  # selected and its entry in tradeoff are equal, not one object: as read from JSON
    if change is not None:
        change(result)
    return result


def _entry(strength: float, names: Sequence[str], recorded: bool, n_rounds: int) -> dict[str, Any]:
    closed = 0.6 * strength / (0.1 + strength)  # share of the gap that is gone
    accuracy, balanced = 0.847 - 0.004 * strength, 0.762 - 0.003 * strength
    last = len(names) - 1
    groups: dict[str, tuple[float | None, float | None, float | None, int]] = {}
    for k, name in enumerate(names):
        below = (1 - k / last) * (1 - closed) if last else 0.0
        groups[name] = (
            (0.62 - 0.10 * below, 0.10 - 0.068 * below, 0.26 - 0.16 * below, _size(k, names))
            if recorded
            else (None, None, None, 0)
        )
    entry = metrics(groups, accuracy, balanced, excluded=0 if recorded else 15082)
    validation = {"accuracy": accuracy, "fairness": 0.83 + 0.1 * closed, "score": accuracy + 0.83 + 0.1 * closed}
    return {**entry, "strength": strength, "round": n_rounds - 1, "validation": validation}


def _size(k: int, names: Sequence[str]) -> int:
    """4,892 and 10,190 for two; together always 15,082, to a few people."""
    return (4892, 10190)[k] if len(names) == 2 else 15082 * 2 * (k + 1) // (len(names) * (len(names) + 1))


def _answer(k: int, names: Sequence[str], labels: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    group, label = names[int(rng.integers(len(names)))], labels[k % 2]
    reason: dict[str, Any] = {"rule": "first answers, random person of a label", "label": label}
    if k >= 4:
        reason = {"rule": "worst subgroup, farthest person", "group": names[k % 2], "label": label}
        reason |= {"centred_accuracy": -0.04 - 0.001 * k, "distance": 3.1 / (1 + 0.05 * k)}
    return {
        "row": int(rng.integers(30162)),
        "group": None if k == 7 else group,
        "round": max(0, k - 3),
        "purpose": "training",
        "probability": 0.0006 if k < 4 else 1.0,
        "strength": None,
        "reason": reason,
    }


def _changes(names: Sequence[str], recorded: bool) -> dict[str, Any]:
    groups = {
        name: {"n": _size(k, names), "to_positive": 12 + 30 * k, "to_negative": 180 - 20 * k}
        for k, name in enumerate(names)
    }
    total = sum(g["to_positive"] + g["to_negative"] for g in groups.values())
    if not recorded:
        groups = {name: {"n": 0, "to_positive": 0, "to_negative": 0} for name in names}
    return {"total": total, "share": total / 15082, "groups": groups}


def _round(
    r: int, entries: list[dict[str, Any]], names: Sequence[str], labels: Sequence[str], answers: list[dict[str, Any]]
) -> dict[str, Any]:
    def wobble(value: float | None, k: int) -> float | None:
        return None if value is None else value + 0.01 * np.sin(r + k) + (0.0 if k == 0 else 0.08 / (1 + r))

    curve = [
        {"strength": e["strength"], "validation_score": e["validation"]["score"]}
        | {name: wobble(e[name], k) for name in ("accuracy", "balanced_accuracy", "gap", "delta_eo", "eop")}
        for k, e in enumerate(entries)
    ]
    cells = [(name, label) for name in names for label in labels]
    subgroups = [
        {
            "group": name,
            "label": label,
            "answered": (4 + r + len(cells) - 1 - k) // len(cells),
            "pool": 700 + 500 * k,
            "centred_accuracy": 0.03 - 0.02 * k,
        }
        for k, (name, label) in enumerate(cells)
    ]
    return {
        "round": r,
        "answered": 4 + r,
        "seconds": 0.31,
        "curve": curve,
        "subgroups": subgroups,
        "empty_cells": [list(cells[0])] if r == 0 else [],
        "asked": [answers[4 + r]["row"]] if 4 + r < len(answers) else [],
    }


def _bound(r: int, names: Sequence[str]) -> dict[str, Any]:
    sampling, covering = 3.2 / np.sqrt(1 + r), 14.0 / (1 + 0.05 * r)
    return {
        "round": r,
        "answered": 4 + r,
        "strength": 0.5,
        "epsilon": 0.31 + 0.001 * r,
        "L": 4.7,
        "K_l": 2.1,
        "K_h": 0.53,
        "gamma": 0.05,
        "worst_group": names[-1],
        "groups": {name: {"n": 2 + r // 2, "mean_loss": 0.2 + 0.1 * k, "delta": 3.3} for k, name in enumerate(names)},
        "sampling_term": None if r == 0 else sampling,
        "covering_term": covering,
        "bound": 0.31 + min(sampling, covering),
        "observed": 0.1 / (1 + r),
    }


def make_pictures(group_names: Sequence[str] = ("Female", "Male"), n: int = 300, random: bool = True) -> Pictures:
    """A map and a plane with a straight boundary x > 0 (vanilla) or x + y > 0 (the others)."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, n))
    label, group = (x > 0).astype(np.int64), rng.integers(-1, len(group_names), n)
    asked = [AskedPoint(0.2 * k - 1, -0.3 * k + 1, group_names[k % 2], k % 2, k, 10 * k) for k in range(8)]
    asked.append(AskedPoint(0.0, 0.0, None, 1, 9))
    grid = np.linspace(-3, 3, 41)
    across, up = np.meshgrid(grid, grid)
    straight, leaning = (1 / (1 + np.exp(-3 * z)) for z in (across, across + up))
    plane = Plane(
        ("merit", "neighbourhood"),
        x,
        y,
        label,
        group,
        grid,
        grid,
        Surface(straight),
        Surface(leaning, asked),
        Surface(leaning, asked, accuracy=0.85, gap=0.3) if random else None,
    )
    return Pictures(Map("PCA", x, y, label, asked), plane)
