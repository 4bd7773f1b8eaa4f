"""Tensors and a few facts about them in one safetensors file, written whole or not at all. No pickle anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from apod.errors import CheckpointError


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Replace `path` by these tensors, with the facts as JSON in the file's header, in one step."""
    partial = path.with_name(path.name + ".partial")
    packed = {name: value.detach().contiguous() for name, value in tensors.items()}
    safetensors.torch.save_file(packed, partial, metadata={"facts": json.dumps(dict(facts))})
    replace(partial, path)


def replace(partial: Path, path: Path) -> None:
    """Put a fully written file in its place; after a power cut there is the old one or the new one."""
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def read_tensors(path: Path, key: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts of a file that was written with this `key` among its facts."""
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
