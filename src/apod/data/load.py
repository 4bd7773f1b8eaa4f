"""One door to all data: a name from the table, or the path of the user's own file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from apod.data.dataset import UNKNOWN, Dataset
from apod.data.files import looks_like_a_file
from apod.data.own import FileColumns, load_file
from apod.data.pictures import CELEBA_GROUPS
from apod.data.tables import DATASETS
from apod.errors import InputError, UnknownName


def load_dataset(
    name_or_path: str | Path,
    *,
    label: str | None = None,
    sensitive: str | None = None,
    reference: str | None = None,
    group_names: Sequence[str] | None = None,
    positive: str | None = None,
    drop: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> Dataset:
    """A named dataset, from the first source that has it, or the user's own CSV, TSV or Parquet file.

    Parameters
    ----------
    name_or_path : str or Path
        A name of `DATASETS`, or the path of a .csv, .csv.gz, .tsv, .tsv.gz or .parquet file.
    label : str
        Own file: the column to predict, with two distinct values.
    sensitive : str, optional
        Own file: the column that records the group. It never becomes a feature.
    reference : str, optional
        The group that comes last, the paper's group 1. Default: the paper's choice, or the largest.
    group_names : sequence of str, optional
        Own file: the groups there are, when not all (or none) of them are on record.
    positive : str, optional
        Own file: the label value that counts as 1. Default: 1, true or yes, else the larger of the two.
    drop : sequence of str
        Own file: columns that must not become features, for example what the group was derived from.
    data_dir : str or Path, optional
        Folder with the named datasets' files; the environment variable APOD_DATA says the same.
    """
    text = str(name_or_path)
    named = DATASETS.get(text)
    if named is not None:
        own = {"label": label, "sensitive": sensitive, "group_names": group_names, "positive": positive, "drop": drop}
        for name, value in own.items():
            if value:
                raise InputError(f"The dataset {text!r} brings its own label and groups: leave {name} out.")
        dataset = named.load(data_dir)
        return dataset if reference is None else with_reference(dataset, reference)
    if text in CELEBA_GROUPS:
        raise InputError(f"{text!r} is pictures: `apod bench` compares methods on it, load_celeba reads it.")
    if isinstance(name_or_path, str) and not looks_like_a_file(text):
        raise UnknownName("dataset", text, DATASETS)
    columns = FileColumns(label, sensitive, reference, group_names, positive, tuple(drop))
    return load_file(Path(name_or_path), columns)


def with_reference(dataset: Dataset, reference: str) -> Dataset:
    """The same dataset with this group as the reference, which is the last one."""
    names = dataset.group_names
    if reference not in names:
        raise UnknownName("group", reference, names)
    order = [*(name for name in names if name != reference), reference]
    code = np.array([*(order.index(name) for name in names), UNKNOWN], dtype=np.int64)  # -1 stays -1
    return replace(dataset, group_names=tuple(order), groups=code[dataset.groups])
