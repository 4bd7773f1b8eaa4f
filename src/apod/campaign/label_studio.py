"""Label Studio's JSON: tasks go out, annotations come in.

A task's `data` holds what an annotator may see, plus `row`, `id` and `question`, which come back with it. Choices are
the group names, "cannot_tell" and "declined"; with several attributes there is a tag of choices for each, named as it
is. A cancelled annotation (Label Studio's skip) gives the question back.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from apod.campaign.formats import Batch, Record, checked_record, read_json
from apod.campaign.settings import GROUP_NAME, Attribute, composed
from apod.campaign.state import CANNOT_TELL, DECLINED, GROUP
from apod.errors import InputError


def labelling_config(asked: Sequence[str] | Sequence[Attribute], guidelines: str | None) -> str:
    """The XML that sets up a Label Studio project for a campaign's tasks: for groups, or for attributes with theirs."""
    attributes = [one for one in asked if isinstance(one, Attribute)]
    attributes = attributes or [Attribute(GROUP_NAME, tuple(map(str, asked)))]
    header = f"  <Header value={quoteattr(escape(guidelines))}/>\n" if guidelines else ""
    tags = "".join(_tag(one, len(attributes) > 1) for one in attributes)
    return f'<View>\n{header}  <Text name="case" value="$text"/>\n{tags}</View>\n'


def _tag(attribute: Attribute, several: bool) -> str:
    """The choices of one attribute; of several, each under its name."""
    name, title = "group", ""
    if several:
        name, title = attribute.name, f'  <Header value={quoteattr(escape(attribute.name))} size="4"/>\n'
    groups = (*attribute.groups, CANNOT_TELL, DECLINED)
    choices = "\n".join(f"    <Choice value={quoteattr(group)}/>" for group in groups)
    tag = f'  <Choices name={quoteattr(name)} toName="case" choice="single" required="true">'
    return f"{title}{tag}\n{choices}\n  </Choices>\n"


def to_tasks(
    records: Sequence[Record],
    shown: Mapping[int, Mapping[str, object]],
    open_: Sequence[Record] = (),
    attributes: Sequence[str] = (),
) -> bytes:
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
                "annotations": [
                    _annotation(place, item, attributes) for place, item in enumerate(here, 1) if item not in open_
                ],
            }
        )
    return json.dumps(tasks, indent=1).encode()


def _row(record: Record) -> int:
    if record.row is None:
        raise InputError("A record without a row cannot be exported.")
    return record.row


def _annotation(number: int, record: Record, attributes: Sequence[str]) -> dict[str, object]:
    choice = record.group if record.outcome == GROUP else record.outcome
    said = {name: record.answers.get(name) for name in attributes} or {"group": choice}
    return {
        "id": number,
        "completed_by": record.annotator,
        "was_cancelled": False,
        "created_at": record.answered_at,
        "result": [
            {
                "id": f"g{number}" if name == "group" else f"g{number}-{name}",
                "type": "choices",
                "from_name": name,
                "to_name": "case",
                "value": {"choices": [answer]},
            }
            for name, answer in said.items()
            if answer is not None or name == "group"
        ],
        "apod": {"kind": record.kind, "counted": record.counted, "late": record.late, "question": record.question},
    }


def from_tasks(data: bytes, attributes: Sequence[Attribute]) -> Batch:
    """Answers from tasks with annotations, as Label Studio exports them.

    Choices are found by the groups' names; with several attributes, by the names of their tags.
    """
    try:
        tasks = read_json(data)
    except ValueError:
        raise InputError("The file is not JSON: nothing was imported.") from None
    if not isinstance(tasks, list):
        raise InputError("The file is not a list of Label Studio tasks: nothing was imported.")
    records: list[Record] = []
    cancelled: list[tuple[str | None, int | None]] = []
    for place, task in enumerate(tasks, start=1):
        what = f"Task {place}"
        task = _table(what, "task", task)
        about = _table(what, "data", task.get("data"))
        if not {"row", "id"} & set(about):
            raise InputError(f"{what} has neither `row` nor `id` in its data: export tasks from the campaign.")
        for one in _list(what, "annotations", task.get("annotations") or task.get("completions")):
            annotation = _table(what, "annotations", one)
            choices = _answers(what, annotation, attributes)
            found = _record(what, about, _table(what, "meta", task.get("meta")), annotation, choices)
            if not choices:
                cancelled.append((found.question, found.row))
            else:
                records.append(found)
    return Batch(tuple(records), tuple(cancelled))


def _record(
    what: str,
    about: Mapping[str, object],
    meta: Mapping[str, object],
    annotation: Mapping[str, object],
    choices: Mapping[str, str | None],
) -> Record:
    ours = _table(what, "apod", annotation.get("apod"))
    several = len(choices) > 1
    choice = None if several else next(iter(choices.values()), None)
    given = {
        "row": about.get("row"),
        "id": about.get("id"),
        "annotator": _who(annotation.get("completed_by")),
        "outcome": choice if choice in (CANNOT_TELL, DECLINED) else GROUP,
        "group": None if choice in (CANNOT_TELL, DECLINED) else choice,
        "kind": ours.get("kind"),
        "purpose": meta.get("purpose"),
        "probability": meta.get("probability"),
        "counted": ours.get("counted"),
        "late": ours.get("late"),
        "question": ours.get("question") or about.get("question"),
    }
    return replace(checked_record(what, given), answers=choices if several else {})


def _answers(what: str, annotation: Mapping[str, object], attributes: Sequence[Attribute]) -> dict[str, str | None]:
    """The answer of an annotation by attribute; empty where it holds no result at all."""
    if len(attributes) == 1:
        choice = _choice(what, annotation, {*attributes[0].groups, CANNOT_TELL, DECLINED})
        return {} if choice is None else {attributes[0].name: choice}
    results = _list(what, "result", annotation.get("result"))
    own = {
        one.name: {
            **annotation,
            "result": [item for item in results if _table(what, "result", item).get("from_name") == one.name],
        }
        for one in attributes
    }
    return {
        one.name: _choice(what, own[one.name], {*one.groups, CANNOT_TELL, DECLINED})
        for one in attributes
        if any(own[name]["result"] for name in own) and annotation.get("was_cancelled") is not True
    }


def _choice(what: str, annotation: Mapping[str, object], known: Collection[str]) -> str | None:
    """The answer of an annotation, whatever its tag is called; None where it holds no result at all.

    Other tags may stand beside it. Where several could be the answer, or none, the file is refused: no work is dropped.
    """
    if not isinstance(annotation.get("was_cancelled"), bool | None):
        raise _wrong(what, "was_cancelled")
    results = [_table(what, "result", one) for one in _list(what, "result", annotation.get("result"))]
    if annotation.get("was_cancelled") is True or not results:
        return None
    chosen = [_choices(what, item) for item in results]
    answers = [choices for choices in chosen if any(composed(one) in known for one in choices)]
    if len(answers) != 1 or len(answers[0]) != 1:
        some = "no choice that is" if not answers else "more than one choice that is"
        raise InputError(f"{what} of the file has {some} a group, cannot_tell or declined: nothing was imported.")
    return answers[0][0]


def _choices(what: str, item: Mapping[str, object]) -> list[str]:
    found = _list(what, "choices", _table(what, "value", item.get("value")).get("choices"))
    texts = [one for one in found if isinstance(one, str)]
    if len(texts) != len(found):
        raise _wrong(what, "choices")
    return texts


def _who(completed_by: Any) -> Any:
    """Who annotated, by what Label Studio says of them; the caller checks its type."""
    if not isinstance(completed_by, dict):
        return completed_by
    return completed_by.get("email") or completed_by.get("username") or completed_by.get("id")


def _table(what: str, name: str, value: object) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(what, name)
    return value


def _list(what: str, name: str, value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(what, name)
    return value


def _wrong(what: str, name: str) -> InputError:
    return InputError(f"{what} of the file is not as Label Studio writes it, in `{name}`: nothing was imported.")
