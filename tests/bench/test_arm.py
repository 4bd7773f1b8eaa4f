"""All methods on one engine: same steps, same splits, budgets kept and counted, groups read only when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bench_units import BUDGET, QUICK, TINY, runs_of, same_but_for_time, tiny_data, tiny_people, tiny_plan, tiny_source

import apod.bench.arm
from apod.bench.arm import RunName, Unit
from apod.bench.arms import ARMS
from apod.bench.methods import ALIASES, ALL, METHODS, NONE, PARTIAL, resolve
from apod.bench.runner import run_bench
from apod.bench.store import ResultStore
from apod.bench.unit import SCALARS, UnitData, run_arm
from apod.data import UNKNOWN, split_rows
from apod.errors import UnknownName
from apod.heads.bank import HeadBank
from apod.method.annotators import RecordedGroups
from apod.method.pod import Training
from apod.method.settings import PRESETS
from apod.run.experiment import run_experiment

ASKING = [name for name in TINY if METHODS[name].annotation == PARTIAL]
TRAINERS = [trainer for trainer in ARMS if trainer in {METHODS[name].trainer for name in TINY}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResultStore]:
    """All methods at two values on one tiny population."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apod.bench.runner.load_source", tiny_source)
        yield run_bench(tiny_plan(), tmp_path_factory.mktemp("bench") / "results", jobs=1)


@pytest.fixture(scope="module")
def data() -> UnitData:
    return tiny_data()


@pytest.fixture(scope="module")
def unit(data: UnitData) -> Unit:
    return data.unit(Training.from_settings(QUICK, data.dataset.task.hidden))


def of(table: pd.DataFrame, method: str, value: float | None = None) -> pd.DataFrame:
    rows = table[table["method"] == method]
    return rows if value is None else rows[rows["value"] == value]


def test_every_run_of_the_plan_is_on_record_once_and_none_failed(store: ResultStore) -> None:
    runs = store.read("runs")
    assert (runs["status"] == "ok").all()
    wanted = [(run.method.name, run.value) for run in tiny_plan().runs()]
    assert list(zip(runs["method"], runs["value"], strict=True)) == wanted  # in the order of the table
    assert runs["key"].is_unique
    same_but_for_time(pd.read_parquet(store.folder / "runs.parquet"), runs)


def test_apod_of_the_bench_is_apod_run_with_the_paper_s_preset(store: ResultStore) -> None:
    only = {"epochs", "body_epochs", "batch_size", "strengths"}  # made quick; all else is the preset's
    assert {k for k, v in QUICK.to_dict().items() if v != PRESETS["paper"].to_dict()[k]} == only
    dataset = tiny_source("tiny").dataset
    result = run_experiment(dataset, QUICK, seed=0).result
    runs, rounds, answers = (store.read(table) for table in ("runs", "rounds", "answers"))
    for entry in [result["vanilla"], *result["tradeoff"]]:
        method, value = ("apod", entry["strength"]) if entry["strength"] else ("vanilla", 0.0)
        row = of(runs, method, value).iloc[0]
        assert 0 < row["selection_rate_1"] < 1  # a classifier, not a constant
        assert row["round"] == entry["round"]
        for name in SCALARS:
            assert row[name] == pytest.approx(_defined(entry[name]), abs=1e-12, nan_ok=True), (method, value, name)
        assert row["validation_accuracy"] == pytest.approx(entry["validation"]["accuracy"])
        for number, one in enumerate(result["rounds"]):
            point = next(p for p in one["curve"] if p["strength"] == entry["strength"])
            known = of(rounds, method, value).set_index("round").loc[number]
            for name in ("accuracy", "balanced_accuracy", "gap", "delta_eo"):
                assert known[name] == pytest.approx(_defined(point[name]), abs=1e-12, nan_ok=True)
    for value in QUICK.strengths:
        asked = of(answers, "apod", value)
        paid = result["trajectories"][str(value)]
        assert asked["row"].tolist() == [answer["row"] for answer in paid]
        assert [dataset.group_names[code] for code in asked["group"]] == [answer["group"] for answer in paid]


def _defined(value: float | None) -> float:
    return float("nan") if value is None else value  # result.json has no NaN


def test_budgets_are_kept_and_every_answer_is_counted(store: ResultStore) -> None:
    dataset = tiny_source("tiny").dataset
    train = split_rows("tiny", len(dataset), dataset.task.split, 0).train
    runs, answers = store.read("runs"), store.read("answers")
    uses = {NONE: 0, PARTIAL: BUDGET, ALL: len(train)}
    for _, run in runs.iterrows():
        own = answers[answers["key"] == run["key"]]
        assert run["answered"] == uses[METHODS[run["method"]].annotation], run["method"]
        assert len(own) == (BUDGET if run["method"] in ASKING else 0)
        assert own["row"].is_unique
        assert set(own["row"]) <= set(train)
        assert own["group"].tolist() == dataset.groups[own["row"]].tolist()
        assert own["label"].tolist() == dataset.labels[own["row"]].tolist()
        assert own["order"].tolist() == list(range(len(own)))


def test_all_train_as_many_rounds_and_ask_one_by_one_or_everything_at_once(store: ResultStore) -> None:
    rounds = store.read("rounds")
    lengths = rounds.groupby(["method", "value"])["round"].agg(["count", "max"])
    total = int(lengths["count"].iloc[0])
    assert (lengths["count"] == total).all()
    assert (lengths["max"] == total - 1).all()
    growing = list(range(BUDGET - total + 1, BUDGET + 1))
    for name in ASKING:
        expected = [BUDGET] * total if METHODS[name].upfront else growing
        assert of(rounds, name, _first_value(rounds, name))["answered"].tolist() == expected, name


def _first_value(table: pd.DataFrame, method: str) -> float:
    return float(of(table, method)["value"].iloc[0])


def test_asking_methods_share_their_first_answers(store: ResultStore) -> None:
    answers = store.read("answers")
    total = store.read("runs")["rounds"].iloc[0]
    first = {
        tuple(rows["row"].tolist()[: BUDGET - total + 1])
        for (method, _), rows in answers.groupby(["method", "value"])
        if method != "ssbm"
    }
    assert len(first) == 1


class Counting:
    """Counts the optimiser steps of the classifier heads of a bank."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps, step = 0, HeadBank.step_margins

        def counted(bank: HeadBank, *arguments: object, **named: object) -> None:
            self.steps += len(bank.sizes) > 2  # f_a has no hidden layer
            step(bank, *arguments, **named)  # type: ignore[arg-type]

        patch.setattr(HeadBank, "step_margins", counted)


@pytest.mark.parametrize(
    "name", ["vanilla", "group-dro", "lff", "ssbm", "pod-rs", "apod", "pod-all", "cgl", "fairdsr", "ssa", "dfr", "jtt"]
)
def test_all_but_fal_and_fairlearn_s_take_the_same_number_of_steps(
    name: str, unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm, count = ARMS[METHODS[name].trainer](unit, runs_of(name)[-1:]), Counting(monkeypatch)
    for _ in range(unit.rounds()):
        arm.advance()
    batches = -(-len(unit.pool.labels) // QUICK.batch_size)
    assert count.steps == unit.rounds() * QUICK.epochs * batches


class Spy(RecordedGroups):
    """Remembers, over all oracles, which rows were read."""

    seen: set[int] = set()  # noqa: RUF012  shared on purpose

    def __call__(self, row: int) -> str | None:
        Spy.seen.add(row)
        return super().__call__(row)


@pytest.mark.parametrize("name", [*ASKING, "vanilla", "lff", "jtt"])
def test_reads_nobody_s_group_but_those_it_asked_about(name: str, unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apod.bench.arm, "RecordedGroups", Spy)
    rounds = unit.rounds()  # how long everybody trains hangs on the first answers
    Spy.seen = set()
    arm = ARMS[METHODS[name].trainer](unit, runs_of(name)[-1:])
    for _ in range(rounds):
        arm.advance()
    assert Spy.seen == set(arm.answers()[0].rows)
    assert len(Spy.seen) == (BUDGET if name in ASKING else 0)


@pytest.mark.parametrize("name", [*ASKING, "vanilla", "lff", "jtt"])
def test_unasked_groups_change_no_question_and_no_head(name: str, unit: Unit) -> None:
    runs = runs_of(name)[:1]

    def course(of: Unit) -> tuple[tuple[int, ...], np.ndarray]:
        arm = ARMS[METHODS[name].trainer](of, runs)
        for _ in range(unit.rounds()):
            arm.advance()
        return arm.answers()[0].rows, arm.heads.parameters.numpy()

    rows, heads = course(unit)
    read = set(rows) | set(unit.first_answers().rows)
    other = np.array([code if row in read else 1 - code for row, code in enumerate(unit.groups)])
    again, heads_again = course(replace(unit, groups=other))
    assert again == rows
    np.testing.assert_array_equal(heads_again, heads)


def test_an_answer_that_is_not_on_record_is_unknown_and_still_counted(unit: Unit) -> None:
    nobody = replace(unit, groups=np.full(len(unit.groups), UNKNOWN))
    assert set(nobody.first_answers().groups) == {UNKNOWN}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_head_s_result_does_not_depend_on_its_bank(trainer: str, data: UnitData, unit: Unit) -> None:
    """Picks and metrics are the same alone and in company.

    Of the parameters the last bit is not: the kernels add up in another order for another number of heads or rows.
    """
    runs = [run for run in tiny_plan().runs() if run.method.trainer == trainer]
    together, bank = run_arm(data, unit, trainer, runs), trained(unit, runs)
    for k, run in enumerate(runs):
        alone = run_arm(data, unit, trainer, [run])
        for table in ("runs", "rounds", "answers"):
            company = [row for row in getattr(together, table) if row["key"] == together.runs[k]["key"]]
            same_but_for_time(pd.DataFrame(getattr(alone, table)), pd.DataFrame(company))
        np.testing.assert_allclose(trained(unit, [run]).parameters[0], bank.parameters[k], rtol=0, atol=1e-5)


def trained(unit: Unit, runs: Sequence[RunName]) -> HeadBank:
    arm = ARMS[runs[0].method.trainer](unit, runs)
    for _ in range(unit.rounds()):
        arm.advance()
    return arm.heads


def test_individual_selection_is_the_core_set_rule_under_another_name() -> None:
    assert ALIASES["pod-individual"] == "pod-ca"
    assert resolve(["pod-individual"]) == resolve(["pod-ca"]) == resolve(["pod-ca", "pod-individual"])
    assert [method.name for method in resolve(["apod", "vanilla", "pod-individual"])] == ["vanilla", "pod-ca", "apod"]


def test_an_unknown_method_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no method 'group-drow': did you mean 'group-dro'"):
        resolve(["apod", "group-drow"])


def test_works_for_more_than_two_groups(tmp_path: Path) -> None:
    data = tiny_data(n_groups=3)
    unit = data.unit(Training.from_settings(QUICK, data.dataset.task.hidden))
    for trainer in TRAINERS:
        runs = [run for run in tiny_plan().runs() if run.method.trainer == trainer]
        rows = run_arm(data, unit, trainer, runs).runs
        assert {row["error"] for row in rows} == {None}
        assert all(np.isnan(row["delta_eo"]) for row in rows)  # a signed difference needs two groups
        assert all(0 <= row["gap"] <= 2 or np.isnan(row["gap"]) for row in rows)


def test_tiny_people_are_what_the_tests_think() -> None:
    assert tiny_people().task.budget == BUDGET
    assert tiny_plan("apod").runs()[-1].value == QUICK.strengths[-1]
