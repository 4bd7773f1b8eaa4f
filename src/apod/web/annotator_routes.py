"""The annotator's endpoints: the next question, its picture, the answer, taking it back.

Owners may answer too, as "owner". A picture is found through one's own question, never by a path, and sent only if it
truly is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic import Field as Length

from apod.campaign import Receipt
from apod.campaign.access import OWNER, Visitor
from apod.campaign.annotator import Hand, Progress
from apod.campaign.display import read_picture
from apod.campaign.settings import MOST_ATTRIBUTES, Attribute
from apod.web.cases import Case, case_of
from apod.web.context import Server
from apod.web.errors import Refused
from apod.web.security import Anybody

Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Said = Text | Annotated[dict[Text, Text | None], Length(min_length=1, max_length=MOST_ATTRIBUTES)]
"""An answer: one word, or one for each of several attributes, null where it cannot be told."""
QuestionId = Annotated[str, Path(pattern=r"^[0-9]{1,18}-[0-9]{1,18}$", description="As in a turn, such as 3-17.")]


class Empty(BaseModel):
    """Nothing needs to be said."""

    model_config = ConfigDict(extra="forbid")


class Keyed(BaseModel):
    """A call that may be repeated: the same key twice has one effect."""

    model_config = ConfigDict(extra="forbid", strict=True)
    key: Text


class AnswerBody(Keyed):
    """An answer: a group's name, `cannot_tell` or `declined`; with several attributes, by attribute."""

    answer: Said


class Mine(BaseModel):
    """How far one annotator is."""

    answered: int
    skipped: int


class Everybody(BaseModel):
    """How far the campaign is."""

    answered: int
    pending: int
    budget: int
    percent: int


class ProgressBody(BaseModel):
    """How far the annotator and the campaign are."""

    mine: Mine
    campaign: Everybody
    state: Literal["open", "paused", "done", "finished"]


class TurnBody(BaseModel):
    """The questions assigned to the annotator, the current one first, or why there are none."""

    state: Literal["question", "wait", "preparing", "paused", "done", "finished", "exhausted"]
    questions: list[Case]
    with_others: int
    retry_after: float | None
    progress: ProgressBody


class ReceiptBody(BaseModel):
    """Proof that an answer is durable."""

    question: str
    late: bool
    counted: bool
    repeated: bool


class AnswerTaken(BaseModel):
    """An answer's receipt, and what comes next."""

    receipt: ReceiptBody
    turn: TurnBody


class GivenBack(BaseModel):
    """A question was given back, and what comes next."""

    given_back: bool
    turn: TurnBody


class Undone(BaseModel):
    """The question of the answer that was taken back, if it is this annotator's again."""

    question: Case | None
    turn: TurnBody


class Own(BaseModel):
    """One of the annotator's own answers."""

    question: str
    row_id: str
    answer: str | dict[str, str | None]
    at: str
    late: bool
    counted: bool
    editable: bool


class OwnAnswers(BaseModel):
    """The annotator's latest answers, the newest first."""

    answers: list[Own]


class AttributeSeen(BaseModel):
    """One attribute that is asked about, and its groups."""

    name: str
    groups: list[str]


def seen_attributes(asked: Sequence[Attribute]) -> list[AttributeSeen]:
    """What is asked about, as it goes out."""
    return [AttributeSeen(name=one.name, groups=list(one.groups)) for one in asked]


class About(BaseModel):
    """What an annotator has to know of the campaign; `groups` are those of the first attribute."""

    name: str
    groups: list[str]
    attributes: list[AttributeSeen]
    guidelines: str | None
    legal_basis: str | None
    kind: str
    question: str | None
    version: int
    descriptions: dict[str, str]
    label_shown: bool
    pictures: bool
    lease_seconds: float
    reminders: list[str]


router = APIRouter(tags=["annotator"])


def name_of(who: Visitor) -> str:
    """Under which name a visitor answers; a reviewer decides, and answers nothing."""
    if who.role == "reviewer":
        raise Refused(403, "A reviewer decides about others' answers: ask the owner for an annotator's link to answer.")
    return OWNER if who.role == "owner" else who.name


@router.get("/campaign")
def campaign(server: Server, who: Anybody) -> About:
    """The groups, the guidelines and the legal basis."""
    rules, version = server.campaign.rules(), server.campaign.revision()
    return About(
        name=rules.name,
        groups=list(rules.groups),
        attributes=seen_attributes(rules.asked),
        guidelines=rules.guidelines,
        legal_basis=rules.legal_basis,
        kind=rules.kind,
        question=rules.question,
        version=version,
        descriptions=dict(rules.descriptions),
        label_shown=rules.show_label,
        pictures=rules.image_column is not None,
        lease_seconds=rules.lease_seconds,
        reminders=list(rules.reminders()) if who.role == "owner" else [],
    )


@router.post("/turn")
def turn(server: Server, who: Anybody, body: Empty) -> TurnBody:
    """The current question and the one after it, both leased; the same ones until they are answered."""
    return _turn(server, who)


@router.get("/questions/{question}")
def question(server: Server, who: Anybody, question: QuestionId) -> Case:
    """The case of one's own question, answered or not."""
    return _case(server.campaign.annotator(name_of(who)).question(question))


@router.post("/questions/{question}/answer")
def answer(server: Server, who: Anybody, question: QuestionId, body: AnswerBody) -> AnswerTaken:
    """Answer a question; durable when this returns."""
    given = server.campaign.tell(question, body.answer, annotator=name_of(who), key=own_key(who, body.key))
    return AnswerTaken(receipt=_receipt(given), turn=_turn(server, who))


@router.post("/questions/{question}/correction")
def correction(server: Server, who: Anybody, question: QuestionId, body: AnswerBody) -> AnswerTaken:
    """Replace one's own answer."""
    given = server.campaign.annotator(name_of(who)).correct(question, body.answer, key=own_key(who, body.key))
    return AnswerTaken(receipt=_receipt(given), turn=_turn(server, who))


@router.post("/questions/{question}/skip")
def skip(server: Server, who: Anybody, question: QuestionId, body: Keyed) -> GivenBack:
    """Give a question back for somebody else."""
    given = server.campaign.annotator(name_of(who)).skip(question, key=own_key(who, body.key))
    return GivenBack(given_back=given, turn=_turn(server, who))


@router.post("/undo")
def undo(server: Server, who: Anybody, body: Keyed) -> Undone:
    """Take back one's last answer or skip."""
    found = server.campaign.annotator(name_of(who)).undo(key=own_key(who, body.key))
    return Undone(question=_case(found) if found is not None else None, turn=_turn(server, who))


@router.get("/answers")
def answers(server: Server, who: Anybody) -> OwnAnswers:
    """One's own last ten answers."""
    found = server.campaign.annotator(name_of(who)).answers(10)
    return OwnAnswers(answers=[Own(**vars(own), editable=True) for own in found])


@router.get("/progress")
def progress(server: Server, who: Anybody) -> ProgressBody:
    """How far one is oneself, and the campaign."""
    return progress_body(server.campaign.annotator(name_of(who)).progress())


def progress_body(found: Progress) -> ProgressBody:
    """Progress as it goes out."""
    return ProgressBody(
        mine=Mine(answered=found.mine_answered, skipped=found.mine_skipped),
        campaign=Everybody(
            answered=found.answered,
            pending=found.pending,
            budget=found.budget,
            percent=min(100, 100 * found.answered // found.budget),
        ),
        state=found.phase,
    )


def _turn(server: Server, who: Visitor) -> TurnBody:
    found: Hand = server.campaign.annotator(name_of(who)).hand(2)
    return TurnBody(
        state=found.why,
        questions=[_case(item) for item in found.questions],
        with_others=found.with_others,
        retry_after=found.retry_after,
        progress=progress_body(found.progress),
    )


def _case(question: Any) -> Case:
    left = datetime.fromisoformat(question.expires_at) - datetime.now(UTC)
    return case_of(question, round(left.total_seconds(), 1))


def _receipt(given: Receipt) -> ReceiptBody:
    return ReceiptBody(question=given.question, late=given.late, counted=given.counted, repeated=given.repeated)


def own_key(who: Visitor, key: str) -> str:
    """A key of one's own: nobody can use up, or find out about, another's."""
    return hashlib.sha256(f"{who.name}\x1f{key}".encode(errors="replace")).hexdigest()[:32]


_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
PICTURE_TYPES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {} for kind in ("image/png", "image/jpeg", "image/gif", "image/webp")}}
}


@router.get("/questions/{question}/picture", response_class=Response, responses=PICTURE_TYPES)
def picture(server: Server, who: Anybody, question: QuestionId) -> Response:
    """The picture of one's own question."""
    found = server.campaign.annotator(name_of(who)).question(question)
    if found.image is None:
        raise Refused(404, "This question has no picture.")
    return picture_response(server, found.image)


def picture_response(server: Server, path: str) -> Response:
    """A picture as a browser gets it; refused where the file is none."""
    data = _read(path, server.campaign.settings.image_root, server.settings.limits.picture_bytes)
    kind = content_type(data)
    if kind is None:
        raise Refused(415, "This file is no PNG, JPEG, GIF or WebP picture.")
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def content_type(data: bytes) -> str | None:
    """The type by what the file begins with; its name says nothing."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS if data.startswith(start)), None)


def _read(path: str, root: str | None, most: int) -> bytes:
    try:
        data = read_picture(path, root, most)
    except (OSError, ValueError):
        raise Refused(404, "The picture of this question is missing.") from None
    if len(data) > most:
        raise Refused(413, "The picture of this question is too large.")
    return data
