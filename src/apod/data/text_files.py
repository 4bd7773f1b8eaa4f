"""Comma-separated text and its kin: plain, packed by gzip, or alone in a zip archive.

Every cell stays text; the cells `MISSING_CELLS` are missing. What a file's text does not tell by itself, a `Dialect`
says: the separator of cells, the decimal sign, the encoding.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from apod.data.cells import DECIMALS, Decimal
from apod.data.dataset import refuse_repeated
from apod.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
ZIP_SUFFIX = ".zip"
BLOCK = 1 << 24  # bytes read at a time; no row may be longer
UNPACKED_LIMIT = 2 << 30  # bytes of text that a packed file may hold
MISSING_CELLS = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


@dataclass(frozen=True)
class Dialect:
    """How a text file is to be read; None is recognised from the file."""

    separator: str | None = None
    decimal: Decimal | None = None
    encoding: str | None = None  # UTF-8, or UTF-16 where the file begins with its mark


RECOGNISED = Dialect()


def dialect(sep: str | None = None, decimal: str | None = None, encoding: str | None = None) -> Dialect:
    """The dialect that options name; InputError where one of them cannot be."""
    sep = _WORDS.get(sep, sep) if sep is not None else None
    if sep is not None and (len(sep) != 1 or sep in '"\r\n' or not sep.isascii()):
        raise InputError(f"--sep is {sep!r}: give one character, or tab.")
    if decimal is not None and decimal not in DECIMALS:
        raise InputError(f"--decimal is {decimal!r}: give . or , .")
    try:
        name = None if encoding is None else codecs.lookup(encoding).name
        if name is not None:
            io.TextIOWrapper(io.BytesIO(), encoding=name).close()  # some codecs turn text into text
    except (LookupError, ValueError):
        raise InputError(f"--encoding is {encoding!r}, which does not exist: try utf-8, cp1252 or utf-16.") from None
    return Dialect(sep, "." if decimal == "." else "," if decimal else None, name)


def read_text(path: Path, how: Dialect, limit: int = UNPACKED_LIMIT) -> pd.DataFrame:
    """The table of a text file, all cells text; a packed one may hold `limit` bytes."""
    with _unpacked(path, limit) as data:
        encoding = how.encoding or _MARKS.get(data.read(2), "utf-8")
        data.seek(0)
        header, separator = _header(path, data, encoding, how.separator)
        data.seek(0)
        return _rows(path, data, encoding, header, separator)


def _rows(path: Path, data: IO[bytes], encoding: str, header: list[str], separator: str) -> pd.DataFrame:
    uneven: list[Any] = []

    def note_and_skip(row: Any) -> str:
        uneven.append((row.number, row.actual_columns, row.text.count('"') % 2 == 1))
        return "skip"

    places = [f"c{i}" for i in range(len(header))]
    table = arrow_csv.read_csv(
        data,
        read_options=arrow_csv.ReadOptions(column_names=places, use_threads=False, block_size=BLOCK, encoding=encoding),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=note_and_skip
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(places, pa.string()), null_values=MISSING_CELLS, strings_can_be_null=True
        ),
    )
    if uneven:
        number, width, open_quote = uneven[0]
        if open_quote:
            raise InputError(f"{path.name}, row {number - 1}: a quotation mark is never closed: close or remove it.")
        raise InputError(f"{path.name}, row {number - 1}: {width} cells under {len(header)} column names.")
    if table.num_rows < 2 and any("\n" in name for name in header):
        raise InputError(f"{path.name} cannot be read (a quotation mark is never closed): save it again.")
    frame: pd.DataFrame = table.slice(1).to_pandas()  # the header is read as a row: a name may hold a line break
    return frame.set_axis(header, axis=1)


def _header(path: Path, data: IO[bytes], encoding: str, separator: str | None) -> tuple[list[str], str]:
    """The column names and the separator: as given, or whichever of the usual ones the first line has most of."""
    lines = io.TextIOWrapper(data, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")
    try:
        first = lines.readline()
        if "\x00" in first:
            raise not_text(path)
        if not first.strip():
            raise InputError(f"{path.name} is empty: it needs a line of column names and a line per person.")
        if not first.endswith(("\n", "\r")):  # the reader of rows would stumble over it
            raise no_rows(path)
        tabs = ".tsv" in path.name.lower()
        separator = separator or ("\t" if tabs else max(_SEPARATORS, key=first.count))
        lines.seek(0)
        return checked_names(path, next(csv.reader(lines, delimiter=separator))), separator
    finally:
        lines.detach()  # the file stays open for its rows


def checked_names(path: Path, names: Sequence[object]) -> list[str]:
    """A header's column names without blanks around them; InputError where two are alike or several are missing."""
    found = ["" if name is None else str(name).strip() for name in names]
    refuse_repeated([name for name in found if name])
    if found.count("") > 1:
        raise InputError(f"{path.name} has {found.count('')} columns without a name: name them.")
    return found


def no_rows(path: Path) -> InputError:
    """The error about a table without people."""
    return InputError(f"{path.name} has a header but no rows: there is nothing to learn from.")


def not_text(path: Path) -> InputError:
    """The error about bytes that are no text in any encoding."""
    return InputError(f"{path.name} is not a text file: save the table as UTF-8 text.")


def too_large(path: Path, limit: int, remedy: str) -> InputError:
    """The error about a small file that would fill the memory."""
    return InputError(f"{path.name} unpacks to more than {limit / (1 << 30):g} GiB: if it is meant to, {remedy}.")


class _Limited(io.RawIOBase):
    """What is packed in a file, up to the limit: what a file says of its own size may be wrong."""

    def __init__(self, path: Path, packed: IO[bytes], limit: int) -> None:
        self._path, self._packed, self._limit = path, packed, limit

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._packed.seek(offset, whence)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        room = memoryview(buffer)
        data = self._packed.read(len(room))
        if self._packed.tell() > self._limit:
            raise too_large(self._path, self._limit, "unpack it yourself")
        room[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._packed.close()
        super().close()


def _unpacked(path: Path, limit: int) -> IO[bytes]:
    lower = path.name.lower()
    if not lower.endswith((".gz", ZIP_SUFFIX)):
        return path.open("rb")
    packed = _member(path, limit) if lower.endswith(ZIP_SUFFIX) else io.BufferedReader(gzip.GzipFile(path))
    return io.BufferedReader(_Limited(path, packed, limit))


def _member(path: Path, limit: int) -> IO[bytes]:
    """The one table of a zip archive."""
    try:
        archive = zipfile.ZipFile(path)
        inside = [
            item for item in archive.infolist()
            if not item.is_dir() and not item.filename.startswith("__MACOSX/") and not _last(item).startswith(".")
        ]  # fmt: skip
        tables = [item for item in inside if item.filename.lower().endswith((".csv", ".tsv", ".txt"))]
        if len(tables) != 1:
            raise InputError(f"{path.name} holds {len(tables)} text tables: a zip archive may hold one CSV file.")
        if tables[0].file_size > limit:
            raise too_large(path, limit, "unpack it yourself")
        return archive.open(tables[0])
    except (zipfile.BadZipFile, NotImplementedError):
        raise InputError(f"{path.name} is no zip archive that can be read: pack it again.") from None
    except RuntimeError:
        raise InputError(f"{path.name} is protected by a password: unpack it first.") from None


def _last(item: zipfile.ZipInfo) -> str:
    return item.filename.rsplit("/", 1)[-1]
