"""Answers out and in: CSV, Parquet, JSON Lines, Label Studio JSON. What goes out comes back the same."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from apod.campaign.state import CANNOT_TELL, DECLINED, GROUP
from apod.data.cells import read_cells, write_cells
from apod.data.dataset import refuse_repeated
from apod.errors import InputError, UnknownName

LABEL_STUDIO = "label-studio"
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": LABEL_STUDIO}


@dataclass(frozen=True)
class Record:
    """One answer as it leaves a campaign, and as it may come back. Only `row` or `id`, and `group`, are needed."""

    row: int | None = None
    id: str | None = None
    annotator: str | None = None
    outcome: str = GROUP  # group, cannot_tell, declined
    group: str | None = field(default=None, repr=False)
    kind: str | None = None
    purpose: str = "training"
    probability: float | None = None
    counted: bool = True
    late: bool = False
    question: str | None = None  # its id in the campaign it came from
    asked_at: str | None = None
    answered_at: str | None = None
    decision: str | None = field(default=None, repr=False)  # a reviewer's, which counts instead; not taken in again
    decided_by: str | None = None
    answers: Mapping[str, str | None] = field(default_factory=dict, repr=False)  # by attribute, where there are several

    def cells(self, attributes: Sequence[str]) -> dict[str, object]:
        """Its fields as columns: with several attributes, one for each in the place of `group`."""
        found: dict[str, object] = {}
        for item in fields(self):
            if item.name == "group" and attributes:
                found |= {name: self.answers.get(name) for name in attributes}
            elif item.name != "answers":
                found[item.name] = getattr(self, item.name)
        return found


@dataclass(frozen=True)
class Batch:
    """What a file holds: answers, and the questions that were cancelled in it."""

    records: tuple[Record, ...]
    cancelled: tuple[tuple[str | None, int | None], ...] = ()  # question and row, where the file says


def format_of(path: Path, name: str | None) -> str:
    """The format asked for, or the one the file's ending stands for."""
    if name is None:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{path.name} has no known ending: name the format ({', '.join(FORMATS)}).")
        return SUFFIXES[path.suffix.lower()]
    if name not in FORMATS:
        raise UnknownName("format", name, FORMATS)
    return name


def read_bytes(path: Path) -> bytes:
    """A file's content, or an error that says what to do."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the path.") from None


def to_csv(records: Sequence[Record], attributes: Sequence[str] = ()) -> bytes:
    """Comma-separated values with a header; no text in it is a formula to a spreadsheet."""
    names = list(Record().cells(attributes))
    return write_cells(names, (list(record.cells(attributes).values()) for record in records))


def to_parquet(records: Sequence[Record], attributes: Sequence[str] = ()) -> bytes:
    """A Parquet file."""
    buffer = io.BytesIO()
    _frame(records, attributes).to_parquet(buffer, index=False)
    return buffer.getvalue()


def to_jsonl(records: Sequence[Record], attributes: Sequence[str] = ()) -> bytes:
    """One JSON object per line."""
    return "".join(json.dumps(record.cells(attributes)) + "\n" for record in records).encode()


def from_csv(data: bytes, attributes: Sequence[str] = ()) -> Batch:
    """Answers from comma-separated values; a group may be called "NA" or "None"."""
    return _batch(read_cells(data), attributes)


def from_parquet(data: bytes, attributes: Sequence[str] = ()) -> Batch:
    """Answers from a Parquet file."""
    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        names = list(file.schema_arrow.names)
        refuse_repeated(names)
        wanted = [name for name in names if name in _READ or name in attributes]
        rows = file.read(columns=wanted, use_threads=False).to_pylist()
    except InputError:
        raise
    except Exception:  # noqa: BLE001 pyarrow raises many types; none of their texts is needed
        raise InputError("The file is not Parquet, or damaged: nothing was imported.") from None
    return _batch([{name: _present(value) for name, value in row.items()} for row in rows], attributes)


def _present(value: object) -> object:
    """A cell as pandas means it: NaN is a gap."""
    return None if isinstance(value, float) and math.isnan(value) else value


def from_jsonl(data: bytes, attributes: Sequence[str] = ()) -> Batch:
    """Answers from JSON Lines."""
    try:
        rows = [read_json(line) for line in data.decode().split("\n") if line.strip()]
    except ValueError:
        raise InputError("The file is not one JSON object per line in UTF-8: nothing was imported.") from None
    if not all(isinstance(row, dict) for row in rows):
        raise InputError("The file is not one JSON object per line: nothing was imported.")
    return _batch(rows, attributes)


def read_json(text: str | bytes) -> Any:
    """What a JSON text says; a `ValueError` whatever is wrong with it."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_gold(path: Path, attributes: Sequence[str] = ()) -> dict[int, str | Mapping[str, str | None]]:
    """Known answers for gold questions: a file with the columns `row` and `group`, or one for each of several
    attributes."""
    found: dict[int, str | Mapping[str, str | None]] = {}
    kind = format_of(path, None)
    if kind not in READERS:
        raise InputError(f"{path.name} cannot hold known answers: save it as CSV, Parquet or JSON Lines.")
    for record in READERS[kind](read_bytes(path), attributes).records:
        told = {name: part for name, part in record.answers.items() if part is not None} or record.group
        if record.row is None or told is None:
            raise InputError(f"Every line of {path.name} needs a row number and a group: they are the known answers.")
        if found.setdefault(record.row, told) != told:
            raise InputError(f"{path.name} says two different groups for row {record.row}: keep the one that is known.")
    return found


def _frame(records: Sequence[Record], attributes: Sequence[str]) -> pd.DataFrame:
    columns = list(Record().cells(attributes))
    frame = pd.DataFrame([record.cells(attributes) for record in records], columns=columns)
    texts = ["id", "annotator", "outcome", *(attributes or ["group"]), "kind", "purpose"]
    texts += ["question", "asked_at", "answered_at"]
    types = {"row": "Int64", "probability": "Float64", "counted": "boolean", "late": "boolean"}
    return frame.astype({**dict.fromkeys(texts, "string"), **types})


def _batch(rows: Sequence[Mapping[str, object]], attributes: Sequence[str]) -> Batch:
    if rows and not {"row", "id"} & set(rows[0]):
        raise InputError("The file has neither a column `row` nor a column `id`: nothing was imported.")
    if attributes:
        missing = [name for name in attributes if not any(name in row for row in rows)]
        if rows and missing:
            raise InputError(
                f"The file has no column `{missing[0]}`: it needs one per attribute. Nothing was imported."
            )
        return Batch(tuple(_joint(f"Answer {line} of the file", row, attributes) for line, row in enumerate(rows, 1)))
    if rows and not any("group" in row or row.get("outcome") in (CANNOT_TELL, DECLINED) for row in rows):
        raise InputError("The file has no column `group`: name the column of answers so. Nothing was imported.")
    return Batch(tuple(checked_record(f"Answer {line} of the file", row) for line, row in enumerate(rows, start=1)))


def _joint(what: str, given: Mapping[str, object], attributes: Sequence[str]) -> Record:
    """An answer about several attributes; a blank cell says nothing of its attribute."""
    answers: dict[str, str | None] = {}
    for name in attributes:
        try:
            told = (_text(given.get(name)) or "").strip()
        except TypeError:
            raise InputError(f"{what} has a `{name}` that is not a text: nothing was imported.") from None
        if told:
            answers[name] = told
    return replace(checked_record(what, {**given, "group": None}), answers=answers)


def checked_record(what: str, given: Mapping[str, object]) -> Record:
    """An answer from what a file says of it, whatever that is; InputError, which repeats no value, unless it fits.

    A field that is missing, None or empty takes its default. `what` names the place in the error.
    """
    values: dict[str, Any] = {}
    for name, (read, fits) in _READ.items():
        try:
            value = read(given.get(name))
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{what} has a `{name}` that is not {fits}: nothing was imported.") from None
        if value is not None:
            values[name] = value
    if not {"row", "id"} & set(values):
        raise InputError(f"{what} names neither a row nor an id: nothing was imported.")
    return Record(**values)


def row_number(value: object) -> int | None:
    """A row as a file says it, 8 or 8.0; an error where it is none, for rounding would name somebody else."""
    text = _text(value)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}(\.0*)?", text.strip()):
        raise ValueError
    return int(text.strip().partition(".")[0])


def _text(value: object) -> str | None:
    """A text, or a whole number in its place, such as an id; None where there is nothing."""
    if value is None or value == "":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return str(value)


def _share(value: object) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    found = float(value)
    if not 0 < found <= 1:
        raise ValueError
    return found


def _truth(value: object) -> bool | None:
    if value is None or value == "":
        return None
    known = {"true": True, "1": True, "false": False, "0": False}
    word = str(value).lower()
    if not isinstance(value, str | bool | int) or word not in known:
        raise ValueError
    return known[word]


_WORD = (_text, "a text")
_READ: Mapping[str, tuple[Callable[[object], object], str]] = {
    "row": (row_number, "a whole number"),
    "probability": (_share, "a number above 0 and up to 1"),
    "counted": (_truth, "true or false"),
    "late": (_truth, "true or false"),
    **dict.fromkeys(("id", "annotator", "outcome", "group", "kind", "purpose", "question"), _WORD),
}

WRITERS: Mapping[str, Callable[[Sequence[Record], Sequence[str]], bytes]] = {
    "csv": to_csv,
    "parquet": to_parquet,
    "jsonl": to_jsonl,
}
READERS: Mapping[str, Callable[[bytes, Sequence[str]], Batch]] = {
    "csv": from_csv,
    "parquet": from_parquet,
    "jsonl": from_jsonl,
}
FORMATS = (*WRITERS, LABEL_STUDIO)
