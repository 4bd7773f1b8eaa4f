"""Reading a user's CSV, TSV or Parquet file into a frame, refusing what is not a clean table.

Cells of a text file stay text here (what is a number is decided column by column in `own`); the cells
`MISSING_CELLS` are missing. A Parquet file keeps its types.
"""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from apod.data.frames import refuse_repeated
from apod.errors import InputError

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
BLOCK = 1 << 24  # bytes read at a time; no row may be longer
MISSING_CELLS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")


def looks_like_a_file(name: str) -> bool:
    """Whether a name that is no dataset's is meant as a path."""
    return Path(name).exists() or "/" in name or "\\" in name or bool(Path(name).suffix)


def table_name(path: Path) -> str:
    """The file's name without folder and type: what the dataset is called."""
    for suffix in (*TEXT_SUFFIXES, *PARQUET_SUFFIXES):
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)]
    return path.name


def read_table(path: Path) -> pd.DataFrame:
    """The rows and columns of a file, or of a folder of Parquet files; InputError where there is no table in it."""
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise InputError(f"There is no file {str(path)!r}: check the path.")
    lower = path.name.lower()
    if not lower.endswith((*TEXT_SUFFIXES, *PARQUET_SUFFIXES)):
        raise InputError(
            f"{path.name} is of no known type: save it as {', '.join((*TEXT_SUFFIXES, PARQUET_SUFFIXES[0]))}."
        )
    try:
        frame = _read_parquet(path) if lower.endswith(PARQUET_SUFFIXES) else _read_text(path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not UTF-8 text: save it in that encoding.") from error
    except (OSError, EOFError, csv.Error, pa.ArrowException) as error:
        raise InputError(f"{path.name} cannot be read ({_reason(error)}): save it again.") from error
    if len(frame) == 0:
        raise _no_rows(path)
    return frame


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


def _read_parquet(path: Path) -> pd.DataFrame:
    refuse_repeated(list(parquet.read_schema(path).names))
    table = parquet.read_table(path)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)  # a stored pandas index is a column like any other
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type) or _is_bytes(field.type):
            cells = [None if cell is None else Unreadable(str(field.type)) for cell in frame.iloc[:, place]]
            frame[field.name] = pd.Series(cells, index=frame.index, dtype=object)
    return frame


class Unreadable:
    """A cell of a Parquet file that is neither a number nor text; whoever needs the column refuses it by name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def _is_bytes(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    plain = pa.types.is_binary(inner) or pa.types.is_large_binary(inner)
    return bool(plain or pa.types.is_fixed_size_binary(inner))


def _read_text(path: Path) -> pd.DataFrame:
    header, separator = _header(path)
    uneven: list[Any] = []

    def note_and_skip(row: Any) -> str:
        uneven.append((row.number, row.actual_columns))
        return "skip"

    places = [f"c{i}" for i in range(len(header))]
    table = arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(
            column_names=places, skip_rows_after_names=1, use_threads=False, block_size=BLOCK
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note_and_skip
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()), null_values=MISSING_CELLS, strings_can_be_null=True
        ),
    )
    if uneven:
        number, width = uneven[0]
        raise InputError(f"{path.name}, row {number - 1}: {width} cells under {len(header)} column names.")
    frame: pd.DataFrame = table.to_pandas()
    return frame.set_axis(header, axis=1)


def _header(path: Path) -> tuple[list[str], str]:
    """The column names and the separator: whichever of tab, semicolon and comma the first line has most of."""
    with _open_text(path) as lines:
        first = lines.readline()
        if "\x00" in first:
            raise InputError(f"{path.name} is not a text file: save the table as UTF-8 text.")
        if not first.strip():
            raise InputError(f"{path.name} is empty: it needs a line of column names and a line per person.")
        if not first.endswith(("\n", "\r")):  # the reader of rows would stumble over it
            raise _no_rows(path)
        separator = "\t" if ".tsv" in path.name.lower() else max((",", ";", "\t"), key=first.count)
        lines.seek(0)
        names = [name.strip() for name in next(csv.reader(lines, delimiter=separator))]
    refuse_repeated([name for name in names if name])
    if names.count("") > 1:
        raise InputError(f"{path.name} has {names.count('')} columns without a name: name them.")
    return names, separator


def _no_rows(path: Path) -> InputError:
    return InputError(f"{path.name} has a header but no rows: there is nothing to learn from.")


def _open_text(path: Path) -> TextIO:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _reason(error: Exception) -> str:
    if "straddling" in str(error):
        return "a quotation mark is never closed"
    # the first words only: the rest of such a message may quote a row, and with it somebody's group
    return str(error).split(":")[0].split("\n")[0][:80] or type(error).__name__
