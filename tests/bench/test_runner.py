"""The runner: finished work is never repeated, additions change nothing else, failures stay on record."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from bench_units import QUICK, same_but_for_time, tiny_people, tiny_plan, tiny_source
from torch import Tensor

import apod.bench.runner
import apod.bench.unit
from apod.bench.arms import ARMS, LffArm
from apod.bench.methods import METHODS, resolve
from apod.bench.runner import BenchPlan, run_bench
from apod.bench.store import FORMAT, NUMBERS, Part, ResultStore
from apod.bench.unit import TableSource
from apod.cli import main
from apod.errors import CheckpointError, InputError
from support.waiting import PATIENCE, until

TABLES = ("runs", "rounds", "answers")
FEW = ("vanilla", "lff", "apod")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apod.bench.runner, "load_source", tiny_source)


def bench(plan: BenchPlan, folder: Path) -> ResultStore:
    return run_bench(plan, folder, jobs=1)


def times(folder: Path) -> dict[str, int]:
    """When every part and body was last written."""
    files = [*folder.glob("parts/*/*"), *folder.glob("bodies/*")]
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in files}


def subset(store: ResultStore, table: str, **wanted: tuple[object, ...]) -> pd.DataFrame:
    rows = store.read(table)
    for column, values in wanted.items():
        rows = rows[rows[column].isin(values)]
    return rows.reset_index(drop=True)


class Counted:
    """Stands before a function and counts its calls."""

    def __init__(self, patch: pytest.MonkeyPatch, place: object, name: str) -> None:
        self.calls, inner = 0, getattr(place, name)

        def counted(*arguments: object, **named: object) -> object:
            self.calls += 1
            return inner(*arguments, **named)

        patch.setattr(place, name, counted)


def test_a_second_run_does_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = bench(tiny_plan(*FEW), tmp_path / "r")
    before, tables = times(store.folder), [store.read(table) for table in TABLES]
    arms, bodies = Counted(monkeypatch, apod.bench.runner, "run_arm"), Counted(monkeypatch, TableSource, "embeddings")
    again = bench(tiny_plan(*FEW), tmp_path / "r")
    assert (arms.calls, bodies.calls) == (0, 0)
    assert times(store.folder) == before
    for table, frame in zip(TABLES, tables, strict=True):
        pd.testing.assert_frame_equal(again.read(table), frame, check_exact=True)


def test_adding_a_dataset_or_a_seed_changes_no_other_row(tmp_path: Path) -> None:
    small = bench(tiny_plan(*FEW, seeds=(1,)), tmp_path / "grown")
    first = [small.read(table) for table in TABLES]
    before = times(small.folder)
    bigger = tiny_plan(*FEW, datasets=("other", "tiny"), seeds=(0, 1))
    grown, fresh = bench(bigger, tmp_path / "grown"), bench(bigger, tmp_path / "fresh")
    assert before.items() <= times(grown.folder).items()
    for table, frame in zip(TABLES, first, strict=True):
        pd.testing.assert_frame_equal(subset(grown, table, dataset=("tiny",), seed=(1,)), frame, check_exact=True)
        same_but_for_time(grown.read(table), fresh.read(table))
        assert {(d, s) for d, s in zip(fresh.read(table)["dataset"], fresh.read(table)["seed"], strict=True)} == {
            (d, s) for d in ("other", "tiny") for s in (0, 1)
        }


def test_adding_a_method_or_a_strength_leaves_finished_rows_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench(tiny_plan("vanilla", "apod"), tmp_path / "r")
    first = [store.read(table) for table in TABLES]
    before, bodies = times(store.folder), Counted(monkeypatch, apod.bench.unit, "prepare")
    plan = tiny_plan("vanilla", "apod", "pod-rs", "fal", strengths=(2.0, 0.7, 0.2))
    bench(plan, tmp_path / "r")
    assert bodies.calls == 0  # embeddings are kept
    assert before.items() <= times(store.folder).items()
    for table, frame in zip(TABLES, first, strict=True):
        kept = store.read(table)
        kept = kept[kept["key"].isin(frame["key"])].reset_index(drop=True)
        pd.testing.assert_frame_equal(kept, frame, check_exact=True)
    runs = store.read("runs")
    assert runs["key"].is_unique
    assert sorted(runs.loc[runs["method"] == "apod", "value"]) == [0.2, 0.7, 2.0]
    fresh = bench(plan, tmp_path / "fresh")
    for table in TABLES:  # and what was added is what a bench of everything at once gives
        same_but_for_time(store.read(table), fresh.read(table))


def test_two_processes_give_the_same_tables_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # workers are new processes: they load the example population by its name
    methods = tuple(replace(METHODS[name], values=METHODS[name].values[-1:]) for name in (*FEW, "group-dro"))
    plan = BenchPlan(("example",), methods, (0, 1, 2), settings=replace(QUICK, epochs=1, body_epochs=1, batch_size=256))
    one, two = run_bench(plan, tmp_path / "one", jobs=1), run_bench(plan, tmp_path / "two", jobs=2)
    for table in TABLES:
        same_but_for_time(
            pd.read_parquet(one.folder / f"{table}.parquet"), pd.read_parquet(two.folder / f"{table}.parquet")
        )


class Broken(LffArm):
    """An arm that fails in its second round."""

    def advance(self) -> None:
        if self._round == 1:
            raise ArithmeticError("the loss is not a number")
        super().advance()


def break_arm(patch: pytest.MonkeyPatch, trainer: str) -> None:
    patch.setattr(apod.bench.unit, "ARMS", {**ARMS, trainer: Broken})


def test_a_failing_arm_is_on_record_with_its_error_and_only_retried_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_arm(patch, "lff")
        store = bench(tiny_plan(*FEW), tmp_path / "r")
    runs = store.read("runs").set_index("method")
    assert (runs.loc["lff", "status"] == "failed").all()
    assert len(runs.loc["lff"]) == 2
    assert set(runs.loc["lff", "error"]) == {"ArithmeticError: the loss is not a number"}
    assert runs.loc["lff", "accuracy"].isna().all()
    assert (runs.loc[["vanilla", "apod"], "status"] == "ok").all()
    assert "lff" not in set(store.read("rounds")["method"])
    before = times(store.folder)

    arms = Counted(monkeypatch, apod.bench.runner, "run_arm")
    bench(tiny_plan(*FEW), tmp_path / "r")
    assert arms.calls == 0
    assert times(store.folder) == before

    bench(tiny_plan(*FEW, retry_failed=True), tmp_path / "r")
    assert arms.calls == 1
    healthy = bench(tiny_plan(*FEW), tmp_path / "healthy")
    for table in TABLES:
        same_but_for_time(store.read(table), healthy.read(table))


@pytest.mark.parametrize("added", [("pod-rs",), ("pod-al",), ("pod-ca",), ("pod-group",)])
def test_a_retry_in_other_company_replaces_the_failure(
    added: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        break_arm(patch, "pod")
        bench(tiny_plan("apod"), tmp_path / "r")
    store = bench(tiny_plan("apod", *added, retry_failed=True), tmp_path / "r")
    runs = store.read("runs")
    assert runs["key"].is_unique
    assert (runs["status"] == "ok").all()
    assert store.finished() == store.finished(retry_failed=True) == set(runs["key"])


def test_a_dataset_that_cannot_be_prepared_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings: Callable[..., Tensor] = TableSource.embeddings

    def prepare(source: TableSource, *arguments: object) -> Tensor:
        if source.dataset.name == "broken":
            raise InputError("The training part of broken does not hold both labels: give more rows.")
        return embeddings(source, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TableSource, "embeddings", prepare)
        store = bench(tiny_plan(*FEW, datasets=("broken", "tiny")), tmp_path / "r")
    runs = store.read("runs")
    failed = runs[runs["dataset"] == "broken"]
    assert (failed["status"] == "failed").all()
    assert failed["error"].str.contains("does not hold both labels").all()
    assert (runs.loc[runs["dataset"] == "tiny", "status"] == "ok").all()
    assert len(failed) == len(runs) / 2
    healed = bench(tiny_plan(*FEW, datasets=("broken", "tiny"), retry_failed=True), tmp_path / "r")
    assert (healed.read("runs")["status"] == "ok").all()
    assert healed.read("runs")["key"].is_unique


def row(status: str, **more: object) -> dict[str, object]:
    return {"dataset": "d", "seed": 0, "method": "apod", "value": 0.5, "key": "k", "status": status, **more}


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_finished_run_is_never_hidden_by_a_failure_of_the_same_run(tmp_path: Path, order: tuple[str, str]) -> None:
    store = ResultStore(tmp_path / "r").open()
    for name, status in zip(order, ("failed", "ok"), strict=True):
        store.write(f"d-0-pod-{name}", Part([row(status, error=None if status == "ok" else "E")], [], []))
    assert store.read("runs")["status"].tolist() == ["ok"]
    assert store.finished(retry_failed=True) == {"k"}


def test_no_run_fails_because_another_bench_opens_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers outlive a killed command and go on while the next one is at work in the same folder."""
    advance = apod.bench.unit.ArmRecorder.advance

    def disturbed(recorder: apod.bench.unit.ArmRecorder) -> None:
        ResultStore(tmp_path / "r").open()
        advance(recorder)

    monkeypatch.setattr(apod.bench.unit.ArmRecorder, "advance", disturbed)
    runs = bench(tiny_plan(*FEW), tmp_path / "r").read("runs")
    assert set(runs["error"]) == {None}


def test_results_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "bench.json").write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(
        CheckpointError, match=rf"have format {FORMAT + 1}, this version writes {FORMAT}: choose another"
    ):
        bench(tiny_plan("vanilla"), tmp_path / "r")
    (tmp_path / "r" / "bench.json").write_text("no json")
    with pytest.raises(CheckpointError, match="format None"):
        bench(tiny_plan("vanilla"), tmp_path / "r")


def test_results_of_a_version_with_other_numbers_are_refused(tmp_path: Path) -> None:
    bench(tiny_plan("vanilla"), tmp_path / "r")
    marker = tmp_path / "r" / "bench.json"
    assert json.loads(marker.read_text()) == {"format": FORMAT, "numbers": NUMBERS}
    marker.write_text(json.dumps({"format": FORMAT, "numbers": NUMBERS + 1}))
    with pytest.raises(CheckpointError, match="other numbers: choose another --out"):
        bench(tiny_plan("vanilla", "apod"), tmp_path / "r")
    marker.write_text(json.dumps({"format": FORMAT}))  # written before numbers had a version: that was 2
    with pytest.raises(CheckpointError, match="other numbers: choose another --out"):
        bench(tiny_plan("vanilla"), tmp_path / "r")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear ...")
    with pytest.raises(InputError, match="is not empty and holds no bench results: choose another --out"):
        bench(tiny_plan("vanilla"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("a file")
    with pytest.raises(InputError, match="is not a folder"):
        bench(tiny_plan("vanilla"), tmp_path / "r")


def _stop_at(call: str) -> Callable[[pytest.MonkeyPatch], None]:
    def install(patch: pytest.MonkeyPatch) -> None:
        def die(*arguments: object, **named: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(Path, call, die)

    return install


@pytest.mark.parametrize("call", ["mkdir", "write_text", "replace", "rename", "unlink"])
def test_a_bench_that_died_at_any_call_can_go_on(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the first run ends, the second finishes; both as the very first thing and on top of earlier results."""
    for earlier in (False, True):
        folder = tmp_path / f"r-{earlier}"
        if earlier:
            bench(tiny_plan("vanilla"), folder)
        with monkeypatch.context() as patch:
            _stop_at(call)(patch)
            with pytest.raises(KeyboardInterrupt):
                bench(tiny_plan("vanilla", "lff"), folder)
        assert len(bench(tiny_plan("vanilla", "lff"), folder).read("runs")) == 3


def test_a_marker_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between opening and writing leaves an empty file, which must not be taken for the marker."""

    def torn(path: Path, text: str) -> None:
        path.open("w").close()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", torn)
        with pytest.raises(KeyboardInterrupt):
            ResultStore(tmp_path / "r").open()
    ResultStore(tmp_path / "r").open()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", torn)
        ResultStore(tmp_path / "r").open()  # an existing marker is not written again


def test_unfinished_parts_are_neither_read_nor_kept(tmp_path: Path) -> None:
    store = bench(tiny_plan("vanilla"), tmp_path / "r")
    part = next((tmp_path / "r" / "parts").iterdir())
    part.rename(part.with_name(part.name + ".partial"))
    assert store.read("runs").empty
    assert store.finished() == set()
    assert len(bench(tiny_plan("vanilla"), tmp_path / "r").read("runs")) == 1
    assert not list((tmp_path / "r" / "parts").glob("*.partial"))


@pytest.mark.parametrize("strengths", [(), (0.0,), (-1.0, 0.5), (float("nan"),), (float("inf"),)])
def test_strengths_must_be_positive_numbers(strengths: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="Strengths must be positive numbers"):
        tiny_plan("apod", strengths=strengths)


def test_what_is_named_twice_is_run_once(tmp_path: Path) -> None:
    plan = tiny_plan("apod", datasets=("tiny", "tiny"), seeds=(0, 0), strengths=(0.5, 0.5))
    store = bench(plan, tmp_path / "r")
    assert len(store.read("runs")) == 1
    assert len(list((tmp_path / "r" / "parts").iterdir())) == 1
    assert store.read("answers")["order"].is_unique


def test_progress_tells_of_every_part_and_of_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, int, str]] = []
    monkeypatch.setattr("apod.bench.runner.LOOK_EVERY", 0.001)
    run_bench(tiny_plan(*FEW), tmp_path / "r", 1, lambda done, total, text: heard.append((done, total, text)))
    assert heard[-1] == (2, 2, "")
    assert any(re.search(r"tiny, seed 0: pod, \d+ heads, round \d+/\d+", text) for _, _, text in heard)
    assert not list((tmp_path / "r" / "under-way").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--datasets", "adlut"], "There is no dataset 'adlut': did you mean 'adult'?"),
        (["--datasets", "celeba-hare"], "There is no dataset 'celeba-hare': did you mean 'celeba-hair'?"),
        (["--datasets", "example", "--methods", "vanila"], "There is no method 'vanila': did you mean 'vanilla'?"),
        (["--datasets", "example", "--methods", "pod-indvidual"], "did you mean 'pod-individual'?"),
        (["--datasets", "example", "--strengths", "a"], "--strengths takes numbers separated by commas, got 'a'."),
        (["--datasets", "example", "--strengths", "-1"], "Strengths must be positive numbers"),
        (["--datasets", "example", "--seeds", "0"], "--seeds must be at least 1, got 0."),
        (["--datasets", "example", "--jobs", "0"], "--jobs must be at least 1, got 0."),
        (["--datasets", ","], "Nothing to compare"),
        (["--datasets", "example", "--embed", "efficientnet-lite0"], "--embed is for pictures: name a dataset of them"),
        (["--datasets", "example", "--methods", ","], "Nothing to compare"),
    ],
)
def test_bad_input_is_one_line_and_status_2_before_anything_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["apod", "bench", "--out", str(tmp_path / "r"), *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "r").exists()


def test_the_command_runs_resumes_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["bench", "--datasets", "tiny", "--methods", "vanilla,pod-individual", "--strengths", "0.5", "--seeds", "2"]
    monkeypatch.setattr("apod.method.settings.PRESETS", {"paper": QUICK})
    monkeypatch.setattr(sys, "argv", ["apod", *quick, "--jobs", "1", "--out", str(tmp_path / "r")])
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
        assert "4 runs on record" in " ".join(capsys.readouterr().err.split())
    assert sorted(set(pd.read_parquet(tmp_path / "r" / "runs.parquet")["method"])) == ["pod-ca", "vanilla"]


def test_reading_survives_a_part_that_is_replaced_this_very_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore(tmp_path / "r").open()
    store.write("d-0-pod-a", Part([row("ok", error=None)], [], []))
    store.write("d-0-lff-b", Part([row("failed", error="E", key="other")], [], []))
    read = pd.read_parquet

    def replaced(file: Path) -> pd.DataFrame:
        if "lff" in str(file):
            raise FileNotFoundError(file)  # another process retries it
        return read(file)

    monkeypatch.setattr(pd, "read_parquet", replaced)
    assert store.finished() == {"k"}


def test_embeddings_a_killed_bench_left_half_written_are_removed_but_not_those_being_written(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results").open()
    bodies = store.folder / "bodies"
    bodies.mkdir()
    old, new, whole = bodies / "a-0.77.partial", bodies / "b-0.78.partial", bodies / "c-0.npy"
    for file in (old, new, whole):
        file.write_bytes(b"half")
    for file in (old, whole):
        os.utime(file, (0, 0))
    store.open()
    assert sorted(file.name for file in bodies.iterdir()) == [new.name, whole.name]


def test_what_does_not_go_round_is_handed_out_trainer_by_trainer() -> None:
    from apod.bench.runner import _pieces

    runs = BenchPlan(methods=tuple(resolve(["vanilla", "apod", "lff"]))).runs()
    missing = {("a", 0): runs, ("a", 1): [], ("a", 2): runs, ("b", 0): runs}
    assert _pieces(missing, 2) == [("a", 0, None), ("a", 2, None), ("b", 0, "pod"), ("b", 0, "lff")]
    assert _pieces(missing, 1) == [("a", 0, None), ("a", 2, None), ("b", 0, None)]
    assert _pieces(missing, 3) == [("a", 0, None), ("a", 2, None), ("b", 0, None)]


def command(patch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The status of `apod bench` over tiny populations, in this process."""
    patch.setattr("apod.method.settings.PRESETS", {"paper": QUICK})
    patch.setattr(sys, "argv", ["apod", "bench", "--datasets", "tiny", "--seeds", "1", "--jobs", "1", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_command_says_why_runs_failed_and_ends_with_1_where_all_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        break_arm(patch, "lff")
        for methods, status in (("lff", 1), ("lff,vanilla", 0)):
            assert command(monkeypatch, "--methods", methods, "--out", str(tmp_path / methods)) == status
            said = capsys.readouterr().err
            assert "8 failed." in said
            assert "8 times: ArithmeticError: the loss is not a number" in said
            assert "--retry-failed" in said
            assert ("Next: apod figures" in said) == (status == 0)
    assert command(monkeypatch, "--methods", "lff", "--retry-failed", "--out", str(tmp_path / "lff")) == 0


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert command(monkeypatch, "--methods", "vanilla", "--out", str(tmp_path / "file" / "r")) == 2
    assert f"error: Cannot write to {tmp_path / 'file' / 'r'}" in capsys.readouterr().err


def test_a_damaged_part_is_named_and_a_damaged_body_made_anew(tmp_path: Path) -> None:
    store = bench(tiny_plan("vanilla"), tmp_path / "r")
    whole = store.read("runs").drop(columns="seconds")
    (body,) = (tmp_path / "r" / "bodies").glob("*.npy")
    body.write_bytes(body.read_bytes()[:200])
    (part,) = (tmp_path / "r" / "parts").iterdir()
    (part / "runs.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(CheckpointError, match=f"cannot be read: delete the folder {part.name}"):
        bench(tiny_plan("vanilla"), tmp_path / "r")
    shutil.rmtree(part)
    again = bench(tiny_plan("vanilla"), tmp_path / "r").read("runs").drop(columns="seconds")
    pd.testing.assert_frame_equal(whole, again)


def test_a_budget_or_labels_that_cannot_do_are_refused_before_any_body_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = tiny_people()
    greedy = replace(people, task=replace(people.task, budget=10_000))
    alike = replace(people, labels=np.ones_like(people.labels))
    for dataset, message in ((greedy, "budget of 10000 answers is more than"), (alike, "has one label")):
        source = TableSource(dataset)
        monkeypatch.setattr(apod.bench.runner, "load_source", lambda *told, source=source: source)
        with pytest.raises(InputError, match=message):
            bench(tiny_plan("vanilla"), tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_bench_that_started_them(tmp_path: Path, how: signal.Signals) -> None:
    told = ["bench", "--datasets", "example", "--methods", "pod-all", "--seeds", "2", "--jobs", "2"]
    bench_ = subprocess.Popen(
        [sys.executable, "-m", "apod", *told, "--out", str(tmp_path / "r")], stderr=subprocess.DEVNULL
    )
    under_way = tmp_path / "r" / "under-way"
    until(lambda: under_way.is_dir() and len(list(under_way.iterdir())) == 2)
    workers = [child for child in psutil.Process(bench_.pid).children(recursive=True) if is_worker(child)]
    assert len(workers) == 2
    bench_.send_signal(how)
    bench_.wait()
    assert not psutil.wait_procs(workers, timeout=PATIENCE)[1]


def is_worker(process: psutil.Process) -> bool:
    return any("loky" in word and "popen" in word for word in process.cmdline())
