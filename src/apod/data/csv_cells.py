"""Texts in comma-separated files that people open in a spreadsheet: none of them is run as a formula.

A text that a spreadsheet would take for a formula (it begins with = + - @, a tab or a line break) is written with an
apostrophe before it, and one that looks as if it had been written so gets another; reading takes one away again. So
what goes out comes back the same, whatever it is.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from apod.errors import InputError

_FORMULA = r"(\s*[=+\-@＝＋－＠]|[\t\r\n])"
_DANGEROUS, _ESCAPED = re.compile("'*" + _FORMULA), re.compile("'+" + _FORMULA)


def escaped(text: str) -> str:
    """The text as it is written."""
    return f"'{text}" if _DANGEROUS.match(text) else text


def unescaped(cell: str) -> str:
    """The text that was written."""
    return cell[1:] if _ESCAPED.match(cell) else cell


def write_cells(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A file in UTF-8; texts are escaped, None is an empty cell."""
    lines = [header, *([escaped(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)]
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines).encode()


def read_cells(data: bytes) -> list[dict[str, str]]:
    """The rows by column name; InputError where this is no table. Blank lines count for nothing."""
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise InputError("The file is not comma-separated text in UTF-8: nothing was imported.") from None
    header, *rows = [line for line in lines if line] or [[]]
    if not header:
        raise InputError("The file is empty: it needs a line of column names.")
    if len(set(header)) < len(header):
        raise InputError("Two columns of the file have the same name: nothing was imported.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise InputError(
                f"Row {number} of the file has {len(row)} cells under {len(header)} column names: nothing was imported."
            )
    return [dict(zip(header, map(unescaped, row), strict=True)) for row in rows]


def _quoted(cell: object) -> str:
    text = "" if cell is None else str(cell)
    if not re.search('[",\r\n]|^\\s|\\s$', text):
        return text
    return '"' + text.replace('"', '""') + '"'
