"""What the open body of each kind of event holds; `fold` reads them, `Desk.append` writes them."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class AttributeBody(TypedDict):
    """One attribute that is asked about."""

    name: str
    groups: list[str]


class CreatedSettings(TypedDict, total=False):
    """The settings that are read from the fold; all others stand beside them, and earlier versions had fewer."""

    groups: list[str]
    attributes: list[AttributeBody]
    budget: int
    overlap: int
    lease_seconds: float
    gold_every: int
    lookahead: int
    audit_share: float
    verify_share: float
    unanswered_costs: bool


class CreatedBody(TypedDict):
    """A campaign began."""

    settings: CreatedSettings


class AskedBody(TypedDict):
    """A question was assigned to an annotator."""

    question: int
    row: int
    purpose: str
    probability: float | None
    model: str | None
    rule: str | None
    expired: list[int]  # assignments that ran out and made room
    annotator: str
    lease_ms: int


class AnsweredBody(TypedDict):
    """An annotator answered; the group is sealed."""

    token: int
    kind: str
    outcome: str
    outcomes: NotRequired[list[str]]  # by attribute, where there are several
    late: bool
    counted: bool
    free: NotRequired[bool]
    receipt: NotRequired[str | None]
    expired: NotRequired[list[int]]


class CorrectedBody(TypedDict):
    """An answer was corrected by whoever gave it."""

    answer: int
    kind: str
    outcome: str
    outcomes: NotRequired[list[str]]


class TokenBody(TypedDict):
    """An assignment was skipped or given back."""

    token: int


class WithdrawnBody(TypedDict):
    """A row can be put to nobody."""

    row: int
    cause: str


class UndoneBody(TypedDict):
    """An annotator took the last act back."""

    act: int
    annotator: str


class RowBody(TypedDict):
    """A row became a gold question; its group is sealed."""

    row: int


class KnownBody(RowBody):
    """A group was handed in."""

    purpose: str
    partly: NotRequired[bool]  # not of every attribute


class AddedBody(TypedDict):
    """Rows arrived; they are numbered on."""

    materials: dict[str, object]  # names of their files
    queue: int  # proposals of this generation, and before, do not know them


class RefittedBody(TypedDict):
    """A model of so many answers was published."""

    model: str
    answers: int
    added: NotRequired[int]  # how many additions of rows it knows


class FrozenBody(TypedDict):
    """A correction was frozen to be verified; what it is, and by whom, is sealed."""

    answers: int


class ErasedPartsBody(TypedDict):
    """Of which values one attribute was erased; the rest of them stays."""

    attribute: int
    sealed: list[int]
    rows: list[int]


class ErasedBody(TypedDict):
    """Values were erased, by the events that brought them."""

    sealed: list[int]
    answers: list[int]
    gold: list[int]
    known: NotRequired[list[int]]
    models: list[str]
    parts: NotRequired[ErasedPartsBody]


class BudgetBody(TypedDict):
    """The budget changed."""

    budget: int


class FinishedBody(TypedDict):
    """The campaign was closed, or opened again."""

    finished: bool


class PausedBody(TypedDict):
    """The campaign paused, or resumed."""

    paused: bool
    because: NotRequired[str | None]


class ChosenBody(TypedDict):
    """The owner chose a strength, or left the choice to the classifier."""

    strength: float | None


class ComputedBody(TypedDict):
    """Something was computed from the pool once and for all; its files by name."""

    name: str
    files: dict[str, str]


class RevisedBody(TypedDict):
    """The owner changed settings."""

    settings: dict[str, object]


class ArchivedBody(TypedDict):
    """The campaign was archived, or brought back."""

    archived: bool


class ReviewedBody(TypedDict):
    """A reviewer decided a question; the group is sealed."""

    question: int
    reviewer: str
    outcome: str
    outcomes: NotRequired[list[str]]


class BackupBody(TypedDict):
    """A backup was written."""

    name: str
    sha256: str
