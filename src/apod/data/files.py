"""Reading a user's file into a frame, refusing what is not a clean table.

Cells of a text file stay text here (what is a number is decided column by column in `columns`); other files keep the
types of their cells.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from apod.data.text_files import RECOGNISED, TEXT_SUFFIXES, ZIP_SUFFIX, Dialect, no_rows, read_text
from apod.data.typed_files import (
    EXCEL_SUFFIXES,
    FEATHER_SUFFIXES,
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    read_excel,
    read_feather,
    read_json_lines,
    read_parquet,
)
from apod.errors import InputError

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
    except (UnicodeDecodeError, UnicodeError) as error:
        raise InputError(_encoding(path, how)) from error
    except (OSError, EOFError, csv.Error, zlib.error, pa.ArrowException) as error:
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
