"""A campaign's pool from arrays, or from embeddings: a .npy matrix, a folder of Parquet files with an embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from apod.campaign.attributes import Answer, Groups, attributes_of, group_names_of, joined, known_of, told_groups
from apod.campaign.create import Pool
from apod.campaign.materials import scores_from, without_scores
from apod.campaign.settings import GROUP_NAME, Attribute
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
    groups: Groups | None,
    *,
    sensitive: str | None = None,
    known_groups: str | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
    show: Sequence[str] | None = None,
    positive: str | None = None,
    gold: Mapping[int, Answer] | None = None,
) -> Pool:
    """The pool of a matrix (`label`, `known_groups`: .npy files beside it) or a Parquet folder (columns of it)."""
    if id_column is not None or show is not None:
        raise InputError("Embeddings have no columns to show and rows go by their number: leave out ids and columns.")
    if is_matrix(path):
        sensitive = None  # a file beside the matrix is no feature anyway
    left_out = tuple(dict.fromkeys([*drop, *(sensitive or "").split(",")])) if sensitive else tuple(drop)
    said = FileColumns(label=label, positive=positive, drop=left_out, known=known_groups, **told_groups(groups))
    dataset = load_embedded(path, said)
    matrix = dataset.features.to_numpy()
    coded = Labels(dataset.labels, dataset.label_names, dataset.label_values)
    return Pool(
        features=matrix,
        labels=dataset.labels,
        coded=coded,
        gold=gold,
        known=known_of(dataset),
        attributes=attributes_of(dataset, groups),
        embedding=True,
        roles=None if is_matrix(path) else {"label": label, "known": known_groups, "drop": list(left_out)},
    )


def array_pool(
    features: Any,
    labels: Any,
    groups: Groups | None,
    known_groups: Any = None,
    score: Any = None,
    display: pd.DataFrame | None = None,
    **other: Any,
) -> Pool:
    """The pool of arrays; `known_groups` (n,) names groups as far as they are known, missing (None, NaN) elsewhere.

    With several attributes, `groups` has the names of each, `known_groups` a column of each that is known.
    score: probabilities by the model to correct, one per row, or the column of the features that holds them.
    """
    by_name = isinstance(groups, Mapping) or isinstance(known_groups, Mapping | pd.DataFrame)
    columns = _columns(known_groups, len(features)) if by_name else {GROUP_NAME: _known(known_groups, len(features))}
    given: Mapping[str, Sequence[str]] = groups if isinstance(groups, Mapping) else {}
    if isinstance(groups, Sequence) and not by_name:
        given = {GROUP_NAME: groups}
    attributes = tuple(
        Attribute(name, group_names_of(given.get(name) or sorted(set(columns.get(name, {}).values()))))
        for name in dict.fromkeys([*given, *columns])
    )
    known: dict[int, Answer] = dict(columns.get(attributes[0].name, {})) if len(attributes) == 1 else joined(columns)
    scores = scores_from(score, features, other.get("show"))
    seen, shown = (without_scores(frame, scores) for frame in (features, display))
    return Pool(seen, labels, shown, known=known, attributes=attributes, scores=scores, **other)


def _columns(known_groups: Any, rows: int) -> dict[str, dict[int, str]]:
    """What is known of every attribute, by its name."""
    if known_groups is not None and not isinstance(known_groups, Mapping | pd.DataFrame):
        raise InputError("Say which attribute the known groups are of: known_groups={'sex': [...], 'race': [...]}.")
    named = {} if known_groups is None else known_groups
    return {str(name): _known(named[name], rows) for name in named}


def _known(cells: Any, rows: int) -> dict[int, str]:
    """The groups that are known, by row."""
    found = pd.Series([] if cells is None else list(cells), dtype=object)
    if cells is not None and len(found) != rows:
        raise InputError(f"known_groups has {len(found)} rows and X has {rows}: pass one per row.")
    texts = found[found.notna()].astype(str).str.strip()
    return {row: group for row, group in zip(texts.index.tolist(), texts, strict=True) if group}
