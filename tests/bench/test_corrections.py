"""Corrections in the comparison: what `apod run` does is a row, and every row follows from its answers alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from apod.bench import runner
from apod.bench.arm import RunName
from apod.bench.corrections import run_corrections
from apod.bench.methods import CORRECTIONS, METHODS, PARTIAL
from apod.bench.runner import run_bench
from apod.bench.store import Part
from apod.data import Dataset
from apod.method.pod import Training
from apod.method.settings import Settings
from apod.run import run_experiment
from support.bench_units import BUDGET, QUICK, same_but_for_time, tiny_data, tiny_people, tiny_plan, tiny_source


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "load_source", tiny_source)


def part_of(*names: str, people: Dataset | None = None, values: tuple[float, ...] = (0.01, 0.05)) -> Part:
    data = tiny_data()
    data = data if people is None else replace(data, dataset=people)
    runs = [RunName(METHODS[name], value) for name in names for value in (values if name != "base" else (0.0,))]
    own = data.unit(Training.from_settings(QUICK, data.dataset.task.hidden))
    part = run_corrections(data, own, runs, lambda done, total, text: None)
    assert [row["error"] for row in part.runs if row["status"] == "failed"] == []
    return part


def test_the_default_row_is_what_apod_run_gives() -> None:
    data, part = tiny_data(), part_of("base", "corrected")
    result = run_experiment(data.dataset, Settings(), seed=0, budget=BUDGET).result
    base, row = (next(one for one in part.runs if one["method"] == name) for name in ("base", "corrected"))
    assert row["value"] == 0.01
    for metric in ("accuracy", "balanced_accuracy", "gap", "delta_eo"):
        assert row[metric] == pytest.approx(result["selected"][metric])
        assert base[metric] == pytest.approx(result["vanilla"][metric])
    asked = [one["row"] for one in part.answers if one["value"] == 0.01]
    assert asked == [answer["row"] for answer in result["answers"]]


def test_every_row_spends_the_budget_and_the_base_model_asks_nobody() -> None:
    part = part_of(*CORRECTIONS)
    runs = pd.DataFrame(part.runs)
    for name in CORRECTIONS:
        asked = runs.loc[runs["method"] == name, "answered"].unique().tolist()
        everybody = len(tiny_data().split.train)
        assert asked == [{"none": 0, "partial": BUDGET, "all": everybody}[METHODS[name].annotation]], name
    assert {row["method"] for row in part.answers} == {n for n in CORRECTIONS if METHODS[n].annotation == PARTIAL}
    last = pd.DataFrame(part.rounds).groupby(["method", "value"]).last()
    np.testing.assert_array_equal(last["gap"], runs.set_index(["method", "value"]).sort_index()["gap"])


def test_groups_that_nobody_asked_for_change_no_decision() -> None:
    names = [name for name in CORRECTIONS if METHODS[name].annotation == PARTIAL]
    honest, people = part_of(*names), tiny_people()
    asked = {row["row"] for row in honest.answers}
    groups = people.groups.copy()
    train = tiny_data().split.train
    unasked = train[~np.isin(train, list(asked))]
    groups[unasked] = 1 - groups[unasked]
    changed = part_of(*names, people=replace(people, groups=groups))
    for metric in ("accuracy", "gap", "validation_fairness"):
        assert [row[metric] for row in honest.runs] == [row[metric] for row in changed.runs]


@pytest.mark.usefixtures("tiny")
def test_a_bench_keeps_them_and_resumes(tmp_path: Path) -> None:
    plan = tiny_plan("vanilla", "base", "corrected")
    first = run_bench(plan, tmp_path / "r", jobs=1).read("runs")
    assert set(first["method"]) == {"vanilla", "base", "corrected"}
    assert (first["status"] == "ok").all()
    same_but_for_time(first, run_bench(plan, tmp_path / "r", jobs=1).read("runs"))


def test_people_without_columns_are_known_by_their_embeddings() -> None:
    data = tiny_data()
    bare = replace(data, dataset=replace(data.dataset, features=data.dataset.features.iloc[:, :0]))
    own = bare.unit(Training.from_settings(QUICK, bare.dataset.task.hidden))
    part = run_corrections(bare, own, [RunName(METHODS["base"], 0.0)], lambda done, total, text: None)
    train, test = bare.split.train, bare.split.test
    embeddings = data.embeddings.numpy().astype(np.float64)
    mean, scale = embeddings[train].mean(axis=0), embeddings[train].std(axis=0)
    scaled = (embeddings - mean) / np.where(scale > 0, scale, 1)
    model = LogisticRegression(max_iter=1000).fit(scaled[train], data.dataset.labels[train])
    assert part.runs[0]["accuracy"] == pytest.approx(model.score(scaled[test], data.dataset.labels[test]), abs=0.011)


def test_a_model_that_cannot_be_fitted_is_a_failed_row() -> None:
    data = tiny_data()
    lonely = replace(data.dataset, labels=np.eye(1, len(data.dataset), int(data.split.train[0]), dtype=np.int64)[0])
    runs = [RunName(METHODS["corrected"], 0.01)]
    own = data.unit(Training.from_settings(QUICK, data.dataset.task.hidden))
    part = run_corrections(replace(data, dataset=lonely), own, runs, lambda done, total, text: None)
    assert part.runs[0]["status"] == "failed"
    assert "at least two of each" in part.runs[0]["error"]
