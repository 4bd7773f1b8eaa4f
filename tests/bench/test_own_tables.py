"""`apod bench` on a user's own table: the same comparison, people without a recorded group apart."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bench_units import QUICK

from apod.bench.results import read_results
from apod.bench.unit import OwnTable
from apod.cli import main
from apod.data import make_example, split_rows
from apod.data.own import FileColumns
from apod.errors import InputError
from apod.method.prepare import prepare

PEOPLE = make_example(300, seed=3)
NAMES = np.array(PEOPLE.group_names, dtype=object)[PEOPLE.groups]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame = PEOPLE.features.assign(hired=PEOPLE.labels, race=np.where(np.arange(300) % 10 == 0, None, NAMES))
    frame.to_csv(tmp_path / "people.csv", index=False, sep="^")
    return tmp_path / "people.csv"


COLUMNS = FileColumns(label="hired", sensitive="race")


def test_the_command_compares_on_an_own_table(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("apod.method.settings.PRESETS", {"paper": QUICK})
    own = ["bench", table, "--label", "hired", "--sensitive", "race", "--sep", "^", "--budget", "8"]
    few = ["--methods", "vanilla,apod,pod-all", "--strengths", "0.5", "--seeds", "2", "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", ["apod", *map(str, own), *few, "--out", str(tmp_path / "r")])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 0, said
    assert "30 rows without a recorded group are left out" in said
    assert "6 runs on record" in said
    runs = pd.read_parquet(tmp_path / "r" / "runs.parquet")
    assert set(runs["dataset"]) == {"people"}
    asked = runs.loc[runs["method"] == "apod", "answered"]
    assert (asked == 8).all()
    task = read_results(tmp_path / "r").tasks["people"]
    assert task.group_names == PEOPLE.group_names
    test_part = runs[["n_0", "n_1"]].sum(axis=1)
    assert (test_part == 270 - int(0.6 * 270) - int(0.2 * 270)).all()


def test_the_body_is_trained_on_the_rows_that_the_methods_train_on(table: Path) -> None:
    columns = FileColumns(label="hired", sensitive="race", drop=("neighbourhood",))
    source = OwnTable(table.rename(table.with_name("people.tsv")), columns)
    text = source.path.read_text().replace("^", "\t")
    source.path.write_text(text)
    found = source.source()
    assert found.split(0).train.tolist() == prepare(found.dataset, QUICK, 0).split.train.tolist()
    assert found.split(0).train.tolist() == split_rows("own file", 270, (0.6, 0.2, 0.2), 0).train.tolist()


def test_a_file_named_like_a_known_dataset_is_not_taken_for_it(tmp_path: Path) -> None:
    assert OwnTable(tmp_path / "adult.csv", COLUMNS).name == "own-adult"
    assert OwnTable(tmp_path / "people.xlsx", COLUMNS).name == "people"


def test_a_comparison_needs_recorded_groups(table: Path) -> None:
    with pytest.raises(InputError, match="needs recorded groups"):
        OwnTable(table, FileColumns(label="hired")).source()


def test_columns_without_a_table_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["apod", "bench", "--label", "hired"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "name its file first" in capsys.readouterr().err
