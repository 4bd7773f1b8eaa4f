"""What was understood of a user's table, to be read before anything is done with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from apod.data.columns import Labels, TableColumn, read_columns
from apod.data.dataset import UNKNOWN
from apod.data.own import Understood

Role = Literal["feature", "label", "group", "known group", "id", "left out"]


@dataclass(frozen=True)
class ColumnSummary:
    """One column: what it holds and what it is used for."""

    name: str
    type: str
    role: Role
    missing: int  # cells
    missing_share: float
    distinct: int  # values, missing ones aside
    why: str | None = None  # it is left out; what to mend


@dataclass(frozen=True)
class LabelSummary:
    """What is to be predicted."""

    column: str
    negative: str | None  # None, as the next three, where there are more than two labels
    positive: str | None
    positives: int | None
    base_rate: float | None
    labels: Mapping[str, int] | None = None  # of more than two labels, how many people have each


@dataclass(frozen=True)
class GroupSummary:
    """One group: how many people are on record, and how many of them have the positive label."""

    name: str
    people: int
    positives: int | None  # None where the label cannot be read, or there are more than two
    base_rate: float | None
    labels: Mapping[str, int] | None = None  # of more than two labels, how many people have each


@dataclass(frozen=True)
class TableSummary:
    """All that `apod check` says of a table."""

    file: str
    rows: int
    columns: tuple[ColumnSummary, ...]
    label: LabelSummary | None
    groups: tuple[GroupSummary, ...]  # the reference last
    group_column: str | None
    without_group: int | None  # rows that no group is on record of; None where no column records groups
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """As plain JSON."""
        return asdict(self)


def summarize(found: Understood) -> TableSummary:
    """What was understood, column by column in the order of the file."""
    rows, said, read = len(found.frame), found.said, {column.name: column for column in found.columns}
    named = [name for name in said.named if name in found.frame.columns]
    read |= {column.name: column for column in read_columns(found.frame[named], said.dialect.decimal)}
    columns = [_column(str(name), read[str(name)], found) for name in found.frame.columns]
    recorded = said.recorded if said.recorded in found.frame.columns else None
    return TableSummary(
        file=found.path.name,
        rows=rows,
        columns=tuple(columns),
        label=_label(found),
        groups=_groups(found, recorded is not None),
        group_column=recorded,
        without_group=int((found.groups == UNKNOWN).sum()) if recorded is not None else None,
        notes=found.notes,
        problems=found.problems,
    )


def _column(name: str, read: TableColumn, found: Understood) -> ColumnSummary:
    said = found.said
    cells = found.frame[name]
    missing = read.missing if read.values is not None else int(cells.isna().sum())
    role: Role
    why = None
    if name == said.label:
        role = "label"
    elif name in (said.recorded, *said.further):
        role = "group" if said.sensitive is not None else "known group"
    elif name in said.drop:
        role, why = "left out", "as asked"
    elif read.problems:
        role, why = "left out", " ".join(read.problems)
    elif read.values is not None:
        role = "feature"
    elif read.kind == "identifier":
        role, why = "id", _reason(read)
    else:
        role, why = "left out", _reason(read)
    return ColumnSummary(name, read.kind, role, missing, missing / len(cells), read.distinct or cells.nunique(), why)


def _reason(read: TableColumn) -> str:
    """Why a column is no feature, without its name."""
    if read.kind == "row number":
        return "numbers the rows"
    note = read.notes[0].removeprefix(f"Column {read.name!r} ") if read.notes else read.kind
    return note.removesuffix(": not a feature.")


def _label(found: Understood) -> LabelSummary | None:
    labels = found.labels
    if labels is None or found.said.label is None:
        return None
    if len(labels.names) > 2:
        people = _by_label(labels, np.ones(len(labels.codes), dtype=np.bool_))
        return LabelSummary(found.said.label, None, None, None, None, people)
    positives, (negative, positive) = int(labels.codes.sum()), labels.names
    return LabelSummary(found.said.label, negative, positive, positives, positives / len(labels.codes))


def _by_label(labels: Labels, inside: npt.NDArray[np.bool_]) -> dict[str, int]:
    counts = np.bincount(labels.codes[inside], minlength=len(labels.names)).tolist()
    return dict(zip(labels.names, counts, strict=True))


def _groups(found: Understood, recorded: bool) -> tuple[GroupSummary, ...]:
    if not recorded:
        return tuple(GroupSummary(name, 0, None, None) for name in found.group_names)
    summaries = []
    for code, name in enumerate(found.group_names):
        mine = found.groups == code
        people = int(mine.sum())
        if found.labels is not None and len(found.labels.names) > 2:
            summaries.append(GroupSummary(name, people, None, None, _by_label(found.labels, mine)))
            continue
        positives = None if found.labels is None else int(np.sum(found.labels.codes[mine]))
        rate = positives / people if positives is not None and people else None
        summaries.append(GroupSummary(name, people, positives, rate))
    return tuple(summaries)
