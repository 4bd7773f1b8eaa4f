"""What `apod check` says of a table is what stands in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod.data.own import FileColumns, understand_file
from apod.data.summary import TableSummary, summarize

ROWS = 40


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person_id": np.arange(5000, 5000 + ROWS),
            "income": [f"$ {n:,}" for n in rng.integers(1000, 90_000, ROWS)],
            "smoker": ["yes", "no"] * (ROWS // 2),
            "city": ["Jena", "Jena", None, "Bonn", "Ulm", None, "Ulm", "Jena"] * (ROWS // 8),
            "born": pd.date_range("1980-01-01", periods=ROWS, freq="97D").strftime("%Y-%m-%d"),
            "country": "DE",
            "remark": "x",
            "gender": ["f", "m", "m", None] * (ROWS // 4),
            "hired": [1, 0, 0, 0] * (ROWS // 4),
        }
    )
    frame.loc[:3, "income"] = None
    path = tmp_path_factory.mktemp("check") / "people.csv"
    frame.to_csv(path, index=False)
    return path


def found(table: Path, **said: object) -> TableSummary:
    return summarize(understand_file(table, FileColumns(**{"label": "hired", **said})))  # type: ignore[arg-type]


def test_every_column_has_its_type_role_and_share_of_missing_cells(table: Path) -> None:
    summary = found(table, sensitive="gender", drop=("remark",))
    assert summary.rows == ROWS
    assert [(column.name, column.type, column.role) for column in summary.columns] == [
        ("person_id", "identifier", "id"),
        ("income", "number", "feature"),
        ("smoker", "yes or no", "feature"),
        ("city", "category", "feature"),
        ("born", "date", "feature"),
        ("country", "constant", "left out"),
        ("remark", "constant", "left out"),
        ("gender", "category", "group"),
        ("hired", "number", "label"),
    ]
    by_name = {column.name: column for column in summary.columns}
    assert (by_name["income"].missing, by_name["income"].missing_share) == (4, 0.1)
    assert (by_name["city"].missing_share, by_name["city"].distinct) == (0.25, 3)
    assert by_name["gender"].missing_share == 0.25
    assert by_name["person_id"].why == "counts the rows, like an identifier"
    assert by_name["country"].why == "is the same in every row"
    assert by_name["remark"].why == "as asked"
    assert summary.problems == ()


def test_base_rate_and_groups_are_counted(table: Path) -> None:
    summary = found(table, sensitive="gender")
    assert summary.label is not None
    assert (summary.label.positive, summary.label.positives, summary.label.base_rate) == ("1", 10, 0.25)
    assert [(group.name, group.people, group.positives, group.base_rate) for group in summary.groups] == [
        ("f", 10, 10, 1.0),
        ("m", 20, 0, 0.0),
    ]
    assert (summary.group_column, summary.without_group) == ("gender", 10)


def test_a_table_without_recorded_groups_names_those_that_were_said(table: Path) -> None:
    summary = found(table, group_names=("a", "b"))
    assert [(group.name, group.people) for group in summary.groups] == [("a", 0), ("b", 0)]
    assert summary.without_group is None


def test_all_problems_are_there_beside_what_was_understood(table: Path) -> None:
    summary = found(table, label="hird", sensitive="gendr", drop=("remrk",))
    assert len(summary.problems) == 3
    for right in ("'hired'", "'gender'", "'remark'"):
        assert any(f"did you mean {right}?" in problem for problem in summary.problems)
    assert len(summary.columns) == 9
    assert summary.label is None
