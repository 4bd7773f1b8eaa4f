"""One door to all data: a name from the table, or the path of the user's own file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from apod.data.dataset import UNKNOWN, Dataset
from apod.data.tables import DATASETS
from apod.errors import InputError, UnknownName


def load_dataset(
    name_or_path: str | Path,
    *,
    label: str | None = None,
    sensitive: str | None = None,
    reference: str | None = None,
    group_names: Sequence[str] | None = None,
    data_dir: str | Path | None = None,
) -> Dataset:
    """A named dataset, from the first source that has it, or the user's own file."""
    named = DATASETS.get(str(name_or_path))
    if named is None:
        raise UnknownName("dataset", str(name_or_path), DATASETS)
    if label is not None or sensitive is not None or group_names is not None:
        raise InputError(f"The dataset {named.name!r} brings its own label and groups: leave label and sensitive out.")
    dataset = named.load(data_dir)
    return dataset if reference is None else with_reference(dataset, reference)


def with_reference(dataset: Dataset, reference: str) -> Dataset:
    """The same dataset with this group as the reference, which is the last one."""
    names = dataset.group_names
    if reference not in names:
        raise UnknownName("group", reference, names)
    order = [*(name for name in names if name != reference), reference]
    code = np.array([*(order.index(name) for name in names), UNKNOWN], dtype=np.int64)  # code -1 stays -1
    return replace(dataset, group_names=tuple(order), groups=code[dataset.groups])
