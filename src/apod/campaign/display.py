"""What an annotator sees of a row: the shown columns, and only those, one row at a time.

Rows lie as JSON lines in a file beside the database, with an index of offsets and digests: showing one row of a
million reads that row, and a row that was damaged is noticed before it is shown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from apod.campaign.errors import FileDamaged
from apod.campaign.files import Files
from apod.campaign.settings import NAME_LIMIT
from apod.data.columns import looks_like_person_names
from apod.data.own import holds_groups, require_column
from apod.errors import InputError

CELL_LIMIT = 100_000
"""Characters of text in one cell; a page cannot show more to any purpose."""

_ID = "\x1fid"
_CHUNK = 50_000


def shown_columns(
    frame: pd.DataFrame, show: Sequence[str] | None, labels: Collection[str], groups: Sequence[str], show_label: bool
) -> tuple[str, ...]:
    """The columns an annotator may see: those asked for, or all but the label, persons' names and recorded groups.

    `labels` are the columns that say the label; they can be asked for only where annotators see the label anyway.
    """
    if show is not None:
        for column in show:
            require_column(column, [str(name) for name in frame.columns], "the table to show")
        telling = [column for column in show if column in labels]
        if telling and not show_label:
            raise InputError(
                f"Column {telling[0]!r} says the label: leave it out of the columns to show, or show the label "
                "(--show-label)."
            )
        return tuple(show)
    return tuple(
        column
        for column in frame.columns
        if column not in labels
        and not looks_like_person_names(column, frame[column])
        and not holds_groups(frame[column], groups)
    )


def store_display(
    files: Files, frame: pd.DataFrame, columns: Sequence[str], ids: Sequence[str] | None
) -> dict[str, Any]:
    """Write the shown columns; return what `Display` needs to read them."""
    chosen = frame.loc[:, list(columns)].reset_index(drop=True)
    for column in chosen.columns:
        check_cells(column, chosen[column])
    if ids is not None:
        chosen[_ID] = _clean_ids(ids, len(frame))
    offsets, digests, at = [], [], 0
    with files.writer(".jsonl") as file:
        for start in range(0, len(chosen), _CHUNK):
            lines = _lines(chosen.iloc[start : start + _CHUNK])
            for line in lines:
                offsets.append(at)
                digests.append(_digest(line))
                at += len(line)
            file.write(b"".join(lines))
    index = np.array([offsets, digests], dtype=np.uint64).T
    return {"rows": file.name, "index": files.put_array(np.ascontiguousarray(index)), "columns": list(columns)}


class Display:
    """The shown values of single rows."""

    def __init__(self, files: Files, manifest: Mapping[str, Any]) -> None:
        self._files, self._manifest = files, manifest

    def row(self, row: int) -> tuple[str, dict[str, Any]]:
        """A row's id and its shown values by column."""
        index = self._files.array(self._manifest["index"])  # checked against the log; it vouches for the row
        path = self._files.path(self._manifest["rows"], ".jsonl")
        start = int(index[row, 0])
        length = int(index[row + 1, 0]) - start if row + 1 < len(index) else -1
        try:
            with path.open("rb") as file:
                file.seek(start)
                line = file.read(length)
        except OSError as error:
            raise FileDamaged(f"{path} cannot be read ({error.strerror}): restore it from a backup.") from None
        if _digest(line) != int(index[row, 1]):
            raise FileDamaged(f"{path} is not what it was when it was written: restore it from a backup.")
        values = json.loads(line)
        return str(values.pop(_ID, row)), values


def _lines(chunk: pd.DataFrame) -> list[bytes]:
    if chunk.shape[1] == 0:
        return [b"{}\n"] * len(chunk)
    try:
        text = chunk.to_json(orient="records", lines=True, double_precision=15, date_format="iso", default_handler=str)
        return text.encode().splitlines(keepends=True)
    except (UnicodeEncodeError, OverflowError):
        raise InputError("A shown text holds half a character: clean the table and create it again.") from None


def _digest(line: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")


def check_cells(column: str, values: pd.Series[Any]) -> None:
    """Refuse a column with a text too long to be shown or to be a category."""
    if pd.api.types.is_numeric_dtype(values):
        return
    sizes = values.dropna().astype(str).str.len()
    if len(sizes) and sizes.max() > CELL_LIMIT:
        raise InputError(
            f"Column {column!r} has a cell of {int(sizes.max())} characters: shorten it to {CELL_LIMIT} or leave the "
            "column out."
        )


def _clean_ids(ids: Sequence[str], rows: int) -> list[str]:
    if len(ids) != rows:
        raise InputError(f"There are {len(ids)} ids for {rows} rows: pass one id per row.")
    texts = [str(item) for item in ids]
    for row, text in enumerate(texts):
        if len(text) > NAME_LIMIT or "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"The id of row {row} is too long or holds a NUL or half a character: change it.")
    if len(set(texts)) != rows:
        raise InputError("Two rows have the same id: ids must be different.")
    return texts
