"""Files written whole or not at all, arrays in them without pickle, and the digest of what is in them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from apod.errors import CheckpointError, InputError


def require_folder(path: Path) -> None:
    """Refuse a path in a folder that does not exist: a typo must not create one."""
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {str(path.parent)!r}: create it first.")


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends without an error.

    A reader sees the old file or the new one, after a power cut too. A `private` one its owner alone may read. While
    it is written the file has no name where the file system allows that, so a killed process leaves nothing behind.
    """
    with new_file(path.parent, private=private) as new:
        yield new.file
        new.path = path


@dataclass
class NewFile:
    """A file under way, and where it goes once it is whole."""

    file: BinaryIO
    path: Path | None = None


@contextmanager
def new_file(folder: Path, *, private: bool = False) -> Iterator[NewFile]:
    """A file to write that takes the place of its `path` when the block ends without an error: see `replacing`.

    The path, in this folder, has to be set within the block; it may depend on what was written.
    """
    partial = folder / f".{uuid4().hex}.partial"
    mode = 0o600 if private else 0o666
    handle = _nameless(folder, mode)
    if named := handle is None:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            new = NewFile(file)
            yield new
            assert new.path is not None, "a new file needs its path before the block ends"
            file.flush()
            os.fsync(file.fileno())
            if not named:
                _name(file.fileno(), partial)
        partial.replace(new.path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def _nameless(folder: Path, mode: int) -> int | None:
    """A file without a name in this folder, which vanishes with its last user; None where there is no such thing."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE, mode)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return None
        raise


def _name(handle: int, path: Path) -> None:
    """Give a nameless file its name."""
    handles = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:  # with a folder given Python calls linkat, which follows the link to the nameless file; link() would not
        os.link(str(handle), path, src_dir_fd=handles)
    finally:
        os.close(handles)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that may hold people's groups: its owner alone may read it."""
    try:
        with replacing(path, private=True) as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"{path} could not be written ({error.strerror}): choose another place.") from None


def digest(*parts: str | bytes | npt.NDArray[Any], size: int = 16) -> str:
    """`size` bytes of blake2b over these parts, in hex; arrays by their numbers alone, however they lie in memory."""
    found = hashlib.blake2b(digest_size=size)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()


Arrays = Mapping[str, npt.NDArray[Any]]
Unchecked = Mapping[str, Any]
"""Facts as a file holds them: whoever reads one checks its type before using it."""


def write_arrays(path: Path, arrays: Arrays, facts: Mapping[str, object]) -> None:
    """Replace `path` by these arrays and facts."""
    content = packed_arrays(arrays, facts)
    with replacing(path) as file:
        file.write(content)


def packed_arrays(arrays: Arrays, facts: Mapping[str, object]) -> bytes:
    """These arrays in safetensors form, with the facts as JSON and a checksum in the header."""
    import safetensors.numpy

    packed = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in arrays.items()}
    text = json.dumps(dict(facts))
    return _in_order(safetensors.numpy.save(packed, metadata={"facts": text, "checksum": checksum(packed, text)}))


def _in_order(content: bytes) -> bytes:
    """The same file with its header in order: safetensors writes what is in it in any order, another one every time."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return content[:8] + text.ljust(size) + content[8 + size :] if len(text) <= size else content


def checksum(arrays: Mapping[str, npt.ArrayLike], facts: str) -> str:
    """A digest of everything in a file: the facts, and every array's name, type, shape and numbers."""
    parts: list[str | npt.NDArray[Any]] = [facts]
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        parts += [f"\x1f{name}\x1ftorch.{array.dtype}\x1f{array.shape}\x1f", array]  # as files always had it
    return digest(*parts)


def read_arrays(path: Path, key: str) -> tuple[dict[str, npt.NDArray[Any]], Unchecked]:
    """The arrays and facts of a file that was written with this `key` among its facts."""
    try:
        arrays, facts, checked = read_checked(path)
    except CheckpointError as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it to start again.") from error
    if not checked:
        raise CheckpointError(f"{path} has no checksum, an earlier version wrote it: delete it to start again.")
    if facts.get("key") != key:
        raise CheckpointError(
            f"{path} belongs to other pictures, settings or another seed: choose another folder, or delete it."
        )
    return arrays, facts


def read_checked(path: Path) -> tuple[dict[str, npt.NDArray[Any]], Unchecked, bool]:
    """Arrays, facts, and whether a checksum vouches for them; CheckpointError, a few words, where one does not."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
        facts = json.loads(about.get("facts", "{}"))
    except RecursionError:
        raise CheckpointError("its header is nested too deeply") from None
    except (safetensors.SafetensorError, ValueError, OSError, MemoryError, TypeError, AttributeError) as error:
        raise CheckpointError(str(error).split("\n")[0][:200] or type(error).__name__) from error
    if not isinstance(facts, dict):
        raise CheckpointError("its header is no record")
    if "checksum" in about and about["checksum"] != checksum(arrays, about.get("facts", "{}")):
        raise CheckpointError("its checksum is wrong")
    return arrays, facts, "checksum" in about


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """One process at a time within the block; the others wait. A killed one lets go by dying."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: two processes then do the same work twice, harmlessly
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
