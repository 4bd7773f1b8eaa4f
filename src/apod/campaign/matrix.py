"""A campaign's pool from embeddings: a .npy matrix, or a folder of Parquet files whose columns are an embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from apod.campaign.create import Pool, group_names_of, known_of
from apod.data.columns import Labels
from apod.data.embeddings import is_matrix, is_parquet_folder, load_embedded
from apod.data.own import FileColumns
from apod.errors import InputError


def is_embedding(path: Path, options: Mapping[str, object]) -> bool:
    """Whether the rows are embeddings: a matrix always, a folder of Parquet files where the options say so."""
    return is_matrix(path) or (options.get("body") == "precomputed" and is_parquet_folder(path))


def embedding_pool(
    path: Path,
    label: str,
    groups: Sequence[str] | None,
    *,
    sensitive: str | None = None,
    known_groups: str | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
    show: Sequence[str] | None = None,
    positive: str | None = None,
    gold: Mapping[int, str] | None = None,
) -> Pool:
    """The pool of a matrix (`label`, `known_groups`: .npy files beside it) or a Parquet folder (columns of it)."""
    if id_column is not None or show is not None:
        raise InputError("Embeddings have no columns to show and rows go by their number: leave out ids and columns.")
    if is_matrix(path):
        sensitive = None  # a file beside the matrix is no feature anyway
    left_out = tuple(dict.fromkeys([*drop, *([sensitive] if sensitive else [])]))
    names = None if groups is None else tuple(groups)
    said = FileColumns(label=label, group_names=names, positive=positive, drop=left_out, known=known_groups)
    dataset = load_embedded(path, said)
    matrix = dataset.features.to_numpy()
    coded = Labels(dataset.labels, dataset.label_names, dataset.label_values)
    return Pool(
        features=matrix,
        labels=dataset.labels,
        coded=coded,
        gold=gold,
        known=known_of(dataset),
        groups=group_names_of(dataset.group_names),
        embedding=True,
        roles=None if is_matrix(path) else {"label": label, "known": known_groups, "drop": list(left_out)},
    )
