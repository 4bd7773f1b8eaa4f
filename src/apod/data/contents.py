"""Cells that are no numbers or categories: pictures and texts, read one at a time when they are needed.

A `Content` is a column of such cells. Pictures lie in a folder, in a tar or zip archive, or as bytes in the table; they
are never unpacked, copied or kept in memory. Texts are read as they stand in the table.
"""

from __future__ import annotations

import os
import stat
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.errors import InputError

IntArray = npt.NDArray[np.int64]
Kind = Literal["picture", "text"]
Read = Callable[[int], bytes]
"""The bytes of a row's cell; InputError where there are none to be had."""

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
MOST_BYTES = 64 * 2**20
"""Of one picture's file: more is refused unread."""
SHOWN = 5
"""Names in a message; the rest are counted."""


class Cells(Protocol):
    """Where a column's cells come from."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def name(self, row: int) -> str:
        """What a row's cell is called in a message."""
        ...

    def opened(self) -> Any:
        """A context in which cells are read, from any thread: `with cells.opened() as read: read(row)`."""
        ...

    def take(self, rows: IntArray) -> Cells:
        """These rows."""
        ...


@dataclass(frozen=True, eq=False)
class Content:
    """A column of pictures or texts."""

    column: str
    kind: Kind
    cells: Cells = field(repr=False)

    def take(self, rows: IntArray) -> Content:
        """These rows."""
        return Content(self.column, self.kind, self.cells.take(rows))


@dataclass(frozen=True, eq=False)
class Inline:
    """Cells that are in the table: bytes, or texts, which are read as UTF-8. A missing text is an empty one."""

    values: tuple[bytes | str | None, ...]

    def __len__(self) -> int:
        return len(self.values)

    def name(self, row: int) -> str:
        """By its place."""
        return f"row {row}"

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """Cells as they are."""
        yield self._read

    def take(self, rows: IntArray) -> Inline:
        """These rows."""
        return Inline(tuple(self.values[row] for row in rows))

    def texts(self) -> list[str]:
        """All cells as texts."""
        return [self._read(row).decode("utf-8") for row in range(len(self))]

    def _read(self, row: int) -> bytes:
        value = self.values[row]
        if isinstance(value, str):
            return value.encode("utf-8", errors="replace")  # half a character has no bytes
        if value is not None and len(value) > MOST_BYTES:
            raise InputError(f"it has {len(value):,} bytes")
        return b"" if value is None else bytes(value)


@dataclass(frozen=True, eq=False)
class FilesIn:
    """Pictures named by the table: below a folder, or in an archive."""

    place: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, row: int) -> str:
        """The file's name."""
        return self.names[row]

    def take(self, rows: IntArray) -> FilesIn:
        """These rows."""
        return FilesIn(self.place, tuple(self.names[row] for row in rows))

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """Files are read where they are; archives by one thread at a time."""
        with _reader(self.place) as read:
            yield lambda row: read(self.names[row])


@contextmanager
def _reader(place: Path) -> Iterator[Callable[[str], bytes]]:
    """What reads a picture of a folder or archive by its name."""
    lower, lock = place.name.lower(), threading.Lock()
    if not lower.endswith(ARCHIVE_SUFFIXES):
        root = os.path.realpath(place)
        yield lambda name: _read_file(root, name)
    elif lower.endswith(".zip"):
        with _whole(place), zipfile.ZipFile(place) as zipped:

            def from_zip(name: str) -> bytes:
                with lock, _readable():
                    _check_size(zipped.getinfo(name).file_size)
                    return zipped.read(name)

            yield from_zip
    else:
        with _whole(place), tarfile.open(place) as packed:
            members = {member.name: member for member in packed.getmembers() if member.isfile()}

            def from_tar(name: str) -> bytes:
                with lock, _readable():
                    _check_size(members[name].size)
                    file = packed.extractfile(members[name])
                    return b"" if file is None else file.read()

            yield from_tar


def _read_file(root: str, name: str) -> bytes:
    """A regular file below the folder; links that lead out, pipes and devices are refused."""
    try:
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath([root, path]) != root:
            raise InputError("its path leads out of the folder of pictures")
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise InputError("it is no file")
            _check_size(about.st_size)
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError("there is no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("it cannot be read") from None


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise InputError(f"it has {size:,} bytes")


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except KeyError:
        raise InputError("there is no such file") from None
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError):
        raise InputError("it cannot be read from the archive") from None


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a whole archive ({error}): make it or download it again.") from None


def holds_pictures(path: Path) -> bool:
    """Whether this is a folder or an archive with a picture in it."""
    if not path.exists() or not (path.is_dir() or path.name.lower().endswith(ARCHIVE_SUFFIXES)):
        return False
    return bool(picture_names(path))


def picture_place_name(path: Path) -> str:
    """The name of a folder or archive, without its type."""
    suffix = next((suffix for suffix in ARCHIVE_SUFFIXES[::-1] if path.name.lower().endswith(suffix)), "")
    return path.resolve().name.removesuffix(suffix) if not suffix else path.name[: -len(suffix)]


def picture_names(path: Path) -> list[str]:
    """The names of the pictures in a folder, at any depth, or in an archive, in order; no hidden ones."""
    if path.is_dir():
        found = [str(PurePosixPath(file.relative_to(path))) for file in path.rglob("*") if _is_picture(file.name)]
    else:
        with _whole(path):
            if path.suffix.lower() == ".zip":
                with zipfile.ZipFile(path) as zipped:
                    found = zipped.namelist()
            else:
                with tarfile.open(path) as packed:
                    found = [member.name for member in packed.getmembers() if member.isfile()]
        found = [name for name in found if _is_picture(PurePosixPath(name).name)]
    return sorted(found)


def _is_picture(name: str) -> bool:
    return name.lower().endswith(PICTURE_SUFFIXES) and not name.startswith(".")


def named_pictures(place: Path, frame: pd.DataFrame, column: str | None) -> tuple[str, FilesIn]:
    """The column of a table that names the pictures of a folder or archive, and those pictures, row by row.

    Without a column the one is taken whose cells name the most pictures: by path, or by a file name there is once.
    """
    names = picture_names(place)
    by_name = {name: name for name in names}
    bases = pd.Series([PurePosixPath(name).name for name in names], dtype=object)
    for base in bases[~bases.duplicated(keep=False)].index:
        by_name.setdefault(bases[base], names[base])
    if column is None:
        column = _naming_column(frame, by_name, place)
    cells = ["" if pd.isna(cell) else str(cell).strip() for cell in frame[column]]
    lost = [row for row, cell in enumerate(cells) if cell not in by_name]
    if lost:
        raise InputError(
            f"{len(lost)} of {len(cells)} rows name no picture of {place.name} in column {column!r}, first data row "
            f"{lost[0] + 1}: add the pictures, or remove the rows."
        )
    twice = pd.Series(cells).duplicated()
    if twice.any():
        raise InputError(
            f"{int(twice.sum())} rows of column {column!r} name a picture that an earlier row has, first data row "
            f"{int(np.flatnonzero(twice)[0]) + 1}: keep one row per person."
        )
    return column, FilesIn(place, tuple(by_name[cell] for cell in cells))


def _naming_column(frame: pd.DataFrame, by_name: dict[str, str], place: Path) -> str:
    shares = {
        str(name): float(frame[name].astype(str).str.strip().isin(by_name.keys()).mean())
        for name in frame.columns
        if not pd.api.types.is_numeric_dtype(frame[name])
    }
    best = max(shares, key=lambda name: shares[name], default="")
    if not best or shares[best] < 0.5:
        raise InputError(
            f"No column names the pictures of {place.name}: name the one that does (--picture-column), with file names "
            "as they are in the folder."
        )
    return best


def picture_cells(column: str, values: pd.Series[Any], root: Path) -> Cells:
    """A table's own column of pictures: bytes, or paths below `root`."""
    missing = values.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"Column {column!r} has no picture in {int(missing.sum())} row(s), first data row "
            f"{int(missing.argmax()) + 1}: add them, or remove the rows."
        )
    cells = [_picture_cell(value) for value in values]
    if all(isinstance(cell, bytes) for cell in cells):
        return Inline(tuple(cells))
    if all(isinstance(cell, str) for cell in cells):
        return FilesIn(root, tuple(str(cell) for cell in cells))
    raise InputError(f"Column {column!r} holds neither bytes nor paths of pictures in every row: use one of the two.")


class Unreadable:
    """A cell that is neither a number nor text; whoever needs the column refuses it by name, but for pictures."""

    def __init__(self, kind: str, value: Any) -> None:
        self._kind, self.value = kind, value

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def _picture_cell(value: Any) -> bytes | str | None:
    if isinstance(value, Unreadable):
        value = value.value
    if isinstance(value, dict):  # as Hugging Face datasets write pictures: {"bytes": ..., "path": ...}
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return value if isinstance(value, str) else None


def text_cells(values: pd.Series[Any]) -> Inline:
    """A table's column of texts; missing cells are empty texts."""
    return Inline(tuple(None if pd.isna(value) else str(value) for value in values))


def some(names: Sequence[str]) -> str:
    """The first few names, and that there are more."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
