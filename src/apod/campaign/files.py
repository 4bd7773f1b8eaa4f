"""Matrices beside the database: files named by their hash, written whole or not at all, never changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from apod.campaign.errors import FileDamaged, StoreError
from apod.files import new_file

_BLOCK = 1 << 22
_Seen = tuple[int, int, int, int]  # where a file lies, how long it is, and when it was changed last


def _seen(path: Path) -> _Seen:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


class Files:
    """A folder of immutable files. What is read is checked against its name, and again where it has changed since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._checked: dict[tuple[str, str], _Seen | None] = {}
        self._mapped: dict[str, tuple[_Seen, npt.NDArray[Any]]] = {}

    def put_array(self, array: npt.NDArray[Any]) -> str:
        """Store an array; return its hash."""
        with self.writer(".npy") as file:
            np.save(cast("IO[bytes]", file), array, allow_pickle=False)
        return file.name

    def put_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
        """Store several arrays in one file; return its hash."""
        data = safetensors.numpy.save({name: _plain(arrays[name]) for name in sorted(arrays)})
        with self.writer(".safetensors") as file:
            file.write(data)
        return file.name

    def put_text(self, text: str) -> str:
        """Store a text; return its hash."""
        with self.writer(".txt") as file:
            file.write(text.encode())
        return file.name

    def text(self, name: str) -> str:
        """A text by its hash."""
        return self.check(name, ".txt").read_text(encoding="utf-8")

    def array(self, name: str) -> npt.NDArray[Any]:
        """An array by its hash, mapped into memory: only what is used is read."""
        path, seen = self._check(name, ".npy")
        mapped = self._mapped.get(name)
        if mapped is None or mapped[0] != seen:  # put back from a backup: the old mapping shows the old file
            mapped = self._mapped[name] = seen, np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped[1]

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays of one file by its hash."""
        path = self.check(name, ".safetensors")
        return safetensors.numpy.load(path.read_bytes())

    def path(self, name: str, suffix: str) -> Path:
        """Where a file lies. Its content is not looked at."""
        return self.folder / f"{name}{suffix}"

    def check(self, name: str, suffix: str, *, anew: bool = False) -> Path:
        """The file's path, after making sure that it is there and is what its name says.

        Its content is read where it was not read before, has changed since by what the system says, or `anew`.
        """
        return self._check(name, suffix, anew)[0]

    def _check(self, name: str, suffix: str, anew: bool = False) -> tuple[Path, _Seen]:
        path = self.path(name, suffix)
        try:
            seen = _seen(path)
            if anew or self._checked.get((name, suffix)) != seen:
                self._checked[name, suffix] = None  # until it is found to be right, so that it is looked at again
                with path.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != name:
                    raise FileDamaged(f"{path} is not what it was when it was written: restore it from a backup.")
                self._checked[name, suffix] = seen
        except OSError as error:
            raise FileDamaged(f"{path} cannot be read ({error.strerror}): restore it from a backup.") from None
        return path, seen

    def check_again(self) -> None:
        """Make sure that everything read so far is still what it was; nothing is read that has not changed."""
        for name, suffix in list(self._checked):
            self.check(name, suffix)

    def forget(self, name: str, suffix: str) -> None:
        """Delete a file, if it is there."""
        self._checked.pop((name, suffix), None)
        self._mapped.pop(name, None)
        with suppress(FileNotFoundError):
            self.path(name, suffix).unlink()

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def writer(self, suffix: str) -> Iterator[HashingFile]:
        """A file under way; it gets its name, and becomes durable, when the block ends without an error."""
        try:
            self._make_folder()
            with new_file(self.folder, private=True) as new:
                file = HashingFile(new.file)
                yield file
                file.name = file.digest()
                new.path = self.path(file.name, suffix)
            _sync_folder(self.folder)
        except OSError as error:
            raise StoreError(
                f"{self.folder} could not be written ({error.strerror}): nothing was recorded. Free some space, or see "
                "who may write there, and repeat."
            ) from None


class Staged(Files):
    """Files of a campaign that does not exist yet, in a folder of their own beside where they will lie."""

    def __init__(self, target: Path) -> None:
        super().__init__(target / f".new-{uuid.uuid4().hex}")
        self.target = target

    def _make_folder(self) -> None:
        self.target.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode is the last folder's alone
        super()._make_folder()

    def settle(self) -> None:
        """Put all of them where they belong."""
        try:
            for path in self.folder.iterdir():
                os.replace(path, self.target / path.name)
            _sync_folder(self.target)
        except OSError as error:
            raise StoreError(f"{self.target} could not be written ({error.strerror}): nothing was recorded.") from None


@contextmanager
def staged(target: Path) -> Iterator[Staged]:
    """Files that go, with the folders made for them, unless they are settled before the block ends."""
    files, there = Staged(target), target.exists()
    try:
        yield files
    finally:
        shutil.rmtree(files.folder, ignore_errors=True)
        if not there:
            with suppress(OSError):  # it holds the settled files, or somebody else's
                target.rmdir()


class HashingFile:
    """A file for writing that knows the hash of what went through it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self.name = ""
        self._raw, self._hash = raw, hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write and hash."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _BLOCK):
            part = view[start : start + _BLOCK]
            self._hash.update(part)
            self._raw.write(part)
        return len(view)

    def flush(self) -> None:
        """Nothing yet: the writer flushes at the end."""

    def digest(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()


def state_hash(arrays: Mapping[str, npt.NDArray[Any]], meta: str) -> str:
    """The hash of a model's content: names, types, shapes, numbers and settings."""
    digest = hashlib.sha256(meta.encode())
    for name in sorted(arrays):
        array = _plain(arrays[name])
        digest.update(f"\x1f{name}\x1f{array.dtype.str}\x1f{array.shape}\x1f".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In memory order, with its shape; NumPy's own ascontiguousarray makes a single number a list of one."""
    return np.asarray(array, order="C")


def _sync_folder(folder: Path) -> None:
    """Make a new name durable; without this a file can vanish with the power although its content was synced."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
