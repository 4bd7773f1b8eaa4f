"""What an annotator sees of a row: the shown columns and its picture, and only those, one row at a time.

A table is refused when a path cannot be right. What becomes wrong later (a link that leads out, a pipe in place of a
file) withdraws the question when somebody would be asked it.

Rows lie as JSON lines in a file beside the database, with an index of offsets and digests: showing one row of a
million reads that row, and a row that was damaged is noticed before it is shown.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import numpy as np
import pandas as pd

from apod.campaign.errors import FileDamaged, PictureUnusable
from apod.campaign.files import Files
from apod.campaign.settings import NAME_LIMIT
from apod.data.columns import looks_like_person_names
from apod.data.own import holds_groups, require_column
from apod.errors import InputError

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Pictures:
    """The folder that a campaign's pictures lie under."""

    def __init__(self, root: str | None) -> None:
        self._root = os.path.realpath(root or ".")
        self._folders: dict[str, str] = {}  # as written -> without links

    def path(self, named: str) -> str:
        """Where the picture lies, without links; PictureUnusable where that is no place for one. It may be missing."""
        try:
            folder, name = os.path.split(os.path.join(self._root, named))
            path = os.path.join(self._folder(folder), name)
            found = _kind(path)
            if found is not None and stat.S_ISLNK(found):
                path = os.path.realpath(path)
                found = _kind(path)
        except (ValueError, OSError):  # NUL, half a character, too long
            raise PictureUnusable("A picture's path is none: correct the table.") from None
        if name in ("", ".", "..") or os.path.commonpath([self._root, path]) != self._root:
            raise PictureUnusable("A picture's path leads out of the campaign's folder of pictures: correct the table.")
        if found is not None and not stat.S_ISREG(found):
            raise PictureUnusable(
                "A picture's path leads to something that is not a file: correct the table, or the folder."
            )
        return path

    def check(self, column: str, values: pd.Series[Any]) -> None:
        """InputError where a column holds a path that cannot be a picture's, with the first row."""
        bad = []
        for row, named in enumerate(values):
            try:
                if not pd.isna(named):
                    self.path(str(named))
            except PictureUnusable:
                bad.append(row)
        if bad:
            raise InputError(
                f"Column {column!r} has {len(bad)} paths that lead out of the folder of pictures, or to no file, the "
                f"first in row {bad[0]} (counting from 0): correct them."
            )

    def _folder(self, folder: str) -> str:
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return self._folders[folder]


def read_picture(path: str, root: str | None, most: int) -> bytes:
    """Up to `most` bytes and one more of a picture; OSError unless it is a regular file reached without any link.

    Neither a pipe nor a device can hold the reader up, nor can a folder exchanged for a link lead elsewhere.
    """
    with _opened(Path(path), Path(os.path.realpath(root or "."))) as file:
        return file.read(most + 1)


def _opened(path: Path, root: Path) -> BinaryIO:
    if os.open not in os.supports_dir_fd:
        return _regular(os.open(path, _FLAGS))
    folder = os.open(root, _FLAGS | os.O_DIRECTORY)
    try:
        *between, name = path.relative_to(root).parts
        for part in between:
            inner = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        return _regular(os.open(name, _FLAGS | os.O_NONBLOCK, dir_fd=folder))
    finally:
        os.close(folder)


def _regular(handle: int) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("not a regular file")
    return os.fdopen(handle, "rb")


def _kind(path: str) -> int | None:
    """What lies there, a link for itself; None where nothing does."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


CELL_LIMIT = 100_000
"""Characters of text in one cell; a page cannot show more to any purpose."""

_ID = "\x1fid"
_CHUNK = 50_000


def shown_columns(
    frame: pd.DataFrame,
    show: Sequence[str] | None,
    labels: Collection[str],
    groups: Sequence[Sequence[str]],
    show_label: bool,
) -> tuple[str, ...]:
    """The columns an annotator may see: those asked for, or all but the label, persons' names and recorded groups.

    `labels` are the columns that say the label; they can be asked for only where annotators see the label anyway.
    `groups` are those of every attribute.
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
        and not any(holds_groups(frame[column], names) for names in groups)
    )


class DisplayFiles(TypedDict):
    """Where the shown values lie: names of files, as in the log's first event."""

    rows: str
    index: str
    columns: list[str]


def store_display(files: Files, frame: pd.DataFrame, columns: Sequence[str], ids: Sequence[str] | None) -> DisplayFiles:
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

    def __init__(self, files: Files, manifest: DisplayFiles) -> None:
        self._files, self._manifest = files, manifest

    def row(self, row: int) -> tuple[str | None, dict[str, object]]:
        """A row's id, None where rows have none, and its shown values by column."""
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
        return values.pop(_ID, None), values

    def ids(self) -> Iterator[str]:
        """The ids of all rows, in order; none where rows have none."""
        with self._files.check(self._manifest["rows"], ".jsonl").open("rb") as file:
            for line in file:
                row_id = json.loads(line).get(_ID)
                if row_id is None:
                    return
                yield str(row_id)


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
