"""Embeddings a user brings, with labels beside them: mapped or streamed from storage, never all in memory.

Either a .npy matrix (or a folder of .npy parts) with .npy files of labels and groups, or a folder of Parquet files, of
which the label and the group are columns and all other columns are the embedding: numbers, or one column of lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from apod.data.arrays import Stored, open_array, open_parts
from apod.data.blocks import BLOCK, blocks, empty_matrix
from apod.data.dataset import Dataset, Grouping
from apod.data.files import PARQUET_SUFFIXES, numbered_files, table_name
from apod.data.own import OWN_TASK, FileColumns, Problems, read_groupings, read_labels, require_column
from apod.errors import InputError

Column = npt.NDArray[Any]


def is_matrix(path: Path) -> bool:
    """Whether this is a .npy file or a folder of them."""
    return path.suffix.lower() == ".npy" or (path.is_dir() and any(path.glob("*.npy")))


def is_parquet_folder(path: Path) -> bool:
    """Whether this is a folder of Parquet files."""
    return path.is_dir() and any(file.name.lower().endswith(PARQUET_SUFFIXES) for file in path.iterdir())


def load_embedded(path: Path, said: FileColumns) -> Dataset:
    """The rows of a matrix or of a Parquet folder as a Dataset whose features are the embedding, mapped.

    For a matrix, `label`, `sensitive` and `known` name .npy files with one value per row.
    """
    if said.weight is not None:
        raise InputError("Weights are a column of a table: leave --weight out, or hand in a table.")
    said = said.resolved(lambda text: is_matrix(path) and Path(text).exists())
    if is_matrix(path):
        matrix, label, columns = _from_arrays(path, said)
    else:
        matrix, label, columns = _from_parquet(path, said)
    named = pd.DataFrame({"label": label, **columns})
    labels = read_labels("label", named["label"], said.positive)
    groupings, problems = _groupings(said, named, list(columns))
    if problems.found:
        raise InputError(" ".join(problems.found))
    first = groupings[0]
    return Dataset(
        name=table_name(path).removesuffix(".npy"),
        own=True,
        embedded=True,
        features=pd.DataFrame(matrix, columns=[f"x{i}" for i in range(matrix.shape[1])], copy=False),
        labels=labels.codes,
        groups=first.codes,
        group_names=first.names,
        rows=np.arange(len(named), dtype=np.int64),
        label_names=labels.names,
        label_values=labels.values,
        task=replace(OWN_TASK, embedding=matrix.shape[1]),
        notes=("The columns are embeddings, as given.",),
        known=first.known,
        attribute=first.name,
        further=groupings[1:],
    )


def _groupings(said: FileColumns, frame: pd.DataFrame, columns: list[str]) -> tuple[tuple[Grouping, ...], Problems]:
    """The groups of the columns that were read beside the embedding, which have names of their own."""
    problems, own = Problems(), said.recorded_in(columns[0], columns[1:]) if columns else said
    return read_groupings(own, frame, columns, problems), problems


def _attribute_names(said: FileColumns) -> dict[str, str]:
    """What the attributes that are recorded are called, and their columns or files: one alone is the group."""
    recorded = [name for name in (said.recorded, *said.further) if name is not None]
    return {"group" if len(recorded) == 1 else Path(name).stem: name for name in recorded}


def _from_arrays(path: Path, said: FileColumns) -> tuple[Stored, Column, dict[str, Column]]:
    if said.label is None:
        raise InputError(f"Say which .npy file holds the labels of {path.name}: --label labels.npy.")
    if said.drop:
        raise InputError("A matrix has no named columns to drop: leave --drop out.")
    parts = open_parts(path)
    label = _column(said.label, "labels", len(parts))
    groups = {name: _column(file, "groups", len(parts)) for name, file in _attribute_names(said).items()}
    opened = [part.open() for part in parts.parts]
    if len(opened) == 1:
        return opened[0], label, groups
    matrix = empty_matrix(len(parts), opened[0])
    for part, rows in zip(parts.parts, opened, strict=True):
        for here, block in blocks(rows):
            matrix[part.start + here.start : part.start + here.stop] = block
    return matrix, label, groups


def _column(file: str, what: str, rows: int) -> Column:
    column = open_array(file, what)
    if column.shape != (rows,):
        raise InputError(f"{file} has shape {column.shape} and the embeddings {rows} rows: pass one value per row.")
    return column


def _from_parquet(folder: Path, said: FileColumns) -> tuple[Stored, Column, dict[str, Column]]:
    files = numbered_files(folder, PARQUET_SUFFIXES)
    try:
        schemas = [parquet.read_schema(file) for file in files]
        rows = [parquet.read_metadata(file).num_rows for file in files]
    except (OSError, pa.ArrowException):
        raise InputError(f"A file of {folder} is not a Parquet file: write it again.") from None
    names = [str(name) for name in schemas[0].names]
    for file, schema in zip(files, schemas, strict=True):
        if [str(name) for name in schema.names] != names:
            raise InputError(f"{file} has other columns than {files[0].name}: all parts of a table must be alike.")
    if said.label is None:
        raise InputError(f"Say which column of {folder.name} is the label (--label).")
    for name in said.named:
        require_column(name, names, folder.name)
    columns = [name for name in names if name not in said.named and name.lower() != "id"]
    width = _width(schemas[0], columns, folder)
    matrix: Stored = empty_matrix(sum(rows), np.empty((0, width), dtype=np.float32))
    attributes = _attribute_names(said)
    beside: dict[str, list[Column]] = {name: [] for name in (said.label, *attributes.values())}
    start = 0
    for batch in _batches(files, [*columns, *beside]):
        matrix[start : start + len(batch)] = _numbers(batch, columns, width, start)
        start += len(batch)
        for name, found in beside.items():
            found.append(batch.column(name).to_pandas().to_numpy())
    groups = {name: np.concatenate(beside[column]) for name, column in attributes.items()}
    return matrix, np.concatenate(beside[said.label]), groups


def _batches(files: list[Path], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for file in files:
        try:
            yield from parquet.ParquetFile(file).iter_batches(BLOCK, columns=columns, use_threads=False)
        except (OSError, pa.ArrowException):
            raise InputError(f"{file} cannot be read to its end: it is cut off or damaged; write it again.") from None


def _width(schema: pa.Schema, columns: list[str], folder: Path) -> int:
    """How many numbers an embedding has; InputError where columns are neither numbers nor one list of them."""
    kinds = [schema.field(name).type for name in columns]
    if len(kinds) == 1 and pa.types.is_fixed_size_list(kinds[0]):
        return int(kinds[0].list_size)
    for name, kind in zip(columns, kinds, strict=True):
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise InputError(
                f"Column {name!r} of {folder.name} is {kind}, no number: drop it (--drop), or let a body be trained on "
                "the table (--body contrastive). An embedding in one column must be a list of fixed size."
            )
    if not columns:
        raise InputError(f"{folder.name} has no column beside the label: there is no embedding in it.")
    return len(columns)


def _numbers(batch: pa.RecordBatch, columns: list[str], width: int, start: int) -> Stored:
    """(b, width) float32 of a batch's embedding; a missing cell is refused with its row."""
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(
                f"Column {name!r} has no value in row {row} (counting from 0): fill it in or drop the row."
            )
    if len(columns) == 1 and pa.types.is_fixed_size_list(batch.column(columns[0]).type):
        flat = batch.column(columns[0]).flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat, dtype=np.float32).reshape(-1, width)
    cells = [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
    return np.stack([cell.astype(np.float32) for cell in cells], axis=1)
