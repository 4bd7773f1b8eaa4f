"""Files written whole or not at all, and the digest of what is in them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from apod.errors import InputError


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends without an error.

    A reader sees the old file or the new one, after a power cut too. A `private` one its owner alone may read.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise


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
