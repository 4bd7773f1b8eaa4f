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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.columns import Labels, TableColumn, features_of, read_columns, table_labels
from apod.data.contents import Content, named_pictures, picture_cells, text_cells
from apod.data.dataset import UNKNOWN, Dataset, Grouping, IntArray, Task, is_number
from apod.data.files import read_table, table_name
from apod.data.groups import Attribute, copies, read_groups, refuse_variants, same_twice, some_names
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError, TableProblems, UnknownName
from apod.fairness.counts import checked_weights

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
    weight: str | None = None  # the column that says how many people a row stands for
    further: tuple[str, ...] = ()  # columns of further attributes, recorded or handed in as the first is
    groups_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # group names by attribute

    @property
    def recorded(self) -> str | None:
        """The column that records groups."""
        return self.sensitive if self.sensitive is not None else self.known

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that were named, each once."""
        given = (
            self.label,
            self.sensitive,
            self.known,
            *self.further,
            self.picture,
            *self.text,
            *self.drop,
            self.weight,
        )
        return tuple(dict.fromkeys(name for name in given if name is not None))

    def resolved(self, is_one: Callable[[str], bool]) -> FileColumns:
        """The same with several attributes, comma-separated, told apart; what `is_one` column is not split."""
        text = self.recorded
        if text is None or "," not in text or is_one(text):
            return self
        first, *further = [part.strip() for part in text.split(",") if part.strip()] or [text]
        return self.recorded_in(first, further)

    def recorded_in(self, first: str, further: Sequence[str]) -> FileColumns:
        """The same with the attributes, recorded or handed in as before, in these columns."""
        if self.sensitive is not None:
            return replace(self, sensitive=first, further=tuple(further))
        return replace(self, known=first, further=tuple(further))

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The sensitive attributes: those of columns first, then those that only their groups' names are told of."""
        recorded = [name for name in (self.recorded, *self.further) if name is not None]
        asked = [name for name in self.groups_of if name not in recorded]
        if not recorded and not asked:
            return (Attribute(Dataset.attribute, None, self.group_names),)
        first = self.group_names if recorded and recorded[0] not in self.groups_of else None
        return tuple(
            Attribute(name, name if name in recorded else None, self.groups_of.get(name, None if place else first))
            for place, name in enumerate([*recorded, *asked])
        )


@dataclass(frozen=True, eq=False)
class Understood:
    """What was understood of a user's table, and everything that must be mended before it can be used."""

    path: Path
    said: FileColumns
    frame: pd.DataFrame
    columns: tuple[TableColumn, ...]  # besides label, groups and what is dropped
    features: pd.DataFrame
    labels: Labels | None
    groupings: tuple[Grouping, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    contents: tuple[Content, ...] = ()
    weights: npt.NDArray[np.float64] | None = None

    @property
    def groups(self) -> IntArray:
        """(n,) of the first attribute."""
        return self.groupings[0].codes

    @property
    def group_names(self) -> tuple[str, ...]:
        """Of the first attribute."""
        return self.groupings[0].names

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
            known=self.groupings[0].known,
            attribute=self.groupings[0].name,
            contents=self.contents,
            further=self.groupings[1:],
            weights=self.weights,
            weight=self.said.weight,
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
    said = said.resolved(lambda name: name in columns)
    _check_roles(said, frame, columns, path.name, problems)
    label, labels = said.label, None
    if label in columns:
        labels = problems.collect(lambda: read_labels(str(label), frame[label], said.positive))
    groupings = read_groupings(said, frame, columns, problems)
    weights = problems.collect(lambda: _read_weights(said, frame)) if said.weight in columns else None
    said, contents = _contents(said, frame, columns, path, problems)
    out = [name for name in columns if name in said.named or (said.columns is not None and name not in said.columns)]
    found = read_columns(frame.drop(columns=out), said.dialect.decimal)
    features, wrong = features_of(found, needed=not contents)
    features = features.set_axis(frame.index, axis=0) if features.empty else features
    problems.found += wrong if not problems.found or any(column.problems for column in found) else []
    if labels is not None:
        problems.found += copies(features, f"the label {label!r}", labels.codes)
    for attribute, grouping in zip(said.attributes, groupings, strict=True):
        if attribute.column in columns:
            problems.found += copies(features, repr(attribute.name), grouping.codes)
        elif attribute.column is None:
            problems.found += _unnamed_groups(features, grouping.names)
    notes = [*(f"Column {name!r} is left out, as asked." for name in said.drop), *(n for c in found for n in c.notes)]
    return Understood(
        path,
        said,
        frame,
        tuple(found),
        features,
        labels,
        groupings,
        tuple(notes),
        tuple(problems.found),
        contents,
        weights,
    )


def _read_weights(said: FileColumns, frame: pd.DataFrame) -> npt.NDArray[np.float64] | None:
    """How many people every row stands for."""
    if said.weight in (said.label, said.recorded, *said.further, *said.drop, *said.text, said.picture):
        raise InputError(f"Column {said.weight!r} is named for two purposes: name it once.")
    own, what = frame[said.weight], f"Column {said.weight!r}"
    found, _ = features_of(read_columns(own.to_frame(), said.dialect.decimal), needed=False)
    if found.shape[1] != 1 or not is_number(found.iloc[:, 0]):
        raise InputError(f"{what} holds something that is no number: give every row a weight from 0 up.")
    return checked_weights(what, found.iloc[:, 0].to_numpy(dtype=np.float64, na_value=np.nan), len(frame))


def read_groupings(
    said: FileColumns, frame: pd.DataFrame, columns: Sequence[str], problems: Problems
) -> tuple[Grouping, ...]:
    """The groups of every attribute that was named; what is wrong goes to the problems.

    A reference may be named for each of several attributes, comma-separated.
    """
    several, found = len(said.attributes) > 1, []
    references = [part.strip() for part in (said.reference or "").split(",")] if several else [said.reference]
    for attribute in said.attributes:
        codes, names = np.full(len(frame), UNKNOWN), tuple(attribute.group_names or ())
        if attribute.column is None or attribute.column in columns:
            read = problems.collect(partial(_read_attribute, attribute, frame, said, references))
            codes, names = read if read is not None else (codes, names)
        known = codes if said.known is not None and attribute.column is not None else None
        found.append(Grouping(attribute.name, names, codes, known))
    if several:
        everywhere = [name for grouping in found for name in grouping.names]
        for reference in references:
            if reference and reference not in everywhere and not problems.found:
                problems.add(str(UnknownName("group", reference, everywhere)))
        problems.found += same_twice(found)
    return tuple(found)


def _read_attribute(
    attribute: Attribute, frame: pd.DataFrame, said: FileColumns, references: Sequence[str | None]
) -> tuple[IntArray, tuple[str, ...]]:
    partly, given = said.sensitive is None, attribute.group_names
    if len(said.attributes) == 1:
        return read_groups(attribute.column, frame, references[0], given, partly)
    if attribute.column is None and (given is None or len(set(given)) < 2):
        raise InputError(f"Name at least two groups of {attribute.name!r}, each once: --groups {attribute.name}=a,b.")
    _, names = read_groups(attribute.column, frame, None, given, partly)
    own = next((reference for reference in references if reference in names), None)
    return read_groups(attribute.column, frame, own, given, partly)


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
        shown = f"those with two values are {some_names(two)}" if two else f"it has {some_names(columns)}"
        problems.add(f"Say which column of {file} is the label (--label): {shown}.")
    for name in (*said.named, *(said.columns or ())):
        problems.collect(partial(require_column, name, columns, file))
    contents = [*said.text, *([said.picture] if said.picture else [])]
    for name in contents:
        if name in (said.label, said.recorded, *said.further, *said.drop) or contents.count(name) > 1:
            problems.add(f"Column {name!r} is named for two purposes: name it once.")
    if said.sensitive is not None and said.known is not None:
        problems.add("Give --sensitive (it answers only when asked) or --known-groups (you hand it in), not both.")
    attributes = [name for name in (said.recorded, *said.further) if name is not None]
    for name in sorted({name for name in attributes if attributes.count(name) > 1}):
        problems.add(f"The attribute {name!r} is named twice: name it once.")
    if said.label is not None and (said.label in attributes or said.label in said.drop):
        other = "the sensitive attribute" if said.label in attributes else "left out"
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
        hint = f"did you mean {near[0]!r}?" if near else f"it has {some_names(columns)}."
        raise InputError(f"There is no column {name!r} in {file}: {hint}")


def _row(bad: Any) -> str:
    return f"data row {int(np.flatnonzero(np.asarray(bad))[0]) + 1}"


def read_labels(name: str, column: pd.Series[Any], positive: str | None) -> Labels:
    """The labels of a file's column; text that spells numbers is numbers."""
    return table_labels(f"Label column {name!r}", label_cells(name, column), positive)


def label_cells(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of labels without gaps, one spelling for each; InputError where that cannot be."""
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
        refuse_variants(f"Label column {name!r}", column)
    return column
