"""Label Studio's JSON: tasks go out, annotations come in.

A task's `data` holds what an annotator may see, plus `row`, `id` and `question`, which come back with it. Choices are
the group names, "cannot_tell" and "declined". A cancelled annotation (Label Studio's skip) gives the question back.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from apod.campaign.exchange import Batch, Record, row_number
from apod.campaign.state import CANNOT_TELL, DECLINED, GROUP
from apod.errors import InputError


def labelling_config(groups: Sequence[str], guidelines: str | None) -> str:
    """The XML that sets up a Label Studio project for a campaign's tasks."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in (*groups, CANNOT_TELL, DECLINED))
    header = f"  <Header value={quoteattr(escape(guidelines))}/>\n" if guidelines else ""
    return (
        f'<View>\n{header}  <Text name="case" value="$text"/>\n'
        f'  <Choices name="group" toName="case" choice="single" required="true">\n{choices}\n  </Choices>\n</View>\n'
    )


def to_tasks(records: Sequence[Record], shown: Mapping[int, Mapping[str, Any]], open_: Sequence[Record] = ()) -> bytes:
    """Tasks with their annotations, and open ones without; `shown` are the visible values by row."""
    by_row: dict[int, list[Record]] = defaultdict(list)
    for record in (*records, *open_):
        by_row[_row(record)].append(record)
    tasks = []
    for number, (row, here) in enumerate(by_row.items(), start=1):
        first = here[0]
        tasks.append(
            {
                "id": number,
                "data": {
                    "text": "\n".join(f"{name}: {value}" for name, value in shown[row].items()),
                    "row": row,
                    "id": first.id,
                    "question": next((item.question for item in here if item in open_), first.question),
                },
                "meta": {"purpose": first.purpose, "probability": first.probability},
                "annotations": [_annotation(place, item) for place, item in enumerate(here, 1) if item not in open_],
            }
        )
    return json.dumps(tasks, indent=1).encode()


def _row(record: Record) -> int:
    if record.row is None:
        raise InputError("A record without a row cannot be exported.")
    return record.row


def _annotation(number: int, record: Record) -> dict[str, Any]:
    choice = record.group if record.outcome == GROUP else record.outcome
    return {
        "id": number,
        "completed_by": record.annotator,
        "was_cancelled": False,
        "created_at": record.answered_at,
        "result": [
            {
                "id": f"g{number}",
                "type": "choices",
                "from_name": "group",
                "to_name": "case",
                "value": {"choices": [choice]},
            }
        ],
        "apod": {"kind": record.kind, "counted": record.counted, "late": record.late, "question": record.question},
    }


def from_tasks(data: bytes) -> Batch:
    """Answers from tasks with annotations, as Label Studio exports them."""
    try:
        tasks = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError("The file is not JSON: nothing was imported.") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) and "data" in task for task in tasks):
        raise InputError("The file is not a list of Label Studio tasks: nothing was imported.")
    records: list[Record] = []
    cancelled: list[tuple[str | None, int | None]] = []
    for place, task in enumerate(tasks, start=1):
        if not isinstance(task["data"], dict) or not {"row", "id"} & set(task["data"]):
            raise InputError(f"Task {place} has neither `row` nor `id` in its data: export tasks from the campaign.")
        for annotation in task.get("annotations") or task.get("completions") or []:
            choice = _choice(annotation)
            if annotation.get("was_cancelled") or choice is None:
                cancelled.append((task["data"].get("question"), task["data"].get("row")))
            else:
                records.append(_record(place, task, annotation, choice))
    return Batch(tuple(records), tuple(cancelled))


def _choice(annotation: Mapping[str, Any]) -> str | None:
    for item in annotation.get("result") or []:
        if item.get("type") == "choices" and item.get("from_name", "group") == "group":
            chosen = (item.get("value") or {}).get("choices") or []
            if len(chosen) == 1:
                return str(chosen[0])
    return None


def _record(place: int, task: Mapping[str, Any], annotation: Mapping[str, Any], choice: str) -> Record:
    ours, meta, data = annotation.get("apod") or {}, task.get("meta") or {}, task["data"]
    outcome = choice if choice in (CANNOT_TELL, DECLINED) else GROUP
    identity, row = data.get("id"), data.get("row")
    try:
        number = None if row is None else row_number(row)
    except ValueError:
        raise InputError(f"Task {place} has a row that is no whole number: nothing was imported.") from None
    return Record(
        row=number,
        id=None if identity is None else str(identity),
        annotator=_who(annotation.get("completed_by")),
        outcome=outcome,
        group=choice if outcome == GROUP else None,
        kind=ours.get("kind"),
        purpose=meta.get("purpose") or "training",
        probability=meta.get("probability"),
        counted=ours.get("counted", True),
        late=ours.get("late", False),
        question=ours.get("question") or data.get("question"),
        answered_at=annotation.get("created_at"),
    )


def _who(completed_by: Any) -> str | None:
    if isinstance(completed_by, Mapping):
        completed_by = completed_by.get("email") or completed_by.get("username") or completed_by.get("id")
    return None if completed_by is None else str(completed_by)
