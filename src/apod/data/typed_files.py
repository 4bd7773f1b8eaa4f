"""Tables whose cells have types: Parquet, Feather, Excel, JSON Lines. Cells that are lists, records or bytes are
refused by whoever needs their column.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import feather, parquet

from apod.data.frames import refuse_repeated
from apod.data.text_files import MISSING_CELLS, checked_names, no_rows
from apod.errors import InputError

PARQUET_SUFFIXES = (".parquet", ".pq")
FEATHER_SUFFIXES = (".feather", ".arrow")
EXCEL_SUFFIXES = (".xlsx", ".xlsm")
JSON_SUFFIXES = (".jsonl", ".ndjson")


class Unreadable:
    """A cell that is neither a number nor text; whoever needs the column refuses it by name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def read_parquet(path: Path) -> pd.DataFrame:
    """The table of a Parquet file."""
    refuse_repeated(list(parquet.read_schema(path).names))
    return _from_arrow(parquet.read_table(path))


def read_feather(path: Path) -> pd.DataFrame:
    """The table of a Feather file."""
    table = feather.read_table(path, memory_map=False)
    refuse_repeated(list(table.column_names))
    return _from_arrow(table)


def _from_arrow(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)  # a stored pandas index is a column like any other
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or _is_bytes(field.type):
            cells = [None if cell is None else Unreadable(str(field.type)) for cell in frame.iloc[:, place]]
            frame[field.name] = pd.Series(cells, index=frame.index, dtype=object)
    return frame


def _is_bytes(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    plain = pa.types.is_binary(inner) or pa.types.is_large_binary(inner)
    return bool(plain or pa.types.is_fixed_size_binary(inner))


def read_excel(path: Path) -> pd.DataFrame:
    """The only sheet of a workbook that holds anything; its first line are the column names."""
    try:
        import openpyxl
    except ImportError:
        raise InputError("openpyxl (Excel files) is not installed: pip install 'apod-fairness[tables]'.") from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        found = {name: list(book[name].iter_rows(values_only=True)) for name in book.sheetnames}
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, openpyxl.utils.exceptions.InvalidFileException):
        raise InputError(f"{path.name} is no Excel workbook that can be read: save it again as .xlsx.") from None
    sheets = {name: rows for name, rows in found.items() if any(_filled(row) for row in rows)}
    if len(sheets) != 1:
        listed = f" ({', '.join(sheets)})" if sheets else ""
        raise InputError(f"{path.name} has {len(sheets)} sheets with cells{listed}: keep one, the table of people.")
    header, *rows = next(iter(sheets.values()))
    while rows and not _filled(rows[-1]):  # cells that were formatted and left empty
        rows.pop()
    if not rows:
        raise no_rows(path)
    width = max(_filled(row) for row in (header, *rows))
    columns = checked_names(path, (*header, *[None] * width)[:width])
    cells = [[_missing(cell) for cell in (*row, *[None] * width)[:width]] for row in rows]
    return pd.DataFrame(cells, columns=columns, dtype=object).infer_objects()


def _filled(row: Sequence[Any]) -> int:
    """How many cells a row has up to its last filled one."""
    return max((place for place, cell in enumerate(row, start=1) if _missing(cell) is not None), default=0)


def _missing(cell: Any) -> Any:
    return None if isinstance(cell, str) and cell.strip() in MISSING_CELLS else cell


def read_json_lines(path: Path) -> pd.DataFrame:
    """An object per line; a key that a line lacks is a missing cell."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(f"{path.name}, line {number}: not JSON; each line needs an object of its own.") from None
        if not isinstance(record, dict):
            raise InputError(f"{path.name}, line {number}: no object; write a line as {{column: value, ...}}.")
        records.append({name: _plain(cell) for name, cell in record.items()})
    if not records:
        raise InputError(f"{path.name} is empty: it needs a line per person.")
    names = list(dict.fromkeys(name for record in records for name in record))
    return pd.DataFrame.from_records(records, columns=names).set_axis(checked_names(path, names), axis=1)


def _plain(cell: Any) -> Any:
    return Unreadable(type(cell).__name__) if isinstance(cell, list | dict) else cell
