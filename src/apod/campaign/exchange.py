"""Answers out and in: CSV, Parquet, JSON Lines, Label Studio JSON. What goes out comes back the same."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from apod.campaign.state import GROUP
from apod.errors import InputError, UnknownName

SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "label_studio"}


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


def to_csv(records: Sequence[Record]) -> bytes:
    """Comma-separated values with a header."""
    return _frame(records).to_csv(index=False).encode()


def to_parquet(records: Sequence[Record]) -> bytes:
    """A Parquet file."""
    buffer = io.BytesIO()
    _frame(records).to_parquet(buffer, index=False)
    return buffer.getvalue()


def to_jsonl(records: Sequence[Record]) -> bytes:
    """One JSON object per line."""
    return "".join(json.dumps(asdict(record)) + "\n" for record in records).encode()


def from_csv(data: bytes) -> Batch:
    """Answers from comma-separated values; a group may be called "NA" or "None"."""
    try:
        frame = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise InputError("The file is not comma-separated text in UTF-8: nothing was imported.") from None
    return _batch([{str(key): value for key, value in row.items()} for row in frame.to_dict("records")])


def from_parquet(data: bytes) -> Batch:
    """Answers from a Parquet file."""
    try:
        frame = pd.read_parquet(io.BytesIO(data))
    except Exception:  # noqa: BLE001 pyarrow raises many types; none of their texts is needed
        raise InputError("The file is not Parquet, or damaged: nothing was imported.") from None
    plain = frame.astype(object).where(frame.notna(), None)
    return _batch([{str(key): value for key, value in row.items()} for row in plain.to_dict("records")])


def from_jsonl(data: bytes) -> Batch:
    """Answers from JSON Lines."""
    try:
        rows = [json.loads(line) for line in data.decode().splitlines() if line.strip()]
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError("The file is not one JSON object per line in UTF-8: nothing was imported.") from None
    if not all(isinstance(row, dict) for row in rows):
        raise InputError("The file is not one JSON object per line: nothing was imported.")
    return _batch(rows)


def read_gold(path: Path) -> dict[int, str]:
    """Known answers for gold questions: a file with the columns `row` and `group`."""
    found: dict[int, str] = {}
    kind = format_of(path, None)
    if kind not in READERS:
        raise InputError(f"{path.name} cannot hold known answers: save it as CSV, Parquet or JSON Lines.")
    for record in READERS[kind](read_bytes(path)).records:
        if record.row is None or record.group is None:
            raise InputError(f"Every line of {path.name} needs a row number and a group: they are the known answers.")
        if found.setdefault(record.row, record.group) != record.group:
            raise InputError(f"{path.name} says two different groups for row {record.row}: keep the one that is known.")
    return found


def _frame(records: Sequence[Record]) -> pd.DataFrame:
    columns = [item.name for item in fields(Record)]
    frame = pd.DataFrame([asdict(record) for record in records], columns=columns)
    texts = ["id", "annotator", "outcome", "group", "kind", "purpose", "question", "asked_at", "answered_at"]
    types = {"row": "Int64", "probability": "Float64", "counted": "boolean", "late": "boolean"}
    return frame.astype({**dict.fromkeys(texts, "string"), **types})


def _batch(rows: Sequence[Mapping[str, Any]]) -> Batch:
    if rows and not {"row", "id"} & set(rows[0]):
        raise InputError("The file has neither a column `row` nor a column `id`: nothing was imported.")
    return Batch(tuple(_record(line, row) for line, row in enumerate(rows, start=1)))


def _record(line: int, row: Mapping[str, Any]) -> Record:
    def text(name: str) -> str | None:
        value = row.get(name)
        return None if value is None or value == "" else str(value)

    try:
        number, probability = text("row"), text("probability")
        return Record(
            row=None if number is None else row_number(number),
            id=text("id"),
            annotator=text("annotator"),
            outcome=text("outcome") or GROUP,
            group=text("group"),
            kind=text("kind"),
            purpose=text("purpose") or "training",
            probability=None if probability is None else float(probability),
            counted=_truth(text("counted"), True),
            late=_truth(text("late"), False),
            question=text("question"),
        )
    except ValueError:
        raise InputError(
            f"Answer {line} of the file has a row that is no whole number, a probability that is no number, or a "
            "`counted` or `late` that is neither true nor false: nothing was imported."
        ) from None


def row_number(value: object) -> int:
    """A row as a file says it, 8 or 8.0; a `ValueError` where it is none, for rounding would name somebody else."""
    text = str(value).strip()
    if not re.fullmatch(r"[0-9]{1,18}(\.0*)?", text):
        raise ValueError
    return int(text.partition(".")[0])


def _truth(text: str | None, default: bool) -> bool:
    if text is None:
        return default
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError
    return text.lower() in ("true", "1")


WRITERS: Mapping[str, Callable[[Sequence[Record]], bytes]] = {
    "csv": to_csv,
    "parquet": to_parquet,
    "jsonl": to_jsonl,
}
READERS: Mapping[str, Callable[[bytes], Batch]] = {"csv": from_csv, "parquet": from_parquet, "jsonl": from_jsonl}
FORMATS = (*WRITERS, "label_studio")
