"""Files written whole or not at all, tensors in them without pickle, and the digest of what is in them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from apod.errors import CheckpointError, InputError

if TYPE_CHECKING:
    from torch import Tensor


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
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
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


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Replace `path` by these tensors in safetensors form, with the facts as JSON in the file's header."""
    import safetensors.torch

    packed = {name: value.detach().contiguous() for name, value in tensors.items()}
    content = safetensors.torch.save(packed, metadata={"facts": json.dumps(dict(facts))})
    with replacing(path) as file:
        file.write(content)


def read_tensors(path: Path, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts of a file that was written with this `key` among its facts."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get("facts", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (safetensors.SafetensorError, json.JSONDecodeError, OSError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete it to start again.") from error
    if facts.get("key") != key:
        raise CheckpointError(
            f"{path} belongs to other pictures, settings or another seed: choose another folder, or delete it."
        )
    return tensors, facts


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
