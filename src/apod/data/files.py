"""Reading a user's file into a frame, refusing what is not a clean table.

Tables whose cells have types: Parquet, Feather, Excel, JSON Lines. Cells that are lists, records or bytes are
refused by whoever needs their column.

Cells of a text file stay text here (what is a number is decided column by column in `columns`); other files keep the
types of their cells.
"""

from __future__ import annotations

import csv
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import feather, parquet

from apod.data.contents import Unreadable
from apod.data.dataset import refuse_repeated
from apod.data.text_files import (
    MISSING_CELLS,
    RECOGNISED,
    TEXT_SUFFIXES,
    ZIP_SUFFIX,
    Dialect,
    checked_names,
    no_rows,
    not_text,
    read_text,
    too_large,
)
from apod.errors import InputError

PARQUET_SUFFIXES = (".parquet", ".pq")
FEATHER_SUFFIXES = (".feather", ".arrow")
EXCEL_SUFFIXES = (".xlsx", ".xlsm")
JSON_SUFFIXES = (".jsonl", ".ndjson")
MOST_DIGITS = 300  # of a whole number: it must fit a floating-point one
WORKBOOK_LIMIT = 512 << 20  # bytes of XML; cells take many times as much memory
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, SyntaxError, LookupError, ValueError, TypeError,
           AttributeError, ArithmeticError, RuntimeError)  # fmt: skip
"""What openpyxl lets through of a damaged workbook; malformed XML, entities included, is a SyntaxError."""


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
            cells = [None if cell is None else Unreadable(str(field.type), cell) for cell in frame.iloc[:, place]]
            frame[field.name] = pd.Series(cells, index=frame.index, dtype=object)
    return frame


def _is_bytes(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    plain = pa.types.is_binary(inner) or pa.types.is_large_binary(inner)
    return bool(plain or pa.types.is_fixed_size_binary(inner))


def read_excel(path: Path, limit: int = WORKBOOK_LIMIT) -> pd.DataFrame:
    """The only sheet of a workbook that holds anything; its first line are the column names.

    Refused before it is read where its parts unpack to more than `limit` bytes.
    """
    try:
        import openpyxl
    except ImportError:
        raise InputError("openpyxl (Excel files) is not installed: pip install 'apod-fairness[tables]'.") from None
    try:
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())  # zipfile never unpacks more of a part
        if size > limit:
            raise too_large(path, limit, "save the table as .csv")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        found = {name: list(book[name].iter_rows(values_only=True)) for name in book.sheetnames}
    except InputError:
        raise
    except _BROKEN:
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
            record = json.loads(line, parse_int=_whole)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(f"{path.name}, line {number}: not JSON; each line needs an object of its own.") from None
        except ValueError:
            raise InputError(f"{path.name}, line {number}: a number has too many digits; shorten it.") from None
        if not isinstance(record, dict):
            raise InputError(f"{path.name}, line {number}: no object; write a line as {{column: value, ...}}.")
        records.append({name: _plain(cell) for name, cell in record.items()})
    if not records:
        raise InputError(f"{path.name} is empty: it needs a line per person.")
    names = list(dict.fromkeys(name for record in records for name in record))
    return pd.DataFrame.from_records(records, columns=names).set_axis(checked_names(path, names), axis=1)


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _plain(cell: Any) -> Any:
    return Unreadable(type(cell).__name__, cell) if isinstance(cell, list | dict) else cell


_TYPED: dict[tuple[str, ...], Callable[[Path], pd.DataFrame]] = {
    PARQUET_SUFFIXES: read_parquet,
    FEATHER_SUFFIXES: read_feather,
    EXCEL_SUFFIXES: read_excel,
    JSON_SUFFIXES: read_json_lines,
}
_SUFFIXES = (*TEXT_SUFFIXES, ZIP_SUFFIX, *(suffix for suffixes in _TYPED for suffix in suffixes))


def looks_like_a_file(name: str) -> bool:
    """Whether a name that is no dataset's is meant as a path."""
    return Path(name).exists() or "/" in name or "\\" in name or bool(Path(name).suffix)


def table_name(path: Path) -> str:
    """The file's name without folder and type: what the dataset is called."""
    for suffix in (".csv.zip", ".tsv.zip", *_SUFFIXES):
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)]
    return path.name


def read_table(path: Path, how: Dialect = RECOGNISED) -> pd.DataFrame:
    """The rows and columns of a file, or of a folder of Parquet files; InputError where there is no table in it."""
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise InputError(f"There is no file {str(path)!r}: check the path.")
    lower = path.name.lower()
    typed = next((read for suffixes, read in _TYPED.items() if lower.endswith(suffixes)), None)
    if typed is None and not lower.endswith((*TEXT_SUFFIXES, ZIP_SUFFIX)):
        raise InputError(f"{path.name} is of no known type: save it as {', '.join(_SUFFIXES)}.")
    try:
        frame = typed(path) if typed is not None else read_text(path, how)
    except UnicodeError as error:
        if how.encoding is None and isinstance(error, UnicodeDecodeError) and b"\x00" in error.object:
            raise not_text(path) from error
        raise InputError(_encoding(path, how)) from error
    except (OSError, EOFError, csv.Error, zlib.error, zipfile.BadZipFile, pa.ArrowException) as error:
        if "invalid UTF8" in str(error):
            raise InputError(_encoding(path, how)) from error
        raise InputError(f"{path.name} cannot be read ({_reason(error)}): save it again.") from error
    if len(frame) == 0:
        raise no_rows(path)
    return frame.rename(columns=str)


def _encoding(path: Path, how: Dialect) -> str:
    if how.encoding is not None:
        return f"{path.name} is not text in {how.encoding}: name another --encoding, or save it as UTF-8."
    return f"{path.name} is not UTF-8 text: name its encoding, as --encoding cp1252, or save it in UTF-8."


def numbered_files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files of a folder that end so, by the number their names end in (or by name); none may be missing.

    `part-0`, `part-1`, ... or, counted from 0 or 1, `part-1-of-3`, ...
    """
    files = sorted(file for file in folder.iterdir() if file.name.lower().endswith(suffixes) and file.is_file())
    if not files:
        raise InputError(f"{folder} holds no {suffixes[0]} file: name a file, or a folder of them.")
    found = [re.fullmatch(r"(.*?)(\d+)(?:-of-(\d+))?", table_name(file).removesuffix(".npy")) for file in files]
    if not all(found):
        return files
    named = {file: (match[1], match[3], int(match[2])) for file, match in zip(files, found, strict=True) if match}
    if len({(name, total) for name, total, _ in named.values()}) > 1:
        raise InputError(f"{folder} holds parts of more than one table or matrix: keep each in a folder of its own.")
    files.sort(key=lambda file: named[file][2])
    have, total = [named[file][2] for file in files], named[files[0]][1]
    first = min(have[0], 1)
    missing = sorted(set(range(first, max(have[-1] + 1, first + int(total or 0)))) - set(have))
    if missing:
        raise InputError(
            f"{folder} lacks part {missing[0]} ({len(missing)} missing): bring the file back, or number the parts "
            "without gaps."
        )
    return files


def _read_folder(folder: Path) -> pd.DataFrame:
    files = numbered_files(folder, PARQUET_SUFFIXES)
    frames = [read_table(file) for file in files]
    for file, frame in zip(files, frames, strict=True):
        if list(frame.columns) != list(frames[0].columns):
            raise InputError(f"{file} has other columns than {files[0].name}: all parts of a table must be alike.")
    return pd.concat(frames, ignore_index=True)


def _reason(error: Exception) -> str:
    if "straddling" in str(error):
        return "a quotation mark is never closed"
    # the first words only: the rest of such a message may quote a row, and with it somebody's group
    return str(error).split(":")[0].split("\n")[0][:80] or type(error).__name__
