"""A corpus of messy files, generated: sixty people as other people write them down, and what is true of each file."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import feather

ROWS = 60
RNG = np.random.default_rng(8)
INCOME = np.round(RNG.uniform(1000, 99_000, ROWS), 2)
SMALL = np.round(RNG.uniform(1, 99, ROWS), 1)
DAYS = pd.date_range("1981-03-04", periods=ROWS, freq="113D")
HIRED = (RNG.random(ROWS) < 0.4).astype(int)
GENDER = np.where(RNG.random(ROWS) < 0.5, "female", "male").astype(object)
CITY = RNG.choice(["Ulm", "Jena", "Bonn"], ROWS).astype(object)
AGE = RNG.integers(18, 70, ROWS)
MEMBER = (RNG.random(ROWS) < 0.5).astype(int)
SAID = {"label": "hired", "sensitive": "gender"}

Frame = dict[str, Any]
Write = Callable[[pd.DataFrame, Path], Path]


def people(**changes: Any) -> pd.DataFrame:
    """The sixty people, with other or further columns; None drops one."""
    columns: Frame = {"age": AGE, "income": INCOME, "city": CITY, "gender": GENDER, "hired": HIRED} | changes
    return pd.DataFrame({name: cells for name, cells in columns.items() if cells is not None})


def csv(name: str = "people.csv", **options: Any) -> Write:
    """Writes a frame as text."""

    def write(frame: pd.DataFrame, folder: Path) -> Path:
        frame.to_csv(folder / name, index=False, **options)
        return folder / name

    return write


def excel(frame: pd.DataFrame, folder: Path, *more: Sequence[Any], sheets: int = 1) -> Path:
    """Writes a frame as a workbook, with further rows below, or the same sheet several times."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    cells = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    for number in range(sheets):
        sheet = book.create_sheet(f"s{number}")
        for row in [list(frame.columns), *cells, *more]:
            sheet.append([cell.item() if isinstance(cell, np.generic) else cell for cell in row])
    book.save(folder / "people.xlsx")
    return folder / "people.xlsx"


def raw(content: str | bytes, name: str = "people.csv") -> Write:
    """Writes these bytes, whatever the frame is."""

    def write(frame: pd.DataFrame, folder: Path) -> Path:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return folder / name

    return write


def json_lines(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_json(folder / "people.jsonl", orient="records", lines=True)
    return folder / "people.jsonl"


def columnar(kind: str) -> Write:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        path = folder / f"people.{kind}"
        frame.to_parquet(path) if kind == "parquet" else feather.write_feather(frame, str(path))
        return path

    return write


def packed(kind: str, count: int = 1) -> Write:
    def write(frame: pd.DataFrame, folder: Path) -> Path:
        text, path = frame.to_csv(index=False).encode(), folder / f"people.csv.{kind}"
        if kind == "gz":
            path.write_bytes(gzip.compress(text))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                for number in range(count):
                    archive.writestr(f"people{number}.csv", text)
        return path

    return write


@dataclass(frozen=True)
class Messy:
    """One file, how it is read, and what is true of it: or everything that must be mended, a pattern each."""

    frame: pd.DataFrame
    write: Write = field(default_factory=csv)
    said: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)  # beside those of the plain file
    values: Mapping[str, Any] = field(default_factory=dict)  # of features: (n,) numbers, NaN where missing
    missing: Mapping[str, int] = field(default_factory=dict)
    without_group: int = 0
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def spelled(spell: Callable[[float], str], numbers: Any = INCOME) -> list[str]:
    return [spell(float(value)) for value in numbers]


def english(value: float) -> str:
    return f"{value:,.2f}"


def german(value: float) -> str:
    return english(value).translate(str.maketrans(",.", ".,"))


def gaps(cells: Any, blank: Any, every: int = 6) -> list[Any]:
    return [blank if row % every == 0 else cell for row, cell in enumerate(cells)]


def gone(numbers: Any, every: int = 6) -> Any:
    return np.where(np.arange(ROWS) % every == 0, np.nan, np.asarray(numbers, dtype=float))


PLAIN = people()
NUMBER: dict[str, Messy] = {
    name: Messy(people(income=cells), values={"income": values}, **more)
    for name, cells, values, more in (
        ("thousands with commas", spelled(english), INCOME, {}),
        ("thousands with points, decimal commas", spelled(german), INCOME, {"write": csv(sep=";")}),
        ("thousands with apostrophes", spelled(lambda x: english(x).replace(",", "'")), INCOME, {}),
        ("thousands with thin blanks", spelled(lambda x: english(x).replace(",", "\u202f")), INCOME, {}),
        ("decimal commas", [str(x).replace(".", ",") for x in SMALL], SMALL, {"write": csv(sep=";")}),
        ("dollars", spelled(lambda x: f"${english(x)}"), INCOME, {"notes": ("amounts in \\$",)}),
        ("euros behind", spelled(lambda x: f"{german(x)} €"), INCOME, {"notes": ("amounts in €",)}),
        ("currency codes", spelled(lambda x: f"USD {english(x)}"), INCOME, {"notes": ("amounts in USD",)}),
        ("percent", [f"{x} %" for x in SMALL], SMALL, {"notes": ("percentages",)}),
        ("negative numbers in brackets", [f"({x})" for x in SMALL], -SMALL, {}),
        ("negative numbers with a minus sign", [f"−{x}" for x in SMALL], -SMALL, {}),
        ("scientific notation", [f"{x:.6e}" for x in INCOME], INCOME, {}),
        ("blanks around numbers", [f"  {x} " for x in INCOME], INCOME, {"notes": ("blanks around",)}),
        ("question marks", gaps(INCOME.astype(str), "?"), gone(INCOME), {"missing": {"income": 10}}),
        ("n/a and dashes", gaps(gaps(INCOME.astype(str), "n/a"), "-", 12), gone(INCOME), {"missing": {"income": 10}}),
        ("spreadsheet errors", gaps(INCOME.astype(str), "#DIV/0!"), gone(INCOME), {"missing": {"income": 10}}),
        ("empty cells", gaps(INCOME, None), gone(INCOME), {"missing": {"income": 10}}),
        ("NULL", gaps(INCOME.astype(str), "NULL"), gone(INCOME), {"missing": {"income": 10}}),
        ("times of day", [f"{i % 24:02d}:30" for i in range(ROWS)], np.arange(ROWS) % 24 + 0.5,
         {"kinds": {"income": "time of day"}}),
    )
}  # fmt: skip
_DATES = (DAYS - pd.Timestamp("1970-01-01")).days.to_numpy(dtype=float)
DATE: dict[str, Messy] = {
    name: Messy(
        people(income=list(DAYS.strftime(form))), kinds={"income": "date"}, values={"income": _DATES}, notes=("dates",)
    )
    for name, form in (
        ("dates year first", "%Y-%m-%d"),
        ("dates with points", "%d.%m.%Y"),
        ("dates with month names", "%d %b %Y"),
        ("dates month first", "%m/%d/%Y"),
    )
}
WORDS: dict[str, Messy] = {
    name: Messy(
        people(city=[pair[value] for value in MEMBER]), kinds={"city": "yes or no"}, values={"city": MEMBER * 1.0}
    )
    for name, pair in (
        ("yes and no", ("no", "yes")),
        ("Y and N", ("N", "Y")),
        ("TRUE and FALSE", ("FALSE", "TRUE")),
        ("ja and nein", ("nein", "ja")),
    )
}
LABEL: dict[str, Messy] = {
    name: Messy(people(hired=[pair[value] for value in HIRED]))
    for name, pair in (
        ("labels in words", ("no", "yes")),
        ("labels with blanks", (" no ", "yes")),
        ("labels true and false", ("False", "True")),
        ("labels 0.0 and 1.0", ("0.0", "1.0")),
        ("labels 2 and 1", ("2", "1")),
    )
}
FILE: dict[str, Messy] = {
    "plain": Messy(PLAIN),
    "semicolons": Messy(PLAIN, csv(sep=";")),
    "tabs": Messy(PLAIN, csv(sep="\t")),
    "a tsv file": Messy(PLAIN, csv("people.tsv", sep="\t")),
    "bars": Messy(PLAIN, csv(sep="|")),
    "a separator that is named": Messy(PLAIN, csv(sep="^"), {"sep": "^"}),
    "a byte order mark": Messy(PLAIN, csv(encoding="utf-8-sig")),
    "UTF-16": Messy(PLAIN, csv(encoding="utf-16", sep="\t")),
    "an encoding that is named": Messy(
        people(city=["Köln"] * 30 + ["Ulm"] * 30), csv(encoding="cp1252"), {"encoding": "cp1252"}
    ),
    "Windows line ends": Messy(PLAIN, csv(lineterminator="\r\n")),
    "everything in quotes": Messy(PLAIN, csv(quoting=1)),
    "commas and line breaks in cells": Messy(people(city=[f"{cell},\nno. {row % 4}" for row, cell in enumerate(CITY)])),
    "gzip": Messy(PLAIN, packed("gz")),
    "zip": Messy(PLAIN, packed("zip")),
    "Excel": Messy(PLAIN, excel),
    "Excel with empty rows below": Messy(PLAIN, lambda f, p: excel(f, p, [None] * 5, ["", " "])),
    "JSON Lines": Messy(PLAIN, json_lines),
    "Parquet": Messy(PLAIN, columnar("parquet")),
    "Feather": Messy(PLAIN, columnar("feather")),
    "pandas row numbers": Messy(PLAIN, lambda f, p: csv()(f.reset_index().rename(columns={"index": ""}), p)),
    "a column called id": Messy(people(id=RNG.permutation(ROWS) + 500), notes=("identifier",)),
    "customer numbers": Messy(people(customer_no=RNG.permutation(ROWS) * 7 + 500), notes=("identifier",)),
    "a text of one's own per person": Messy(
        people(essay=[f"I am person {row}" for row in range(ROWS)]), notes=("identifier",)
    ),
    "a constant column": Messy(people(country="DE"), notes=("the same in every row",)),
    "cities in two spellings": Messy(people(city=gaps(CITY, "ulm", 5)), notes=("in more than one way",)),
    "groups with blanks and gaps": Messy(people(gender=gaps([f" {cell} " for cell in GENDER], " ")), without_group=10),
    "column names with blanks and umlauts": Messy(PLAIN.rename(columns={"city": " Größe (m²) "})),
}  # fmt: skip
GOOD = FILE | NUMBER | DATE | WORDS | LABEL

_AMBIGUOUS = [f"{1 + row % 12}/{1 + (row * 5) % 12}/2020" for row in range(ROWS)]
_STRAY = ["see file" if row == 7 else str(cell) for row, cell in enumerate(INCOME)]
_CURRENCIES = [f"{'$' if row % 2 else '€'} {cell}" for row, cell in enumerate(INCOME)]
BAD: dict[str, Messy] = {
    name: Messy(frame, problems=problems, **more)
    for name, frame, problems, more in (
        ("stray text among numbers", people(income=_STRAY), ("'income' has text in data row 8",), {}),
        ("two currencies", people(income=_CURRENCIES), ("several currencies",), {}),
        ("percent signs here and there", people(income=[f"{x}{'%' * (i % 2)}" for i, x in enumerate(SMALL)]),
         ("a % sign in some cells",), {}),
        ("infinity", people(income=gaps(INCOME, np.inf)), ("infinite value",), {}),
        ("dates that can be read two ways", people(income=_AMBIGUOUS), ("can be read as",), {}),
        ("a label of a hundred values", people(hired=RNG.integers(0, 100, ROWS)), ("at most 20 labels",), {}),
        ("labels that are missing", people(hired=gaps(HIRED.astype(str), None)), ("'hired' has 10 missing",), {}),
        ("labels in two spellings", people(hired=gaps(np.where(HIRED, "yes", "no"), "NO")),
         ("in more than one way",), {}),
        ("groups in two spellings", people(gender=gaps(GENDER, "Male")), ("in more than one way",), {}),
        ("one group only", people(gender="female"), ("records 1 group",), {}),
        ("the label once more", people(decision=np.where(HIRED, "in", "out")), ("'decision' is the label",), {}),
        ("the group once more", people(title=np.where(GENDER == "female", "Ms", "Mr")), ("'title' is 'gender'",), {}),
        ("ids that repeat", people(id=np.arange(ROWS) // 2), ("repeats an identifier",), {}),
        ("misspelled columns", people(remark=CITY), ("'hired'\\?", "'gender'\\?", "'remark'\\?"),
         {"said": {"label": "hird", "sensitive": "gendr", "drop": ("remrk",)}}),
        ("five things at once", people(income=_STRAY, pay=_CURRENCIES, since=_AMBIGUOUS, decision=HIRED * 3,
                                       gender=gaps(GENDER, "Male")),
         ("see file", "several currencies", "can be read as", "'decision' is the label", "in more than one way"), {}),
        ("lists in JSON", people(city=[[1]] * ROWS), ("'city'",), {"write": json_lines}),
        ("no label named", PLAIN, ("--label.*gender, hired",), {"said": {"label": None}}),
    )
}  # fmt: skip
_ROW = "age,city,gender,hired\n"
NO_TABLE: dict[str, tuple[Messy, str]] = {
    name: (Messy(frame, write), message)
    for name, frame, write, message in (
        ("empty", PLAIN, raw(""), "is empty"),
        ("a header alone", PLAIN, raw(_ROW), "no rows"),
        ("rows of other lengths", PLAIN, raw(_ROW + "1,Ulm,f,1\n2,Ulm,m\n"), "row 2: 3 cells under 4 column names"),
        ("a quotation mark that stays open", PLAIN, raw(_ROW + '1,"Ulm,f,1\n2,Ulm,m,0\n'), "never closed"),
        ("one name twice", PLAIN.rename(columns={"city": "age"}), csv(), "'age' occurs more than once"),
        ("columns without names", PLAIN.rename(columns={"city": "", "age": " "}), csv(), "2 columns without a name"),
        ("another encoding", people(city="Köln"), csv(encoding="cp1252"), "--encoding cp1252"),
        ("no text", PLAIN, raw(b"\x00\x01\x02\n\x00\n"), "not a text file"),
        ("two sheets", PLAIN, lambda f, p: excel(f, p, sheets=2), r"2 sheets with cells \(s0, s1\)"),
        ("two tables in a zip", PLAIN, packed("zip", 2), "holds 2 text tables"),
        ("broken JSON", PLAIN, raw(json.dumps({"a": 1}) + "\n{oops\n", "people.jsonl"), "line 2: not JSON"),
        ("a type of no table", PLAIN, raw("x", "people.docx"), "of no known type"),
    )
}  # fmt: skip
