"""The reviewer's endpoints: the next question to decide, and the decision. Opinions come without names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from pydantic import BaseModel

from apod.campaign.access import Visitor
from apod.web.annotator_routes import PICTURE_TYPES, AnswerBody, AttributeSeen, own_key, picture_response
from apod.web.cases import Field, field_of
from apod.web.context import Server
from apod.web.errors import Refused
from apod.web.security import Anybody

QuestionNumber = Annotated[int, Path(ge=1, le=10**15)]


async def reviewer(who: Anybody) -> Visitor:
    """A reviewer, or the owner; 403 for annotators."""
    if who.role not in ("owner", "reviewer"):
        raise Refused(403, "Only a reviewer or the owner may do this.")
    return who


Reviewer = Annotated[Visitor, Depends(reviewer)]
"""What a handler declares to serve reviewers and the owner."""


class Opinion(BaseModel):
    """How many said so."""

    answer: str
    count: int


Why = Literal["disagreement", "cannot_tell", "low_agreement"]


class AttributeOpinions(AttributeSeen):
    """One attribute that needs a second look."""

    why: Why
    opinions: list[Opinion]


class ReviewBody(BaseModel):
    """A question to decide; `why` and `opinions` are those of the first of its attributes."""

    question: int
    row_id: str
    why: Why
    label: str | None
    picture: str | None
    fields: list[Field]
    opinions: list[Opinion]
    attributes: list[AttributeOpinions]


class ReviewTurn(BaseModel):
    """The next question to decide, if there is one for this reviewer, and how far the second looks are."""

    case: ReviewBody | None
    waiting: int
    decided: int
    agreement_before: float | None
    agreement_after: float | None


router = APIRouter(tags=["reviewer"])


@router.get("/review")
def review(server: Server, who: Reviewer) -> ReviewTurn:
    """The next question to decide."""
    reviews = server.campaign.reviews
    found, summary = reviews.next(who.name), reviews.summary()
    case = None
    if found is not None:
        case = ReviewBody(
            question=found.question,
            row_id=found.row_id,
            why=found.why,
            label=found.label,
            picture=f"/api/v1/review/{found.question}/picture" if found.image is not None else None,
            fields=[field_of(name, value) for name, value in found.display.items()],
            opinions=_opinions(found.opinions),
            attributes=[
                AttributeOpinions(name=one.name, groups=list(one.groups), why=one.why, opinions=_opinions(one.opinions))
                for one in found.attributes
            ],
        )
    return ReviewTurn(case=case, **vars(summary))


@router.get("/review/{number}/picture", response_class=Response, responses=PICTURE_TYPES)
def picture(server: Server, who: Reviewer, number: QuestionNumber) -> Response:
    """The picture of a question that this reviewer may decide."""
    found = server.campaign.reviews.next(who.name, number)
    if found is None or found.image is None:
        raise Refused(404, "This question has no picture, or is not yours to decide.")
    return picture_response(server, found.image)


@router.post("/review/{number}")
def decide(server: Server, who: Reviewer, number: QuestionNumber, body: AnswerBody) -> ReviewTurn:
    """Decide a question; durable when this returns."""
    server.campaign.reviews.decide(who.name, number, body.answer, key=own_key(who, body.key))
    return review(server, who)


def _opinions(said: Mapping[str, int]) -> list[Opinion]:
    return [Opinion(answer=answer, count=count) for answer, count in said.items()]
