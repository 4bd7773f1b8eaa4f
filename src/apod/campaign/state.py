"""The state of a campaign: a fold over its events, and nothing else.

`State.apply` is the only place where state changes, and it decides nothing: whether an answer counted or came late
stands in the event. Time is the campaign's own: it grows by what the database's clock shows to have passed between
two events and never runs backwards, so a clock that jumps can end a lease early but never brings one back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Literal

from apod.campaign.events import Event

GOLD = "gold"
"""Purpose of a question whose answer is known: it checks annotators, teaches no model and costs no budget."""

Purpose = Literal["training", "audit"]
"""What an answer is for, gold apart."""

LEAST_GAIN = "least gain"
"""Why a campaign pauses by itself."""

GROUP, CANNOT_TELL, DECLINED = "group", "cannot_tell", "declined"
"""Outcomes of a question."""


@dataclass(frozen=True)
class Proposal:
    """A row worth asking about, and why."""

    row: int
    reason: Mapping[str, Any] = field(default_factory=dict, repr=False)  # JSON; "rule" is kept in the open log
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
    """Everything the events say. Mutable, and changed by `apply` alone."""

    seq: int = 0
    hash: str = ""
    origin: str = ""  # the first event's hash: what no annotator can know
    time: int = 0  # campaign time at the last event
    last_at: int | None = None  # the database's clock at the last event
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: int = 0
    overlap: int = 1
    finished: bool = False
    paused: bool = False
    paused_because: str | None = None  # LEAST_GAIN; None where somebody paused it
    not_worth_more: bool = False  # paused by itself once: whoever goes on then wants the rest
    strength: float | None = None  # the operating point the owner chose; None: left to the classifier
    spent: int = 0
    answered: int = 0  # answers with a price, whatever their questions were for; never tell annotators `spent` instead
    clock_moves: int = 0
    changed: int = 0  # the last event that changed what the answers say
    model: str | None = None
    model_answers: int = 0
    questions: dict[int, Asked] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)  # row -> its question, gold apart
    gold: dict[int, int] = field(default_factory=dict)  # row -> event that holds the known answer
    known: dict[int, int] = field(default_factory=dict)  # row -> event that holds the group it was handed in with
    known_audit: set[int] = field(default_factory=set)  # of those, held out for the audit
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
    models: dict[str, int] = field(default_factory=dict)  # model -> its event
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
        """How many of the question's places are taken by answers."""
        return sum(self.answers[seq].counted and not self.answers[seq].withdrawn for seq in asked.given)

    def has_price(self, outcome: str) -> bool:
        """Whether an answer with this outcome is paid for."""
        return outcome == GROUP or bool(self.settings.get("unanswered_costs", True))

    def priced(self, given: Given) -> bool:
        """Whether the answer stands and has a price, whatever its question was for."""
        return self.has_price(given.outcome) and not given.withdrawn

    def costs(self, given: Given) -> bool:
        """Whether the answer is paid from the budget."""
        return self.priced(given) and given.counted and self.questions[given.number].purpose != GOLD

    def closed(self, row: int) -> bool:
        """Whether nobody new is to be asked about the row: it was asked about, or is or was gold or known."""
        return row in self.rows or row in self.gold or row in self.known or row in self.retired

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

    def apply(self, event: Event) -> None:
        """Take one event in. Events come in order and exactly once."""
        if event.seq != self.seq + 1:
            raise ValueError(f"event {event.seq} does not follow {self.seq}")
        self.time = self.now(event.at)
        self.last_at = event.at
        self.seq, self.hash = event.seq, event.hash
        self.origin = self.origin or event.hash
        _APPLY[event.kind](self, event, event.body)
        if event.kind in _CHANGES:
            self.changed = event.seq
        key = event.body.get("key")
        if key is not None:
            self.keys[key] = event.seq


def _created(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.settings = body["settings"]
    state.budget, state.overlap = body["settings"]["budget"], body["settings"]["overlap"]


def _asked(state: State, event: Event, body: Mapping[str, Any]) -> None:
    number, gold = body["question"], body["purpose"] == GOLD
    asked = state.questions.get(number)
    if asked is None:
        asked = state.questions[number] = Asked(
            number,
            body["row"],
            intern(body["purpose"]),
            body["probability"],
            _shared(body["model"]),
            _shared(body["rule"]),
            event.seq,
            event.at,
        )
        if not gold:
            state.rows[asked.row] = number
            state.incomplete[number] = None
    for token in body["expired"]:
        _end(state, token, "expired")
    lease = Lease(event.seq, asked.number, intern(body["annotator"]), state.time, state.time + body["lease_ms"])
    _put_to(state, asked, lease.annotator)
    asked.tokens += (lease.token,)
    state.leases[lease.token] = state.outstanding[lease.token] = lease
    state.tokens_of.setdefault(lease.annotator, []).append(lease.token)


def _answered(state: State, event: Event, body: Mapping[str, Any]) -> None:
    lease = state.leases[body["token"]]
    asked = state.questions[lease.number]
    own = (event.seq,)
    given = Given(
        seq=event.seq,
        token=lease.token,
        number=lease.number,
        row=asked.row,
        annotator=lease.annotator,
        kind=intern(body["kind"]),
        outcome=intern(body["outcome"]),
        at=event.at,
        late=body["late"],
        counted=body["counted"],
        told=intern(body["outcome"]),
        values=own,
    )
    asked.given += own  # the same object where it is the first: there may be very many
    state.answers[event.seq] = given
    lease.answer = event.seq
    state.acts.setdefault(lease.annotator, []).append(event.seq)
    state.spent += state.costs(given)
    state.answered += state.priced(given)
    _end(state, lease.token, "answered")
    for token in body.get("expired", ()):
        _end(state, token, "expired")
    state.returned.get(lease.annotator, set()).discard(lease.number)
    _settle(state, asked)


def _corrected(state: State, event: Event, body: Mapping[str, Any]) -> None:
    given = state.answers[body["answer"]]
    state.spent -= state.costs(given)
    state.answered -= state.priced(given)
    given.kind, given.outcome = body["kind"], body["outcome"]
    given.values += (event.seq,)
    state.spent += state.costs(given)
    state.answered += state.priced(given)


def _skipped(state: State, event: Event, body: Mapping[str, Any]) -> None:
    lease = state.leases[body["token"]]
    state.questions[lease.number].skipped |= {lease.annotator}
    state.skips[event.seq] = lease.token
    state.acts.setdefault(lease.annotator, []).append(event.seq)
    _end(state, lease.token, "skipped")


def _released(state: State, event: Event, body: Mapping[str, Any]) -> None:
    _end(state, body["token"], "released")


def _withdrawn(state: State, event: Event, body: Mapping[str, Any]) -> None:
    row = body["row"]
    state.withdrawn[row] = body["cause"]
    for token in [token for token, held in state.outstanding.items() if state.questions[held.number].row == row]:
        _end(state, token, "withdrawn")
    state.incomplete.pop(state.rows.get(row, 0), None)


def _undone(state: State, event: Event, body: Mapping[str, Any]) -> None:
    act = body["act"]
    state.acts[body["annotator"]].remove(act)
    if act in state.answers:
        given = state.answers[act]
        number = given.number
        state.spent -= state.costs(given)
        state.answered -= state.priced(given)
        given.withdrawn = True
        _settle(state, state.questions[number])
    else:
        lease = state.leases[state.skips[act]]
        number = lease.number
        state.questions[number].skipped -= {lease.annotator}
    state.returned.setdefault(body["annotator"], set()).add(number)


def _gold(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.gold[body["row"]] = event.seq


def _known(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.known[body["row"]] = event.seq
    if body["purpose"] == "audit":
        state.known_audit.add(body["row"])


def _refitted(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.model, state.model_answers = body["model"], body["answers"]
    state.models[body["model"]] = event.seq


def _erased(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.erased.update(body["sealed"])
    for seq in body["answers"]:
        state.answers[seq].erased = True
        acts = state.acts.get(state.answers[seq].annotator, [])
        if seq in acts:
            acts.remove(seq)
    for row in (*body["gold"], *body.get("known", ())):
        state.gold.pop(row, None)
        state.known.pop(row, None)
        state.retired.add(row)
    if state.model in body["models"]:
        state.model, state.model_answers = None, 0


def _budget(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.budget = body["budget"]


def _finished(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.finished = body["finished"]


def _paused(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.paused = body["paused"]
    state.paused_because = body.get("because")
    state.not_worth_more |= state.paused_because == LEAST_GAIN


def _chosen(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.strength = body["strength"]


def _computed(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.computed[body["name"]] = body["files"]


def _clock(state: State, event: Event, body: Mapping[str, Any]) -> None:
    state.clock_moves += 1


def _shared(text: str | None) -> str | None:
    """One object for equal texts: every event brings its own copy of the same few words."""
    return None if text is None else intern(text)


def _put_to(state: State, asked: Asked, annotator: str) -> None:
    """Note what an annotator meets; called before the lease is among the question's."""
    state.returned.get(annotator, set()).discard(asked.number)
    if all(state.leases[token].annotator != annotator for token in asked.tokens):
        before = state.met.get(annotator, 0)
        if asked.purpose == GOLD:
            state.gold_of.setdefault(annotator, {})[asked.row] = asked.number
            state.last_gold[annotator] = before
        state.met[annotator] = before + 1


def _end(state: State, token: int, how: str) -> None:
    lease = state.leases[token]
    lease.ended, lease.expires = how, min(lease.expires, state.time)
    state.outstanding.pop(token, None)
    if how in ("released", "expired"):
        state.returned.setdefault(lease.annotator, set()).add(lease.number)


def _settle(state: State, asked: Asked) -> None:
    """Keep the list of questions with room for an answer."""
    if asked.purpose == GOLD:
        return
    if asked.row in state.withdrawn or state.filled(asked) >= state.overlap:
        state.incomplete.pop(asked.number, None)
    else:
        state.incomplete[asked.number] = None


_CHANGES = {"answered", "corrected", "undone", "erased", "gold", "known"}

_APPLY = {
    "created": _created,
    "asked": _asked,
    "answered": _answered,
    "corrected": _corrected,
    "skipped": _skipped,
    "released": _released,
    "withdrawn": _withdrawn,
    "undone": _undone,
    "gold": _gold,
    "known": _known,
    "refitted": _refitted,
    "erased": _erased,
    "budget": _budget,
    "finished": _finished,
    "paused": _paused,
    "chosen": _chosen,
    "computed": _computed,
    "clock": _clock,
}
