"""The state of a campaign: what its events say, folded by `apod.campaign.fold.apply` and by nothing else.

Time is the campaign's own: it grows by what the database's clock shows to have passed between two events and never runs
backwards, so a clock that jumps can end a lease early but never brings one back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from apod.campaign.event_bodies import CreatedSettings

GOLD = "gold"
"""Purpose of a question whose answer is known: it checks annotators, teaches no model and costs no budget."""

VERIFICATION: Literal["verification"] = "verification"
"""Purpose of a question that tries a frozen correction; the open log and annotators take it for one to train on."""

Purpose = Literal["training", "verification", "audit"]
"""What an answer is for, gold apart."""

LEAST_GAIN = "least gain"
"""Why a campaign pauses by itself."""

GROUP, CANNOT_TELL, DECLINED = "group", "cannot_tell", "declined"
"""Outcomes of a question."""

OPEN = "open"
"""Of one attribute: a reviewer left it to the opinions."""


@dataclass(frozen=True)
class Proposal:
    """A row worth asking about, and why."""

    row: int
    reason: Mapping[str, object] = field(default_factory=dict, repr=False)  # JSON; "rule" is kept in the open log
    purpose: Purpose = "training"
    probability: float | None = None  # with which the row was drawn; None where a rule and no draw chose it


@dataclass(slots=True)
class Lease:
    """A question assigned to somebody. `token` is the number of its event: a later lease has a larger one."""

    token: int
    number: int
    annotator: str
    taken: int  # campaign time
    expires: int  # the same; once it has ended, when it did
    ended: str | None = None  # answered, skipped, released, expired, withdrawn
    answer: int | None = None  # its event


@dataclass(slots=True)
class Given:
    """An answer that was given; its group, if any, is sealed under the last of `values`."""

    seq: int
    token: int
    number: int
    row: int
    annotator: str
    kind: str
    outcome: str
    at: int
    late: bool
    counted: bool  # against the budget and towards the question's overlap
    told: str  # the outcome before any correction
    values: tuple[int, ...]  # its event, then those of its corrections
    withdrawn: bool = False
    erased: bool = False
    free: bool = False  # costs no budget: the person concerned gave it
    outcomes: tuple[str, ...] = ()  # by attribute, where there are several

    def outcome_of(self, attribute: int) -> str:
        """What came of asking about one attribute."""
        return self.outcomes[attribute] if self.outcomes else self.outcome


@dataclass(slots=True)
class Review:
    """What a reviewer decided about a question; its group, if any, is sealed under its event."""

    seq: int
    number: int
    reviewer: str
    outcome: str
    at: int
    values: tuple[int, ...]  # its event, after those of earlier decisions
    erased: bool = False
    outcomes: tuple[str, ...] = ()  # by attribute, where there are several; OPEN: not decided, opinions count

    def outcome_of(self, attribute: int) -> str:
        """What was decided about one attribute."""
        return self.outcomes[attribute] if self.outcomes else self.outcome


@dataclass(frozen=True)
class Backup:
    """A copy of the campaign that was made: nothing erased later is erased from it."""

    seq: int
    at: int
    name: str
    sha256: str


@dataclass(slots=True)
class Asked:
    """A row somebody was asked about."""

    number: int
    row: int
    purpose: str
    probability: float | None
    model: str | None
    rule: str | None
    seq: int
    at: int
    tokens: tuple[int, ...] = ()  # most questions have one lease and one answer: tuples, for there may be very many
    skipped: frozenset[str] = frozenset()
    given: tuple[int, ...] = ()


@dataclass(slots=True)
class State:
    """Everything the events say. Mutable, and changed by `fold.apply` alone."""

    seq: int = 0
    hash: str = ""
    origin: str = ""  # the first event's hash: what no annotator can know
    time: int = 0  # campaign time at the last event
    last_at: int | None = None  # the database's clock at the last event
    settings: CreatedSettings = field(default_factory=CreatedSettings)
    revised: dict[str, object] = field(default_factory=dict)  # settings the owner changed since, as they are now
    revisions: int = 0  # how often
    budget: int = 0
    overlap: int = 1
    finished: bool = False
    archived: bool = False
    paused: bool = False
    paused_because: str | None = None  # LEAST_GAIN; None where somebody paused it
    not_worth_more: bool = False  # paused by itself once: whoever goes on then wants the rest
    strength: float | None = None  # the operating point the owner chose; None: left to the classifier
    spent: int = 0
    answered: int = 0  # answers with a price, whatever their questions were for; never tell annotators `spent` instead
    clock_moves: int = 0
    changed: int = 0  # the last event that changed what the answers say
    frozen: list[int] = field(default_factory=list)  # events that froze a correction to verify; what it is is sealed
    model: str | None = None
    model_answers: int = 0
    model_added: int = 0  # how many additions of rows it knows
    added: list[Mapping[str, object]] = field(default_factory=list)  # files of rows that arrived later, batch by batch
    added_queue: int = -1  # proposals of this generation, and before, do not know them
    questions: dict[int, Asked] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)  # row -> its question, gold apart
    gold: dict[int, int] = field(default_factory=dict)  # row -> event that holds the known answer
    known: dict[int, int] = field(default_factory=dict)  # row -> event that holds the group it was handed in with
    known_audit: set[int] = field(default_factory=set)  # of those, held out for the audit
    known_partly: set[int] = field(default_factory=set)  # of those, with attributes that may still be asked about
    retired: set[int] = field(default_factory=set)  # rows that were gold or known until that answer was erased
    withdrawn: dict[int, str] = field(default_factory=dict)  # row -> why it can be put to nobody
    gold_of: dict[str, dict[int, int]] = field(default_factory=dict)  # annotator -> gold row -> its question
    leases: dict[int, Lease] = field(default_factory=dict)
    outstanding: dict[int, Lease] = field(default_factory=dict)  # neither answered nor given back
    tokens_of: dict[str, list[int]] = field(default_factory=dict)  # annotator -> all leases
    met: dict[str, int] = field(default_factory=dict)  # annotator -> how many different questions were put to them
    last_gold: dict[str, int] = field(default_factory=dict)  # annotator -> how many of these came before the last gold
    returned: dict[str, set[int]] = field(default_factory=dict)  # annotator -> questions they had and left unanswered
    incomplete: dict[int, None] = field(default_factory=dict)  # questions with room for an answer, oldest first
    answers: dict[int, Given] = field(default_factory=dict)
    acts: dict[str, list[int]] = field(default_factory=dict)  # annotator -> answers and skips that can be undone
    skips: dict[int, int] = field(default_factory=dict)  # event -> token
    keys: dict[str, int] = field(default_factory=dict)  # idempotency key -> event
    erased: set[int] = field(default_factory=set)  # events whose sealed value was erased
    erased_rows: set[int] = field(default_factory=set)  # rows an answer was erased of: nobody is asked about them again
    erased_parts: dict[int, frozenset[int]] = field(default_factory=dict)  # event -> attributes erased of its value
    models: dict[str, int] = field(default_factory=dict)  # model -> its event
    reviews: dict[int, Review] = field(default_factory=dict)  # question -> the latest decision about it
    receipts: dict[str, int] = field(default_factory=dict)  # hash of a receipt's code -> the answer
    backups: list[Backup] = field(default_factory=list)
    computed: dict[str, Mapping[str, str]] = field(default_factory=dict)  # from the materials alone: array -> file

    def now(self, at: int) -> int:
        """Campaign time when the database's clock shows `at`."""
        return self.time if self.last_at is None else self.time + max(0, at - self.last_at)

    def live(self, lease: Lease, now: int) -> bool:
        """Whether the lease still holds at this campaign time."""
        return lease.ended is None and now < lease.expires

    def pending(self, now: int) -> int:
        """Questions assigned to somebody that will cost budget when answered."""
        return sum(
            self.live(lease, now) and self.questions[lease.number].purpose != GOLD
            for lease in self.outstanding.values()
        )

    def filled(self, asked: Asked) -> int:
        """How many of the question's places are taken by answers: all once the person concerned has answered."""
        given = [self.answers[seq] for seq in asked.given]
        count = sum(one.counted and not one.withdrawn for one in given)
        return max(count, self.overlap) if any(one.free and not one.withdrawn for one in given) else count

    def has_price(self, outcome: str) -> bool:
        """Whether an answer with this outcome is paid for."""
        return outcome == GROUP or bool(self.settings.get("unanswered_costs", True))

    def priced(self, given: Given) -> bool:
        """Whether the answer stands and has a price, whatever its question was for."""
        return self.has_price(given.outcome) and not given.withdrawn and not given.free

    def costs(self, given: Given) -> bool:
        """Whether the answer is paid from the budget."""
        return self.priced(given) and given.counted and self.questions[given.number].purpose != GOLD

    def closed(self, row: int) -> bool:
        """Whether nobody new is to be asked about the row: it was asked about, or is or was gold or known."""
        return row in self.rows or row in self.gold or row in self.retired or self.fully_known(row)

    def fully_known(self, row: int) -> bool:
        """Whether all that could be asked about the row was handed in."""
        return row in self.known and row not in self.known_partly

    @property
    def unavailable(self) -> frozenset[int]:
        """Rows that nobody new is to be asked about."""
        known = self.known.keys() - self.known_partly
        return frozenset(self.rows) | frozenset(self.gold) | known | self.retired

    @property
    def group_counts(self) -> list[int]:
        """How many groups each attribute has."""
        several = self.settings.get("attributes")
        return [len(one["groups"]) for one in several] if several else [len(self.settings["groups"])]

    def id_of(self, token: int) -> str:
        """The id of a lease: how many questions were put to its annotator up to it, and its token.

        The question's own number stays out: it would tell a new question from one that others were asked before.
        """
        return f"{bisect_left(self.tokens_of[self.leases[token].annotator], token) + 1}-{token}"

    @property
    def standing(self) -> int:
        """Answers paid from the budget that are not erased."""
        return sum(self.costs(given) and not given.erased for given in self.answers.values())

    def current(self) -> Iterator[Given]:
        """Answers that stand, in the order of their questions, then of their arrival."""
        for asked in self.questions.values():
            for seq in asked.given:
                if not self.answers[seq].withdrawn:
                    yield self.answers[seq]
