"""What an annotator's side sees: questions, turns, ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from apod.campaign.asking import Why
from apod.campaign.errors import UnknownQuestion


@dataclass(frozen=True)
class Question:
    """One case put to one annotator: what may be seen of it, and nothing of what a model or others think."""

    id: str
    campaign: str
    annotator: str
    row: int
    row_id: str
    display: Mapping[str, Any] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    expires_at: str  # ISO 8601, by the database's clock
    label: str | None = field(default=None, repr=False)
    image: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Turn:
    """A question, or why there is none now.

    why  "question"; "done": the budget is spent; "wait": what remains is in others' hands (`with_others` questions),
         for `retry_after` seconds at most; "paused": by the owner, or by its least gain;
         "finished": the campaign was ended; "exhausted": nobody is left to ask about
    """

    question: Question | None
    why: Why
    retry_after: float | None = None
    with_others: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def parse_id(text: object) -> tuple[int, int]:
    """Place and token of a question id (see `State.id_of`)."""
    place, dash, token = str(text)[:50].strip().partition("-")
    if not (dash and place.isascii() and place.isdigit() and token.isascii() and token.isdigit()):
        raise UnknownQuestion
    return int(place), int(token)
