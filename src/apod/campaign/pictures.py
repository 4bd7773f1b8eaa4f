"""Pictures of a campaign: named by a column, only within their folder, and only regular files.

A table is refused when a path cannot be right. What becomes wrong later (a link that leads out, a pipe in place of a
file) withdraws the question when somebody would be asked it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from apod.campaign.errors import PictureUnusable
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
            raise PictureUnusable("A picture's path leads to what is no file: correct the table, or the folder.")
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
