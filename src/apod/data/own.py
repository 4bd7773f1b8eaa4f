"""A user's own table as a Dataset: which column is what, and everything that can be wrong with it.

Rules
- Label: exactly two distinct values, the positive one by the rule of `apod.data.labels`.
- Groups: the distinct values of the sensitive column, by name, in alphabetical order with the reference group last;
  the reference is the one asked for, else the largest. A missing cell is UNKNOWN. `group_names` fixes the groups and
  their order instead, and is the only source of groups where no column records them.
- Features: all other columns. A column that holds nothing but numbers, as such or as text, is a number column and
  must have no gap; one with mostly numbers and some text is refused; any other is a category, its missing cells the
  category "missing".
- Left out, with a note: identifiers (a column named id, or text that differs in every row), constant columns, and
  the columns in `drop`. Drop what the group was derived from: an age column where the groups are by age.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from apod.data.dataset import UNKNOWN, Dataset, IntArray, Task, check_group_count
from apod.data.encode import MAX_CATEGORIES
from apod.data.files import read_table, table_name
from apod.data.frames import as_frame, category_codes, is_number
from apod.data.labels import Labels, binary_labels, refuse_control
from apod.errors import InputError, UnknownName

MOSTLY = 0.9  # share of numbers from which text in a column is a slip, not a category
FEW_ROWS = 20  # up to here, values that differ in every row need not be identifiers
OWN_TASK = Task(split=(0.6, 0.2, 0.2))


@dataclass(frozen=True)
class FileColumns:
    """What the user says of the columns of their file."""

    label: str | None
    sensitive: str | None = None
    reference: str | None = None
    group_names: Sequence[str] | None = None
    positive: str | None = None
    drop: tuple[str, ...] = ()


def load_file(path: Path, said: FileColumns) -> Dataset:
    """The file's rows as a Dataset, by the rules of this module."""
    frame = read_table(path)
    columns = [str(name) for name in frame.columns if str(name)]
    label, sensitive, drop = said.label, said.sensitive, said.drop
    if label is None:
        raise InputError(f"Say which column of {path.name} is the label (--label): {_some(columns)}.")
    for name in (label, *([] if sensitive is None else [sensitive]), *drop):
        require_column(name, columns, path.name)
    if label == sensitive or label in drop:
        other = "the sensitive attribute" if label == sensitive else "left out"
        raise InputError(f"Column {label!r} cannot be both the label and {other}.")
    labels = read_labels(label, frame[label], said.positive)
    groups, names = read_groups(sensitive, frame, said.reference, said.group_names)
    features, notes = read_features(
        frame.drop(columns=[name for name in {label, sensitive, *drop} if name is not None])
    )
    if sensitive is not None:
        refuse_copies(features, sensitive, groups)
    return Dataset(
        name=table_name(path),
        own=True,
        features=features,
        labels=labels.codes,
        groups=groups,
        group_names=names,
        rows=np.arange(len(frame), dtype=np.int64),
        label_names=labels.names,
        label_values=labels.values,
        task=OWN_TASK,
        notes=(*(f"Column {name!r} is left out, as asked." for name in drop), *notes),
    )


def require_column(name: str, columns: Sequence[str], file: str) -> None:
    """InputError where a file has no such column, with the nearest one."""
    if name not in columns:
        near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {_some(columns)}."
        raise InputError(f"There is no column {name!r} in {file}: {hint}")


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _row(bad: Any) -> str:
    return f"data row {int(np.flatnonzero(np.asarray(bad))[0]) + 1}"


def read_labels(name: str, column: pd.Series[Any], positive: str | None) -> Labels:
    """The labels of a file's column; text that spells numbers is numbers."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise InputError(
            f"Label column {name!r} has {int(missing.sum())} missing cell(s), the first in {_row(missing)}: "
            "fill them in or remove those rows."
        )
    if not is_number(column):
        numbers = _numbers_in(column)
        column = column if numbers.isna().any() else numbers  # so that 1 and 1.0 are one label
    return binary_labels(f"Label column {name!r}", column, positive)


def read_groups(
    name: str | None, frame: pd.DataFrame, reference: str | None, given: Sequence[str] | None
) -> tuple[IntArray, tuple[str, ...]]:
    """Group codes and names. Messages say nothing of any row: who belongs where is nobody's business."""
    if given is not None and (len(given) < 2 or len(set(given)) < len(given)):
        raise InputError("Name at least two groups, each once.")
    refuse_control("The list of groups", given or ())
    codes, found = (np.full(len(frame), UNKNOWN), []) if name is None else _recorded_groups(name, frame[name])
    counts = {value: int((codes == i).sum()) for i, value in enumerate(found)}
    names = list(given) if given is not None else sorted(found)
    strangers = [value for value in found if value not in names]
    if strangers:
        rows = sum(counts[value] for value in strangers)
        raise InputError(f"Column {name!r} has {rows} row(s) with a group other than {_some(names)}: name all groups.")
    if name is not None and len(found) < 2:
        raise InputError(f"Column {name!r} records {len(found)} group(s): there must be at least two to compare.")
    check_group_count(len(names))
    if reference is not None and reference not in names:
        raise UnknownName("group", reference, names) if names else InputError("A reference group needs groups.")
    if reference is None and given is None and names:
        reference = max(names, key=lambda value: counts[value])
    if reference is not None:
        names = [*(value for value in names if value != reference), reference]
    place = np.array([*(names.index(value) for value in found), UNKNOWN], dtype=np.int64)  # -1 stays -1
    return place[codes], tuple(names)


def _recorded_groups(name: str, column: pd.Series[Any]) -> tuple[IntArray, list[str]]:
    codes, cells = category_codes(name, column)
    spelled = [cell.strip() for cell in cells]
    found = list(dict.fromkeys(cell for cell in spelled if cell))
    place = np.array([*(found.index(cell) if cell else UNKNOWN for cell in spelled), UNKNOWN], dtype=np.int64)
    codes = place[codes]
    known = int((codes >= 0).sum())
    refuse_control(f"Column {name!r}", found)
    if len(found) > max(FEW_ROWS, known // 2):
        raise InputError(f"Column {name!r} has {len(found)} different groups in {known} rows: name a column of groups.")
    return codes, found


def refuse_copies(features: pd.DataFrame, sensitive: str, groups: IntArray) -> None:
    """Refuse a feature that is the sensitive column over again, however its values are spelled."""
    known = groups != UNKNOWN
    if known.sum() <= FEW_ROWS:  # so few agree by chance
        return
    size = int(groups.max()) + 1
    for name in map(str, features.columns):
        codes = pd.factorize(features[name])[0]
        both = known & (codes >= 0)
        values, groups_seen = np.unique(codes[both]), np.unique(groups[both])
        if len(values) != len(groups_seen) or len(values) < 2:
            continue
        if len(np.unique(codes[both] * size + groups[both])) == len(values):
            raise InputError(
                f"Column {name!r} is {sensitive!r} once more, row by row: leave it out of the features (--drop {name})."
            )


def read_features(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The columns that are features, as numbers and categories, and notes on those left out."""
    kept: dict[str, pd.Series[Any]] = {}
    notes: list[str] = []
    for name in map(str, frame.columns):
        column = frame[name]
        if _is_row_number(name, column):
            continue
        if name.lower() == "id":
            notes.append(_identifier_note(name, column))
            continue
        typed = _typed(name, column)
        distinct = int(typed.nunique(dropna=False))
        if distinct == 1:
            notes.append(f"Column {name!r} is the same in every row: not a feature.")
        elif not is_number(typed) and distinct == len(typed) > FEW_ROWS:
            notes.append(f"Column {name!r} differs in every row, like an identifier: not a feature.")
        else:
            kept[name] = typed
            if not is_number(typed) and distinct > MAX_CATEGORIES:
                notes.append(
                    f"Column {name!r} has {distinct} categories: only the {MAX_CATEGORIES} most frequent count."
                )
    if not kept:
        raise InputError("No column is left to learn from: besides label and groups the table needs features.")
    return pd.DataFrame(kept), notes


def _is_row_number(name: str, column: pd.Series[Any]) -> bool:
    """Whether this is the column of row numbers that pandas writes; another without a name is refused."""
    if name and not name.startswith(("Unnamed: ", "__index_level_")):
        return False
    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.notna().all() and numbers.is_unique:
        return True
    if name:
        return False
    raise InputError("A column has no name: name it in the header.")


def _identifier_note(name: str, column: pd.Series[Any]) -> str:
    repeated = column.duplicated().to_numpy()
    if repeated.any():
        raise InputError(
            f"Column {name!r} repeats an identifier in {_row(repeated)} ({int(repeated.sum())} in all): "
            "keep one row per person, or rename the column."
        )
    return f"Column {name!r} is an identifier: not a feature."


def _typed(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """The column as finite numbers or as categories; InputError where it is neither."""
    if not is_number(column):
        column = as_frame(column.to_frame())[name]
    if not (is_number(column) or isinstance(column.dtype, pd.CategoricalDtype)):
        column = _parsed(name, column)
    if not is_number(column):
        return column.astype("category")
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        what = "a missing value" if np.isnan(values[bad][0]) else "an infinite value"
        raise InputError(
            f"Number column {name!r} has {what} (NaN or inf) in {_row(bad)} ({int(bad.sum())} in all): "
            "fill in numbers or remove those rows."
        )
    return column


def _parsed(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """A text column as numbers where it holds nothing else, with NaN for its missing cells."""
    numbers = _numbers_in(column)
    filled = column.notna().to_numpy()
    text = filled & numbers.isna().to_numpy()
    if filled.any() and not text.any():
        return numbers
    if filled.any() and text.sum() <= (1 - MOSTLY) * filled.sum():
        cell = str(column[text].iloc[0])
        raise InputError(
            f"Number column {name!r} has text in {_row(text)}: {cell[:40]!r} ({int(text.sum())} in all). "
            "Correct it; if the column is a category, spell all its cells as words; or drop the column."
        )
    return column


def _numbers_in(column: pd.Series[Any]) -> pd.Series[Any]:
    """The number each cell spells, NaN where it spells none; each distinct cell is read once."""
    codes, cells = pd.factorize(column)
    numbers = pd.to_numeric(pd.Series(np.asarray(cells, dtype=object)), errors="coerce")
    if (codes < 0).any() or numbers.isna().any():
        numbers = numbers.astype("float64")
    values = numbers.to_numpy()[codes] if len(cells) else np.full(len(codes), np.nan)
    return pd.Series(np.where(codes < 0, np.nan, values) if (codes < 0).any() else values, index=column.index)
