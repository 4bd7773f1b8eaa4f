"""Excel, JSON Lines and Feather: the same people as in a CSV file, or one clear line."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import feather

from apod.data import load_dataset
from apod.data.files import read_excel, read_table, table_name
from apod.errors import InputError

openpyxl = pytest.importorskip("openpyxl")

PEOPLE = pd.DataFrame(
    {
        "age": [31, 45, 27, 60, 33],
        "city": ["Ulm", None, "Jena", "Ulm", "Jena"],
        "income": [1.5, None, 2.25, 3.0, 4.0],
        "gender": ["female", "male", None, "male", "female"],
        "hired": ["yes", "no", "no", "yes", "no"],
    }
)


def workbook(path: Path, *sheets: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"s{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def cells(frame: pd.DataFrame) -> list[list[object]]:
    return [list(frame.columns), *frame.astype(object).where(frame.notna(), None).to_numpy().tolist()]


def written(kind: str, folder: Path) -> Path:
    path = folder / f"people.{kind}"
    if kind == "xlsx":
        return workbook(path, cells(PEOPLE), [])
    if kind == "jsonl":
        PEOPLE.to_json(path, orient="records", lines=True)
    if kind == "feather":
        feather.write_feather(PEOPLE, str(path))
    return path


@pytest.mark.parametrize("kind", ["xlsx", "jsonl", "feather"])
def test_every_type_of_file_gives_the_dataset_of_its_csv(kind: str, tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    plain = load_dataset(tmp_path / "people.csv", label="hired", sensitive="gender")
    path = written(kind, tmp_path)
    other = load_dataset(path, label="hired", sensitive="gender")
    assert table_name(path) == other.name == "people"
    pd.testing.assert_frame_equal(other.features, plain.features, check_dtype=False, check_categorical=False)
    assert np.array_equal(other.labels, plain.labels)
    assert np.array_equal(other.groups, plain.groups)
    assert other.group_names == plain.group_names


def test_dates_numbers_and_words_of_a_workbook_keep_their_types(tmp_path: Path) -> None:
    rows: list[list[object]] = [["when", "share", "note", "hired"]]
    rows += [[date(2020, 1, 1 + i), i / 4, "n/a" if i == 2 else "NA" if i == 3 else "x", i % 2] for i in range(6)]
    found = load_dataset(workbook(tmp_path / "p.xlsx", rows), label="hired")
    assert np.diff(found.features["when"]).tolist() == [1.0] * 5
    assert found.features["share"].tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert found.features["note"].tolist()[:3] == ["x", "x", "n/a"]
    assert pd.isna(found.features["note"].iloc[3])


def test_cells_that_were_formatted_and_left_empty_are_no_rows(tmp_path: Path) -> None:
    rows = [*cells(PEOPLE), [None] * 5, ["  ", None], [None]]
    assert read_table(workbook(tmp_path / "p.xlsx", rows)).shape == PEOPLE.shape


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ([[["a", "b"], [1, 2]], [["c"], [3]]], r"has 2 sheets with cells \(s0, s1\): keep one"),
        ([[]], "has 0 sheets with cells"),
        ([[["a", "b"]]], "a header but no rows"),
        ([[["a", "a"], [1, 2]]], "'a' occurs more than once"),
        ([[["a", None, None], [1, 2, 3]]], "2 columns without a name"),
    ],
)
def test_a_workbook_that_is_no_table_is_refused(sheets: list[list[list[object]]], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_table(workbook(tmp_path / "p.xlsx", *sheets))


def test_what_is_no_workbook_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "p.xlsx").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no Excel workbook that can be read"):
        read_table(tmp_path / "p.xlsx")


BOMB = b"<!DOCTYPE l [<!ENTITY a 'aaaaaaaaaa'>" + b"".join(
    b"<!ENTITY %c '%s'>" % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
)
OUTSIDE = b"<!DOCTYPE l [<!ENTITY j SYSTEM 'file:///etc/hostname'>"
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda xml: xml[: len(xml) // 2],
    "entity bomb": lambda xml: xml.replace(b"<worksheet", BOMB + b"]><worksheet").replace(b"<v>", b"<v>&j;", 1),
    "external entity": lambda xml: xml.replace(b"<worksheet", OUTSIDE + b"]><worksheet").replace(b"<v>", b"<v>&j;", 1),
    "text out of range": lambda xml: xml.replace(b't="n"><v>', b't="s"><v>9', 1),
    "impossible place": lambda xml: xml.replace(b'r="A1"', b'r="ZZZZZ99999999999"'),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_workbook_with_a_damaged_sheet_is_refused_in_a_line(case: str, tmp_path: Path) -> None:
    whole = workbook(tmp_path / "whole.xlsx", cells(PEOPLE))
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "p.xlsx", "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name.endswith("sheet1.xml"):
                assert DAMAGE[case](part) != part
                part = DAMAGE[case](part)
            new.writestr(name, part)
    with pytest.raises(InputError, match=r"p\.xlsx is no Excel workbook that can be read: save it again") as refused:
        read_table(tmp_path / "p.xlsx")
    assert "\n" not in str(refused.value)


def test_a_workbook_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "p.xlsx", cells(PEOPLE))
    with zipfile.ZipFile(path) as parts:
        size = sum(part.file_size for part in parts.infolist())
    assert len(read_excel(path, limit=size)) == len(PEOPLE)
    with pytest.raises(InputError, match=r"p\.xlsx unpacks to more than .* GiB: if it is meant to, save the table as"):
        read_excel(path, limit=size - 1)


def test_without_openpyxl_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = workbook(tmp_path / "p.xlsx", cells(PEOPLE))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        InputError, match=r"openpyxl \(Excel files\) is not installed: pip install 'apod-fairness\[tables\]'"
    ):
        read_table(path)


def test_a_key_that_a_line_lacks_is_a_missing_cell(tmp_path: Path) -> None:
    lines = [{"a": 1, "hired": True}, {"b": "x", "hired": False}, {"a": 2, "b": "y", "hired": True}]
    (tmp_path / "p.jsonl").write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    found = read_table(tmp_path / "p.jsonl")
    assert list(found.columns) == ["a", "hired", "b"]
    assert found["a"].isna().tolist() == [False, True, False]
    assert found["b"].isna().tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": \n', "line 2: not JSON"),
        ('[1, 2]\n{"a": 1}\n', "line 1: no object"),
        ("\n\n", "is empty"),
        ("[" * 100_000, "line 1: not JSON"),
        ('{"a": 1}\n{"a": %s}\n' % ("9" * 6000), "line 2: a number has too many digits"),
        ('{"a": %s}\n' % ("9" * 400), "line 1: a number has too many digits"),  # an integer, and no float
    ],
)
def test_lines_that_are_no_people_are_refused_with_their_number(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "p.jsonl")


def test_lists_and_records_in_json_are_refused_by_column(tmp_path: Path) -> None:
    lines = [json.dumps({"hired": i % 2, "age": i % 7, "tags": [i], "home": {"city": "Ulm"}}) for i in range(30)]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match="'tags'") as refused:
        load_dataset(tmp_path / "p.jsonl", label="hired")
    assert "'home'" in str(refused.value)
    assert load_dataset(tmp_path / "p.jsonl", label="hired", drop=["tags", "home"]).features.columns.tolist() == ["age"]
