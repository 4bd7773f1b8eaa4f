"""Small units for the bench's tests: by hand, from the generated people, and a bench that knows nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from apod.bench.arm import Arm, RunName, Unit
from apod.bench.methods import CORRECTIONS, METHODS, Method
from apod.bench.runner import BenchPlan
from apod.bench.unit import Source, TableSource, UnitData
from apod.data import Dataset, make_example
from apod.heads.bank import initial_parameters
from apod.method.pod import Training
from apod.method.pool import Pool
from apod.method.prepare import prepare
from apod.method.settings import PRESETS, Settings
from apod.randomness import generator

QUICK = replace(PRESETS["paper"], epochs=8, body_epochs=2, batch_size=16, strengths=(0.2, 2.0))
"""Everything the paper does, for a moment each; its strengths are those `tiny_plan` takes of the table."""

BUDGET = 8

TINY = tuple(n for n in METHODS if n not in ("exponentiated-gradient", "threshold-optimizer", *CORRECTIONS))
"""All methods but fairlearn's, which want more answers and time than these: see tests/bench/test_rivals.py."""


def tiny_people(name: str = "tiny", n: int = 480, n_groups: int = 2, seed: int = 0) -> Dataset:
    """The generated people, few of them, under a name of their own."""
    people = make_example(n, n_groups, seed)
    return replace(people, name=name, task=replace(people.task, budget=BUDGET, embedding=16, hidden=(8,)))


def tiny_source(name: str, data_dir: Path | None = None, skip_bad: bool = False, embed: str | None = None) -> Source:
    """Takes the place of `load_source`: every name is a population of its own."""
    return TableSource(tiny_people(name, seed=sum(name.encode())))


def tiny_plan(
    *names: str, datasets: Sequence[str] = ("tiny",), seeds: Sequence[int] = (0,), **more: object
) -> BenchPlan:
    """A plan over tiny populations; every method at two values."""
    methods = tuple(replace(METHODS[name], values=_two(METHODS[name])) for name in names or TINY)
    return BenchPlan(tuple(datasets), methods, tuple(seeds), settings=QUICK, **more)  # type: ignore[arg-type]


def _two(method: Method) -> tuple[float, ...]:
    return method.values if len(method.values) == 1 else (method.values[2], method.values[-1])


def tiny_data(seed: int = 0, settings: Settings = QUICK, n_groups: int = 2) -> UnitData:
    """One tiny population under one seed."""
    source = TableSource(tiny_people(n_groups=n_groups))
    embeddings = prepare(source.dataset, settings, seed).embeddings
    return UnitData(source.dataset, source.split(seed), embeddings, seed, source.fingerprint(settings))


def unit_of(
    inputs: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray,
    training: Training,
    *,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
    pretrained: np.ndarray | None = None,
    budget: int = 12,
    seed: int = 0,
) -> Unit:
    """A unit from rows made by hand: these are the embeddings."""
    embeddings = torch.as_tensor(inputs, dtype=torch.float32)
    codes = torch.as_tensor(labels, dtype=torch.int64)
    seen = (embeddings, codes)
    if validation is not None:
        seen = torch.as_tensor(validation[0], dtype=torch.float32), torch.as_tensor(validation[1], dtype=torch.int64)
    pool = Pool("by hand", seed, embeddings, codes, *seen, n_groups=int(groups.max()) + 1)
    sizes = (embeddings.shape[1], *training.hidden, 2)
    start = initial_parameters(sizes, generator(seed, "head", "by hand")) if pretrained is None else pretrained
    return Unit(pool, training, start, budget, np.asarray(groups, dtype=np.int64))


def runs_of(name: str, *values: float) -> list[RunName]:
    """One method at these values."""
    return [RunName(METHODS[name], value) for value in values or METHODS[name].values]


def same_but_for_time(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Equal to the bit, NaN being equal to NaN; only the time it took may differ."""
    columns = [column for column in one.columns if column != "seconds"]
    assert set(one.columns) == set(other.columns)
    pd.testing.assert_frame_equal(one[columns], other[columns], check_exact=True)


def advance(arm: Arm, rounds: int) -> Arm:
    for _ in range(rounds):
        arm.advance()
    return arm


def spurious(n: int, conflicting: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The label is the sign of a sum of eight faint features; one loud feature agrees with it in most rows."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    conflict = rng.random(n) < conflicting
    loud = np.where(conflict, 1 - labels, labels) * 4.0 - 2
    faint = (labels * 2.0 - 1)[:, None] * 0.25 + rng.normal(size=(n, 8)) * 0.25
    return np.column_stack([loud, faint]), labels, conflict.astype(np.int64)
