"""Export and import of a campaign's answers: from state to records and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from sqlalchemy import Connection

from apod.campaign.answering import ImportReport, Incoming, take_in
from apod.campaign.asking import Leased, lease, parse_id
from apod.campaign.attributes import Answer, Value, part_of, spoken
from apod.campaign.errors import NotFound, UnknownGroup
from apod.campaign.formats import LABEL_STUDIO, READERS, WRITERS, Batch, Record, format_of, read_bytes
from apod.campaign.journal import Desk
from apod.campaign.label_studio import from_tasks, to_tasks
from apod.campaign.log import moment
from apod.campaign.settings import Attribute, check_kind, check_lease, clean_name
from apod.campaign.state import CANNOT_TELL, DECLINED, GOLD, GROUP, OPEN, VERIFICATION, State
from apod.campaign.verifying import sealed_reasons
from apod.campaign.votes import checked_answers
from apod.errors import InputError
from apod.files import write_private

if TYPE_CHECKING:
    from apod.campaign.session import Session

OUTSIDE = LABEL_STUDIO
"""To whom the questions of an exported file are assigned."""

_PURPOSES = ("training", "audit", GOLD, VERIFICATION)


@dataclass(frozen=True)
class ExportReport:
    """What went out: answers, open questions handed out along with them, and until when those are nobody else's."""

    answers: int
    handed: int = 0
    until: str | None = None


def export(session: Session, path: Path, format_: str | None, tasks: int, task_days: float) -> ExportReport:
    """Write all answers that stand, and for Label Studio so many open questions."""
    content, report = packed(session, format_of(path, format_), tasks, task_days)
    write_private(path, content)
    return report


def packed(session: Session, form: str, tasks: int = 0, task_days: float = 0) -> tuple[bytes, ExportReport]:
    """The content of the file that `export` writes."""
    found = records(session, sealed=form != LABEL_STUDIO)  # annotators see tasks, and are not to know what verifies
    if form != LABEL_STUDIO:
        if tasks:
            raise InputError("Open questions can be handed out as Label Studio tasks only.")
        return WRITERS[form](found, session.settings.columns), ExportReport(len(found))
    handed, until = hand_out(session, tasks, task_days) if tasks else ([], None)
    shown = {row: session.shown(row)[1] for row in {r.row for r in (*found, *handed) if r.row is not None}}
    tasks_of = to_tasks(found, shown, handed, session.settings.columns)
    return tasks_of, ExportReport(len(found), len(handed), until)


def records(session: Session, sealed: bool = True) -> list[Record]:
    """All answers that stand and are not erased, in the order of their questions; with or without what is sealed."""
    number, attributes = session.number, session.settings.asked

    def look(connection: Connection, state: State, at: int) -> list[Record]:
        values = checked_answers(connection, number, state)
        reasons = sealed_reasons(connection, number, state) if sealed else {}
        found = []
        for given in state.current():
            if given.erased:
                continue
            asked = state.questions[given.number]
            stored = values.get(given.values[-1]) if given.outcome == GROUP else None
            said = spoken(
                attributes,
                [given.outcome_of(place) for place in range(len(attributes))],
                [part_of(stored, place) for place in range(len(attributes))],
            )
            several = len(attributes) > 1
            found.append(
                Record(
                    row=given.row,
                    annotator=given.annotator,
                    outcome=given.outcome,
                    group=said[0] if given.outcome == GROUP and not several else None,
                    answers=dict(zip(session.settings.columns, said, strict=True)) if several else {},
                    kind=given.kind,
                    purpose=reasons.get(asked.number, {}).get("purpose") or asked.purpose,
                    probability=reasons.get(asked.number, {}).get("probability", asked.probability),
                    counted=given.counted,
                    late=given.late,
                    question=state.id_of(given.token),
                    asked_at=moment(asked.at),
                    answered_at=moment(given.at),
                    **_decided(state, values, asked.number, attributes),
                )
            )
        return found

    return [replace(item, id=session.shown(item.row or 0)[0]) for item in session.reader.view(look)]


class _Decided(TypedDict, total=False):
    decision: str | None
    decided_by: str


def _decided(state: State, values: Mapping[int, object], number: int, attributes: Sequence[Attribute]) -> _Decided:
    """What a reviewer decided about a question, if one did; with several attributes, of those that were decided."""
    review = state.reviews.get(number)
    if review is None or review.erased:
        return {}
    stored = values.get(review.seq) if review.outcome == GROUP else None
    places = range(len(attributes))
    outcomes = [review.outcome_of(place) for place in places]
    said = spoken(attributes, outcomes, [part_of(stored, place) for place in places])
    if len(attributes) == 1:
        return {"decision": said[0], "decided_by": review.reviewer}
    told = [f"{attributes[place].name}={said[place]}" for place in places if outcomes[place] != OPEN]
    return {"decision": "; ".join(told), "decided_by": review.reviewer}


def hand_out(session: Session, count: int, days: float) -> tuple[list[Record], str | None]:
    """Lease so many open questions at once, for work outside; and until when."""
    check_lease("The time tasks are handed out for", days * 86_400)
    lease_ms = round(days * 86_400_000)

    def command(desk: Desk, wanted: int) -> tuple[list[Leased], list[Record]]:
        state = desk.state
        taken: list[Leased] = []
        while len(taken) < wanted and state.budget - state.spent - state.pending(desk.now) > 0 and not state.finished:
            queued = desk.next_proposal()
            if queued is None:
                break
            taken.append(lease(desk, None, OUTSIDE, queued=queued, lease_ms=lease_ms))
        return taken, [
            Record(
                row=held.row,
                purpose=state.questions[held.number].purpose,
                probability=state.questions[held.number].probability,
                question=held.id,
            )
            for held in taken
        ]

    found: list[Record] = []
    until = None
    while len(found) < count:
        handed, fresh = session.journal.submit(partial(command, wanted=count - len(found)))
        found.extend(fresh)
        until = moment(handed[0].expires_at) if handed and until is None else until
        if not handed and (not session.refitter.supply() or not session.journal.submit(_has_room)):
            break
    return [replace(item, id=session.shown(item.row or 0)[0]) for item in found], until


def _has_room(desk: Desk) -> bool:
    return desk.state.spent + desk.state.pending(desk.now) < desk.state.budget and not desk.state.finished


def import_(session: Session, path: Path, format_: str | None, annotator: str | None, kind: str | None) -> ImportReport:
    """Take a file's answers in, all or none."""
    form = format_of(path, format_)
    data = read_bytes(path)
    columns = session.settings.columns
    batch = from_tasks(data, session.settings.asked) if form == LABEL_STUDIO else READERS[form](data, columns)
    incoming = _incoming(session, batch, annotator, kind or session.rules().kind)
    empty = [None] * (len(batch.records) - len(incoming))

    def command(desk: Desk) -> ImportReport:
        return take_in(desk, incoming, [*(_given_back(desk.state, *item) for item in batch.cancelled), *empty])

    return session.journal.submit(command)


def _given_back(state: State, question: str | None, row: int | None) -> int | None:
    """The lease a cancelled task was handed out under, if it is this campaign's."""
    if question is None:
        return None
    try:
        held = state.leases.get(parse_id(question)[1])
    except NotFound:
        return None
    return held.token if held is not None and state.questions[held.number].row == row else None


def _incoming(session: Session, batch: Batch, annotator: str | None, kind: str) -> list[Incoming]:
    """The answers of a file, without its blank lines; a file that contradicts itself is refused."""
    rows = _rows(session, batch.records)
    found: list[Incoming] = []
    said: dict[tuple[int, str, bool, bool], tuple[int, Value]] = {}
    for place, (row, record) in enumerate(zip(rows, batch.records, strict=True), start=1):
        if record.outcome == GROUP and not (record.group or "").strip() and not any(record.answers.values()):
            continue
        who, what = record.annotator or annotator, record.kind or kind
        if who is None:
            raise InputError(
                f"Answer {place} names no annotator: name one (--annotator or annotator=). Nothing was imported."
            )
        check_kind(what)
        if record.purpose not in _PURPOSES:
            raise InputError(f"Answer {place} has an unknown purpose: use {', '.join(_PURPOSES)}.")
        token = None
        if record.question is not None:
            try:
                token = parse_id(record.question)[1]
            except NotFound:
                token = None  # an id of some other tool
        value = _value(session, place, record)
        name = clean_name("annotator's name", who)
        first, other = said.setdefault((row, name, record.purpose == GOLD, record.counted), (place, value))
        if other != value:
            raise InputError(
                f"Answers {first} and {place} of the file contradict each other about row {row}: keep the right one. "
                "Nothing was imported."
            )
        found.append(
            Incoming(
                row,
                name,
                value,
                what,
                _taken_as(record.purpose),
                record.probability,
                record.counted,
                record.late,
                token,
            )
        )
    return found


def _taken_as(purpose: str) -> str:
    """What an answer from elsewhere is for: what it verified there trains here."""
    return "training" if purpose == VERIFICATION else purpose


def _value(session: Session, place: int, record: Record) -> Value:
    told: Answer = record.answers or record.group or ""
    if record.outcome in (CANNOT_TELL, DECLINED) and not any(record.answers.values()):
        told = record.outcome
    try:
        if record.outcome not in (GROUP, CANNOT_TELL, DECLINED):
            raise UnknownGroup
        return session.value_of(told, partial=True)
    except UnknownGroup:
        raise UnknownGroup(f"Answer {place} is none of this campaign's groups. Nothing was imported.") from None


def _rows(session: Session, found: Sequence[Record]) -> list[int]:
    """The rows the records speak of, by number or by id; both must agree where both are given."""
    size = len(session.materials)
    numbers: dict[str, int] = {}
    if any(record.row is None for record in found):
        numbers = {session.shown(row)[0]: row for row in range(size)}
    rows = []
    for place, record in enumerate(found, start=1):
        row = record.row if record.row is not None else numbers.get(record.id or "")
        if row is None or not 0 <= row < size:
            raise InputError(f"Answer {place} is about a row this campaign does not have. Nothing was imported.")
        if record.id is not None and session.shown(row)[0] != record.id:
            raise InputError(f"Answer {place} names a row by another id than this campaign: is it of other data?")
        rows.append(row)
    return rows
