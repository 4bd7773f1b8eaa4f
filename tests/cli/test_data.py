"""`apod check` and the options that say how a file is to be read, as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apod.cli import build_app
from apod.data import make_example
from apod.errors import InputError


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    people = make_example(60, seed=2)
    path = tmp_path_factory.mktemp("people") / "people.csv"
    race = [people.group_names[code] for code in people.groups]
    frame = people.features.assign(hired=people.labels, race=race, city=["Köln", "Ulm", "Bonn"] * 20)
    frame.to_csv(path, index=False, sep="^", decimal=",", encoding="cp1252")
    return path


DIALECT = ["--sep", "^", "--decimal", ",", "--encoding", "cp1252"]


def invoke(*arguments: object) -> object:
    return CliRunner().invoke(build_app(), [*map(str, arguments)])


def test_check_prints_what_was_understood(table: Path) -> None:
    shown = invoke("check", table, "--label", "hired", "--sensitive", "race", *DIALECT)
    assert shown.exit_code == 0, shown.output  # type: ignore[attr-defined]
    for said in ("60 rows", "label   hired: '1' counts as 1", "groups  race:", "feature", "No problems."):
        assert said in shown.output  # type: ignore[attr-defined]


def test_check_prints_json_and_status_1_where_something_must_be_mended(table: Path) -> None:
    shown = invoke("check", table, "--label", "hired", "--sensitive", "rac", *DIALECT, "--json")
    assert shown.exit_code == 1  # type: ignore[attr-defined]
    found = json.loads(shown.output)  # type: ignore[attr-defined]
    assert found["problems"] == ["There is no column 'rac' in people.csv: did you mean 'race'?"]
    assert found["rows"] == 60


TAKING_COLUMNS = [
    ("run", [], ["--sensitive", "rac"]),
    ("campaign", ["new", "DB"], ["--sensitive", "rac", "--groups", "a,b", "--budget", "8"]),
    ("campaign", ["new", "DB"], ["--id-column", "rac", "--groups", "a,b", "--budget", "8", "--sensitive", "race"]),
    ("campaign", ["new", "DB"], ["--show", "rac", "--groups", "a,b", "--budget", "8", "--drop", "race"]),
    ("campaign", ["new", "DB"], ["--image-column", "rac", "--groups", "a,b", "--budget", "8", "--id-column", "race"]),
    ("audit", [], ["--prediction", "hired", "--group", "rac"]),
    ("audit", [], ["--prediction", "hired", "--group", "rac", "--groups", "a,b"]),
    ("audit", [], ["--prediction", "hired", "--features", "rac"]),
]


@pytest.mark.parametrize(("command", "before", "options"), TAKING_COLUMNS, ids=range(len(TAKING_COLUMNS)))
def test_a_misspelled_column_suggests_the_nearest_in_every_command(
    command: str, before: list[str], options: list[str], table: Path, tmp_path: Path
) -> None:
    before = [str(tmp_path / "a.db") if part == "DB" else part for part in before]
    refused = invoke(command, *before, table, "--label", "hired", *options, *DIALECT)
    assert isinstance(refused.exception, InputError)  # type: ignore[attr-defined]
    assert "did you mean 'race'?" in str(refused.exception)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "options"), [("run", ["--sensitive", "race"]), ("audit", ["--prediction", "hired"])]
)
def test_a_file_in_another_encoding_names_the_option(command: str, options: list[str], table: Path) -> None:
    refused = invoke(command, table, "--label", "hired", *options)
    assert "--encoding cp1252" in str(refused.exception)  # type: ignore[attr-defined]


def test_several_problems_of_a_table_are_a_line_each(tmp_path: Path) -> None:
    rows = "\n".join(
        f"{row % 2},{'x' if row == 3 else row},{'y' if row == 4 else row},{'ab'[row % 2]}" for row in range(60)
    )
    (tmp_path / "people.csv").write_text(f"label,first,second,group\n{rows}\n")
    done = subprocess.run(
        [sys.executable, "-m", "apod", "run", "people.csv", "--label", "label", "--sensitive", "group"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert [line[:5] for line in done.stderr.splitlines()] == ["error", "  1. ", "  2. "]
