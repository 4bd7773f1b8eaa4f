"""Bench results as arrays: per task and method one row per seed and one column per value, NaN where there is no run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.bench.methods import METHODS
from apod.bench.store import FORMAT, ResultStore, read_group_names
from apod.data import DATASETS, FairnessMetric
from apod.data.pictures import CELEBA_GROUPS
from apod.errors import CheckpointError, InputError

FloatArray = npt.NDArray[np.float64]

TASK_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "adult": "Adult",
        "meps": "MEPS",
        "loan": "Loan default",
        "german": "German credit",
        "bank": "Bank marketing",
        "celeba-hair": "CelebA wavy hair",
        "celeba-young": "CelebA young",
    }
)
"""The paper's tasks, in the order of its figures."""

ANNOTATION: Mapping[str, str] = MappingProxyType({"none": "none", "partial": "budget", "all": "all"})
"""How much group annotation a method uses, in words."""

LOW_BALANCED_ACCURACY = 0.52
FEW_SELECTED = 0.01
COLLAPSE = (
    f"balanced accuracy below {LOW_BALANCED_ACCURACY:g}, or fewer than {100 * FEW_SELECTED:g} % (or more than "
    f"{100 * (1 - FEW_SELECTED):g} %) of the test part predicted positive"
)
"""What counts as collapsed: a classifier that gives (nearly) everybody the same answer is fair and of no use."""


@dataclass(frozen=True, eq=False)
class MethodRuns:
    """One method's finished runs on one task."""

    name: str
    title: str
    annotation: str  # none, partial or all
    value_name: str
    values: tuple[float, ...]
    numbers: Mapping[str, FloatArray]  # (seeds, values) by column; NaN where undefined or not run
    present: npt.NDArray[np.bool_]  # (seeds, values)

    def __getitem__(self, column: str) -> FloatArray:
        missing = np.full(self.present.shape, np.nan)
        return self.numbers.get(column, missing)


@dataclass(frozen=True, eq=False)
class TaskResults:
    """All finished runs of one task."""

    name: str
    title: str
    metric: FairnessMetric
    group_names: tuple[str, ...]
    seeds: tuple[int, ...]
    methods: Mapping[str, MethodRuns]  # in the order of METHODS


@dataclass(frozen=True, eq=False)
class Results:
    """A results folder, read."""

    folder: Path
    tasks: Mapping[str, TaskResults]
    failed: pd.DataFrame
    rounds: pd.DataFrame
    answers: pd.DataFrame


def read_results(folder: Path) -> Results:
    """Everything on record in a results folder, whether or not a bench still adds to it."""
    _check_format(folder)
    store = ResultStore(folder)
    runs = store.read("runs")
    if runs.empty:
        raise InputError(f"{folder} holds no finished runs yet: run `apod bench --out {folder}` first.")
    _check_one_setting(runs, folder)
    done = runs[runs["status"] == "ok"]
    names = [*TASK_TITLES, *sorted(set(map(str, runs["dataset"])) - set(TASK_TITLES))]
    own = read_group_names(folder)
    tasks = {
        name: _task(name, done[done["dataset"] == name], own.get(name))
        for name in names
        if (done["dataset"] == name).any()
    }
    return Results(folder, tasks, runs[runs["status"] != "ok"], store.read("rounds"), store.read("answers"))


def _check_format(folder: Path) -> None:
    """Reading must not touch the folder: a bench may be at work in it."""
    marker = folder / "bench.json"
    if not marker.is_file():
        raise InputError(f"{folder} holds no results of `apod bench`: run that first, or name another folder.")
    try:
        found = json.loads(marker.read_text()).get("format")
    except (json.JSONDecodeError, OSError, AttributeError, UnicodeDecodeError):
        found = None
    if found != FORMAT:
        raise CheckpointError(
            f"The results in {folder} have format {found}, this version reads {FORMAT}: run `apod bench` anew."
        )


def _check_one_setting(runs: pd.DataFrame, folder: Path) -> None:
    """Two settings (or two versions of the data) in one folder would be averaged as if they were seeds."""
    keys = runs.groupby(["dataset", "seed", "method", "value"])["key"].nunique()
    if (keys > 1).any():
        dataset, seed, method, value = keys.index[int(np.argmax(keys.to_numpy() > 1))]
        raise InputError(
            f"{folder} holds runs of several settings, for example {method} at {value:g} on {dataset}, seed {seed}: "
            "give each setting its own results folder."
        )


def _task(name: str, runs: pd.DataFrame, own: Sequence[str] | None = None) -> TaskResults:
    known = DATASETS.get(name)
    seeds = tuple(sorted({int(seed) for seed in runs["seed"]}))
    present = [str(method) for method in dict.fromkeys(runs["method"])]
    order = [*(m for m in METHODS if m in present), *sorted(set(present) - set(METHODS))]
    unnamed = tuple(own) if own is not None else tuple(f"group {a}" for a in _groups(runs))
    groups = known.group_names if known is not None else CELEBA_GROUPS.get(name, unnamed)
    return TaskResults(
        name=name,
        title=TASK_TITLES.get(name, name),
        metric=known.task.metric if known is not None else "delta_eo",  # the picture tasks
        group_names=groups,
        seeds=seeds,
        methods={method: _method(method, runs[runs["method"] == method], seeds) for method in order},
    )


def _groups(runs: pd.DataFrame) -> list[int]:
    return [a for a in range(len(runs.columns)) if f"tpr_{a}" in runs.columns]


def _method(name: str, runs: pd.DataFrame, seeds: Sequence[int]) -> MethodRuns:
    values = sorted({float(value) for value in runs["value"]})
    row = [seeds.index(int(seed)) for seed in runs["seed"]]
    column = [values.index(float(value)) for value in runs["value"]]
    shape = (len(seeds), len(values))
    present = np.zeros(shape, dtype=bool)
    present[row, column] = True
    numbers: dict[str, FloatArray] = {}
    for field in runs.select_dtypes("number").columns:
        numbers[str(field)] = np.full(shape, np.nan)
        numbers[str(field)][row, column] = runs[field].to_numpy(dtype=np.float64, na_value=np.nan)
    selected, collapsed = _collapse(numbers, present, _groups(runs))
    known = METHODS.get(name)
    return MethodRuns(
        name=name,
        title=known.title if known is not None else name,
        annotation=str(runs["annotation"].iloc[0]),
        value_name=known.value_name if known is not None else "value",
        values=tuple(values),
        numbers=numbers | {"selection_rate": selected, "collapsed": collapsed},
        present=present,
    )


def _collapse(
    numbers: Mapping[str, FloatArray], present: npt.NDArray[np.bool_], groups: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Share of the test part predicted positive, and 1 where a run collapsed; NaN without a run."""
    if not groups:
        return np.full(present.shape, np.nan), np.where(present, 0.0, np.nan)
    people = np.stack([numbers[f"n_{a}"] for a in groups])
    rates = np.stack([numbers[f"selection_rate_{a}"] for a in groups])
    everybody = people.sum(axis=0)
    selected = np.divide(
        np.nansum(people * rates, axis=0), everybody, out=np.full(present.shape, np.nan), where=everybody > 0
    )
    low = numbers["balanced_accuracy"] < LOW_BALANCED_ACCURACY
    collapsed = low | (selected < FEW_SELECTED) | (selected > 1 - FEW_SELECTED)
    return selected, np.where(present, collapsed.astype(np.float64), np.nan)
