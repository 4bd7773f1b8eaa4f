"""The file of people to ask: what an annotator needs is in it, and answers find their people again by id."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from apod.audit.asked import read_numbers
from apod.audit.table import AuditColumns, read_audit
from apod.cli import build_app
from apod.errors import InputError, TableProblems
from support.audits import NAMES, population

PEOPLE = population(600)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "person": [f"P-{number:04d}" for number in rng.permutation(600)],
            "full_name": [f"Ann Example{i}" for i in range(600)],
            "x0": PEOPLE["x"][:, 0].round(3),
            "note": np.where(np.arange(600) % 5 == 0, "=SUM(A1)", "plain"),
            "hired": np.where(PEOPLE["labels"] == 1, "yes", "no"),
            "old": PEOPLE["before"],
            "p": [f"{value:.2f}".replace(".", ",") for value in np.where(PEOPLE["after"] == 1, 0.9, 0.2)],
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False, sep=";")
    return tmp_path / "people.csv"


def run_audit(file: Path, *more: object) -> Result:
    arguments = [file, "--label", "hired", "--prediction", "old,p", "--groups", ",".join(NAMES), *more]
    return CliRunner().invoke(build_app(), ["audit", *map(str, arguments), "--id-column", "person"])


def drawn_and_answered(file: Path, tmp_path: Path, count: int = 80) -> pd.DataFrame:
    done = run_audit(file, "--draw", count, "--out", tmp_path / "asked.csv")
    assert done.exit_code == 0, done.output
    asked = pd.read_csv(tmp_path / "asked.csv")
    asked["group"] = np.array(NAMES)[PEOPLE["groups"][asked["row"]]]
    asked.to_csv(tmp_path / "asked.csv", index=False)
    return asked


def test_a_draw_writes_ids_and_the_columns_an_annotator_needs(file: Path, tmp_path: Path) -> None:
    assert run_audit(file, "--draw", 20, "--out", tmp_path / "asked.csv").exit_code == 0
    asked = pd.read_csv(tmp_path / "asked.csv")
    assert list(asked.columns) == ["row", "person", "x0", "note", "draw_probability", "group"]
    table = pd.read_csv(file, sep=";")
    assert asked["person"].tolist() == table["person"].iloc[asked["row"]].tolist()
    assert set(asked["note"]) <= {"'=SUM(A1)", "plain"}  # no formula for a spreadsheet
    assert asked["group"].isna().all()


def test_the_columns_for_annotators_can_be_chosen(file: Path, tmp_path: Path) -> None:
    done = run_audit(file, "--draw", 20, "--out", tmp_path / "asked.csv", "--show", "full_name")
    assert done.exit_code == 0, done.output
    columns = list(pd.read_csv(tmp_path / "asked.csv").columns)
    assert columns == ["row", "person", "full_name", "draw_probability", "group"]


def test_answers_are_read_back_by_id_whatever_became_of_the_rows(file: Path, tmp_path: Path) -> None:
    asked = drawn_and_answered(file, tmp_path)
    table = pd.read_csv(file, sep=";", dtype=str)
    order = np.random.default_rng(3).permutation(600)
    moved = tmp_path / "moved.csv"
    table.iloc[order].to_csv(moved, index=False)
    asked.sample(frac=1, random_state=0).drop(columns="row").to_csv(tmp_path / "shuffled.csv", index=False)
    said = AuditColumns("hired", ("old", "p"), group_names=NAMES, id="person")
    found = read_audit(moved, said, tmp_path / "shuffled.csv")
    answered = np.flatnonzero(found.groups >= 0)
    assert len(answered) == 80
    assert np.array_equal(found.groups[answered], PEOPLE["groups"][order][answered])


def test_ids_that_are_not_in_the_table_or_repeated_are_refused_by_row(file: Path, tmp_path: Path) -> None:
    asked = drawn_and_answered(file, tmp_path)
    said = AuditColumns("hired", ("old", "p"), group_names=NAMES, id="person")
    for wrong in ("nobody", asked["person"].iloc[0]):
        asked.assign(person=[*asked["person"][:-1], wrong]).to_csv(tmp_path / "wrong.csv", index=False)
        with pytest.raises(InputError, match=r"1 ids that are not in the table or repeated, first in data row 80"):
            read_audit(file, said, tmp_path / "wrong.csv")
    with pytest.raises(InputError, match="'note' must hold another id in every row"):
        read_audit(file, AuditColumns("hired", ("old",), group_names=NAMES, id="note"))


def test_report_and_result_are_written_and_say_the_same(file: Path, tmp_path: Path) -> None:
    drawn_and_answered(file, tmp_path)
    report, result = tmp_path / "report.html", tmp_path / "audit.json"
    done = run_audit(file, "--answers", tmp_path / "asked.csv", "--report", report, "--result", result)
    assert done.exit_code == 0, done.output
    facts, page = json.loads(result.read_text()), report.read_text()
    assert facts["table"]["label_names"] == ["no", "yes"]
    assert facts["table"]["base_rate"] == PEOPLE["labels"].mean()
    assert facts["table"]["features"] == ["x0", "note"]
    for view in ("old", "p"):
        assert f"Gap of {view}, points" in page
        gap = facts["predictions"][view]["gap"]["value"]
        assert f"{100 * gap:.1f}" in page
    for said in ("people.csv", facts["made_at"][:10], facts["table"]["fingerprint"], "80 answers of people drawn"):
        assert said in page
    told = pd.Series(PEOPLE["groups"][pd.read_csv(tmp_path / "asked.csv")["row"]]).value_counts()
    assert [sum(facts["told"][name].values()) for name in NAMES] == [told[0], told[1]]
    assert {file.stat().st_mode & 0o777 for file in (report, result)} == {0o600}
    assert "P-0" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads(run_audit(file, "--answers", tmp_path / "asked.csv", "--json").stdout).keys() == facts.keys()


def test_a_draw_has_no_report(file: Path, tmp_path: Path) -> None:
    refused = run_audit(file, "--draw", 5, "--out", tmp_path / "a.csv", "--report", tmp_path / "r.html")
    assert "A draw has no result yet" in str(refused.exception)


def test_everything_that_is_wrong_with_a_table_is_said_at_once(file: Path) -> None:
    said = AuditColumns("hird", ("odl",), group_names=NAMES, drop=("nte",))
    with pytest.raises(TableProblems) as refused:
        read_audit(file, said)
    assert len(refused.value.problems) == 3
    table = pd.read_csv(file, sep=";")
    table.assign(hired="yes", old=7).to_csv(file, index=False)
    with pytest.raises(TableProblems) as refused:
        read_audit(file, AuditColumns("hired", ("old",), group_names=NAMES))
    assert len(refused.value.problems) == 2


def test_numbers_are_read_however_they_are_spelled() -> None:
    assert read_numbers("p", pd.Series(["0,25", None, "1"])).tolist()[::2] == [0.25, 1.0]
    assert read_numbers("p", pd.Series([0.5, 1.0])).tolist() == [0.5, 1.0]
    with pytest.raises(InputError, match="'p' holds text in 2 cells"):
        read_numbers("p", pd.Series(["0.5", "high", "low"]))
