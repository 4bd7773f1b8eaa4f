"""Datasets: the paper's by name, a user's own file, and the encoding of their columns.

Names are loaded when they are used: whoever reads arrays alone does not wait for pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apod.data.dataset import UNKNOWN, Dataset, FairnessMetric, IntArray, Split, Task, as_frame, split_rows
    from apod.data.encode import MISSING, TableEncoder
    from apod.data.load import load_dataset, with_reference
    from apod.data.named import make_example
    from apod.data.sources import cache_dir
    from apod.data.tables import DATASETS

_HOMES = {
    "DATASETS": "tables",
    "MISSING": "encode",
    "UNKNOWN": "dataset",
    "Dataset": "dataset",
    "FairnessMetric": "dataset",
    "IntArray": "dataset",
    "Split": "dataset",
    "TableEncoder": "encode",
    "Task": "dataset",
    "as_frame": "dataset",
    "cache_dir": "sources",
    "load_dataset": "load",
    "make_example": "named",
    "split_rows": "dataset",
    "with_reference": "load",
}

__all__ = [
    "DATASETS",
    "MISSING",
    "UNKNOWN",
    "Dataset",
    "FairnessMetric",
    "IntArray",
    "Split",
    "TableEncoder",
    "Task",
    "as_frame",
    "cache_dir",
    "load_dataset",
    "make_example",
    "split_rows",
    "with_reference",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"apod.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'apod.data' has no attribute {name!r}")
