"""Saved classifiers opened and changed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors
import torch
from hypothesis import strategies as st

Tensors = dict[str, torch.Tensor]
Facts = dict[str, Any]


def read(path: Path) -> tuple[Tensors, Facts]:
    with safetensors.safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["facts"])  # noqa: SIM118


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything within a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(*here, key) for key in keys] + [path for key in keys for path in places(value[key], (*here, key))]
