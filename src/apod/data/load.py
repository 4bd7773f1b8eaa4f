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
from apod.data.text_files import dialect
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
    known_groups: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    data_dir: str | Path | None = None,
) -> Dataset:
    """A named dataset, from the first source that has it, or the user's own table.

    Parameters
    ----------
    name_or_path : str or Path
        A name of `DATASETS`, or the path of a CSV or TSV file (also packed by gzip or alone in a zip archive), or of a
        Parquet, Feather, Excel or JSON Lines file.
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
    known_groups : str, optional
        Own file: the column that records some people's groups, which are handed in: they are answers that cost nothing,
        and its empty cells may be asked about.
    sep, decimal, encoding : str, optional
        Own text file: the separator of cells, the decimal sign and the encoding, where they are not recognised.
    data_dir : str or Path, optional
        Folder with the named datasets' files; the environment variable APOD_DATA says the same.
    """
    columns = FileColumns(
        label,
        sensitive,
        reference,
        group_names,
        positive,
        tuple(drop),
        known_groups,
        dialect(sep, decimal, encoding),
    )
    return load_data(name_or_path, columns, data_dir)


def load_data(name_or_path: str | Path, said: FileColumns, data_dir: str | Path | None = None) -> Dataset:
    """The dataset of this name, or of the file at this path, whose columns are what was said."""
    text = str(name_or_path)
    named = DATASETS.get(text)
    if named is not None:
        _refuse_columns(text, said)
        dataset = named.load(data_dir)
        return dataset if said.reference is None else with_reference(dataset, said.reference)
    if text in CELEBA_GROUPS:
        raise InputError(f"{text!r} is pictures: `apod bench` compares methods on it, load_celeba reads it.")
    if isinstance(name_or_path, str) and not looks_like_a_file(text):
        raise UnknownName("dataset", text, DATASETS)
    return load_file(Path(name_or_path), said)


def _refuse_columns(name: str, said: FileColumns) -> None:
    given = {"label": said.label, "sensitive": said.sensitive, "group_names": said.group_names}
    given |= {"positive": said.positive, "drop": said.drop, "known_groups": said.known}
    for what, value in given.items():
        if value:
            raise InputError(f"The dataset {name!r} brings its own label and groups: leave {what} out.")


def with_reference(dataset: Dataset, reference: str) -> Dataset:
    """The same dataset with this group as the reference, which is the last one."""
    names = dataset.group_names
    if reference not in names:
        raise UnknownName("group", reference, names)
    order = [*(name for name in names if name != reference), reference]
    code = np.array([*(order.index(name) for name in names), UNKNOWN], dtype=np.int64)  # -1 stays -1
    return replace(dataset, group_names=tuple(order), groups=code[dataset.groups])
