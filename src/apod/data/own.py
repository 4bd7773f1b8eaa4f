"""A user's own table as a Dataset: which column is what, and everything that can be wrong with it.

Rules
- Label: exactly two distinct values, the positive one by the rule of `apod.data.columns`.
- Groups: the distinct values of the sensitive column, by name, in alphabetical order with the reference group last;
  the reference is the one asked for, else the largest. A missing cell is UNKNOWN. `group_names` fixes the groups and
  their order instead, and is the only source of groups where no column records them.
- Features: all other columns but those in `drop`, by the rules of `apod.data.columns`. One that is the label or the
  group over again is refused. Drop what the group was derived from: an age column where the groups are by age.
- Everything that must be mended is said in one message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from apod.data.columns import FEW_ROWS, Labels, TableColumn, binary_labels, features_of, read_columns, refuse_control
from apod.data.contents import Content, named_pictures, picture_cells, text_cells
from apod.data.dataset import UNKNOWN, Dataset, IntArray, Task, category_codes, check_group_count, is_number
from apod.data.files import read_table, table_name
from apod.data.text_columns import MANY_WORDS, one_spelling
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError, TableProblems, UnknownName

T = TypeVar("T")
OWN_TASK = Task(split=(0.6, 0.2, 0.2))


@dataclass(frozen=True)
class FileColumns:
    """What the user says of their file and its columns."""

    label: str | None
    sensitive: str | None = None
    reference: str | None = None
    group_names: Sequence[str] | None = None
    positive: str | None = None
    drop: tuple[str, ...] = ()
    known: str | None = None  # groups handed in as far as they are on record; the rest may be asked about
    dialect: Dialect = RECOGNISED
    text: tuple[str, ...] = ()  # columns of free text, to be embedded
    picture: str | None = None  # the column of pictures, or of their names
    place: Path | None = None  # the folder or archive that pictures lie in; None: paths go from the table's folder
    columns: tuple[str, ...] | None = None  # the only other features; None: all other columns

    @property
    def recorded(self) -> str | None:
        """The column that records groups."""
        return self.sensitive if self.sensitive is not None else self.known

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that were named, each once."""
        given = (self.label, self.sensitive, self.known, self.picture, *self.text, *self.drop)
        return tuple(dict.fromkeys(name for name in given if name is not None))


@dataclass(frozen=True, eq=False)
class Understood:
    """What was understood of a user's table, and everything that must be mended before it can be used."""

    path: Path
    said: FileColumns
    frame: pd.DataFrame
    columns: tuple[TableColumn, ...]  # besides label, groups and what is dropped
    features: pd.DataFrame
    labels: Labels | None
    groups: IntArray
    group_names: tuple[str, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    contents: tuple[Content, ...] = ()

    def dataset(self) -> Dataset:
        """The rows as a Dataset; TableProblems with all that must be mended."""
        if self.problems or self.labels is None:
            raise TableProblems(self.path.name, self.problems)
        return Dataset(
            name=table_name(self.path),
            own=True,
            features=self.features,
            labels=self.labels.codes,
            groups=self.groups,
            group_names=self.group_names,
            rows=np.arange(len(self.frame), dtype=np.int64),
            label_names=self.labels.names,
            label_values=self.labels.values,
            task=OWN_TASK,
            notes=self.notes,
            known=None if self.said.known is None else self.groups,
            attribute=self.said.recorded or Dataset.attribute,
            contents=self.contents,
        )


def load_file(path: Path, said: FileColumns) -> Dataset:
    """The file's rows as a Dataset, by the rules of this module; TableProblems with all that must be mended."""
    return understand_file(path, said).dataset()


def understand_file(path: Path, said: FileColumns) -> Understood:
    """What was understood of the file; InputError only where there is no table in it."""
    return understand(read_table(path, said.dialect), path, said)


def understand(frame: pd.DataFrame, path: Path, said: FileColumns) -> Understood:
    """What was understood of the table that was read from a file."""
    columns, problems = [str(name) for name in frame.columns if str(name)], Problems()
    _check_roles(said, frame, columns, path.name, problems)
    label, recorded = said.label, said.recorded if said.recorded in columns else None
    labels = None
    if label in columns:
        labels = problems.collect(lambda: read_labels(str(label), frame[label], said.positive))
    groups, names = np.full(len(frame), UNKNOWN), tuple(said.group_names or ())
    if recorded is not None or said.recorded is None:
        read = problems.collect(
            lambda: read_groups(recorded, frame, said.reference, said.group_names, partly=said.sensitive is None)
        )
        groups, names = read if read is not None else (groups, names)
    said, contents = _contents(said, frame, columns, path, problems)
    out = [name for name in columns if name in said.named or (said.columns is not None and name not in said.columns)]
    found = read_columns(frame.drop(columns=out), said.dialect.decimal)
    features, wrong = features_of(found, needed=not contents)
    features = features.set_axis(frame.index, axis=0) if features.empty else features
    problems.found += wrong if not problems.found or any(column.problems for column in found) else []
    if labels is not None:
        problems.found += copies(features, f"the label {label!r}", labels.codes)
    if recorded is not None:
        problems.found += copies(features, repr(recorded), groups)
    elif said.recorded is None:
        problems.found += _unnamed_groups(features, names)
    notes = [*(f"Column {name!r} is left out, as asked." for name in said.drop), *(n for c in found for n in c.notes)]
    return Understood(
        path, said, frame, tuple(found), features, labels, groups, names, tuple(notes), tuple(problems.found), contents
    )


def _contents(
    said: FileColumns, frame: pd.DataFrame, columns: list[str], path: Path, problems: Problems
) -> tuple[FileColumns, tuple[Content, ...]]:
    """The columns of pictures and texts; what was said, with the column that names pictures where that was found."""
    found: list[Content] = []
    if said.place is not None and (said.picture is None or said.picture in columns):
        place, rest = said.place, frame.drop(columns=[name for name in said.named if name in columns])
        naming = frame if said.picture is not None else rest
        named = problems.collect(lambda: named_pictures(place, naming, said.picture))
        if named is not None:
            found.append(Content(named[0], "picture", named[1]))
            said = replace(said, picture=named[0])
    elif said.picture in columns:
        own = str(said.picture)
        cells = problems.collect(lambda: picture_cells(own, frame[own], path if path.is_dir() else path.parent))
        found += [] if cells is None else [Content(own, "picture", cells)]
    found += [Content(name, "text", text_cells(frame[name])) for name in said.text if name in columns]
    return said, tuple(found)


def _check_roles(said: FileColumns, frame: pd.DataFrame, columns: list[str], file: str, problems: Problems) -> None:
    """Collect what is wrong with the columns that were named: missing, misspelled, named twice."""
    if said.label is None:
        two = [name for name in columns if frame[name].nunique() == 2]
        shown = f"those with two values are {_some(two)}" if two else f"it has {_some(columns)}"
        problems.add(f"Say which column of {file} is the label (--label): {shown}.")
    for name in (*said.named, *(said.columns or ())):
        problems.collect(partial(require_column, name, columns, file))
    contents = [*said.text, *([said.picture] if said.picture else [])]
    for name in contents:
        if name in (said.label, said.sensitive, said.known, *said.drop) or contents.count(name) > 1:
            problems.add(f"Column {name!r} is named for two purposes: name it once.")
    if said.sensitive is not None and said.known is not None:
        problems.add("Give --sensitive (it answers only when asked) or --known-groups (you hand it in), not both.")
    if said.label is not None and (said.label == said.recorded or said.label in said.drop):
        other = "the sensitive attribute" if said.label == said.recorded else "left out"
        problems.add(f"Column {said.label!r} cannot be both the label and {other}.")


def holds_groups(values: pd.Series[Any], groups: Sequence[str]) -> bool:
    """Whether a column of texts holds nothing but group names: the sensitive attribute itself."""
    if pd.api.types.is_numeric_dtype(values):
        return False
    found = {str(value).strip().casefold() for value in values.dropna().unique()}
    return bool(found) and found <= {group.casefold() for group in groups}


def _unnamed_groups(features: pd.DataFrame, names: Sequence[str]) -> list[str]:
    found = [str(name) for name in features.columns if names and holds_groups(features[name], names)]
    return [
        f"The column {name!r} holds the groups themselves: name it with --known-groups or --sensitive, or --drop it."
        for name in found
    ]


class Problems:
    """Collects what is wrong instead of stopping at the first."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        """Keep one."""
        self.found.append(problem)

    def settle(self, what: str) -> None:
        """TableProblems with all that was found, where there is any; `what` names the table."""
        if self.found:
            raise TableProblems(what, self.found)

    def collect(self, read: Callable[[], T]) -> T | None:
        """What `read` gives; None where it raises InputError, whose message is kept."""
        try:
            return read()
        except InputError as error:
            self.found.append(str(error))
            return None


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
        column = column.map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
        numbers = pd.to_numeric(column, errors="coerce")
        column = column if numbers.isna().any() else numbers  # so that 1 and 1.0 are one label
        _refuse_variants(f"Label column {name!r}", column)
    return binary_labels(f"Label column {name!r}", column, positive)


def read_groups(
    name: str | None,
    frame: pd.DataFrame,
    reference: str | None,
    given: Sequence[str] | None,
    partly: bool = False,
) -> tuple[IntArray, tuple[str, ...]]:
    """Group codes and names. Messages say nothing of any row: who belongs where is nobody's business.

    Of groups that are given by name, not all need be in a column that records only some people's (`partly`).
    """
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
    if name is not None and len(found) < 2 and not (partly and given is not None):
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


def _refuse_variants(what: str, column: pd.Series[Any]) -> None:
    """InputError where texts differ by capitals or blanks alone; it does not repeat them: they may be groups."""
    cells = [cell for cell in column.unique() if isinstance(cell, str)]
    alike = len(cells) - len({one_spelling(cell) for cell in cells})
    if alike and len(cells) <= MANY_WORDS:
        raise InputError(
            f"{what} spells the same value in more than one way ({len(cells)} spellings, {len(cells) - alike} without "
            "capitals and blanks): write each value one way."
        )


def _recorded_groups(name: str, column: pd.Series[Any]) -> tuple[IntArray, list[str]]:
    codes, cells = category_codes(name, column)
    spelled = [cell.strip() for cell in cells]
    found = list(dict.fromkeys(cell for cell in spelled if cell))
    place = np.array([*(found.index(cell) if cell else UNKNOWN for cell in spelled), UNKNOWN], dtype=np.int64)
    codes = place[codes]
    known = int((codes >= 0).sum())
    refuse_control(f"Column {name!r}", found)
    _refuse_variants(f"Column {name!r}", pd.Series(found, dtype=object))
    if len(found) > max(FEW_ROWS, known // 2):
        raise InputError(f"Column {name!r} has {len(found)} different groups in {known} rows: name a column of groups.")
    return codes, found


def copies(features: pd.DataFrame, what: str, codes: IntArray, least: int = 0) -> list[str]:
    """The features that are the label or the group over again, however their values are spelled, a problem each.

    `codes` (n,), -1 where nothing is known; up to `least` known rows may agree by chance.
    """
    known = codes >= 0
    if known.sum() <= max(least, FEW_ROWS):
        return []
    size, found = int(codes.max()) + 1, []
    for name in map(str, features.columns):
        own = pd.factorize(features[name])[0]
        both = known & (own >= 0)
        values, seen = np.unique(own[both]), np.unique(codes[both])
        if len(values) != len(seen) or len(values) < 2:
            continue
        if len(np.unique(own[both] * size + codes[both])) == len(values):
            remedy = "leave it out of X" if what in ("y", "sensitive_features") else f"leave it out (--drop {name})"
            found.append(f"Column {name!r} is {what} once more, row by row: {remedy}.")
    return found


def refuse_copies(features: pd.DataFrame, what: str, codes: IntArray, least: int = 0) -> None:
    """InputError where a feature is the label or the group over again."""
    found = copies(features, what, codes, least)
    if found:
        raise TableProblems("The table", found)
