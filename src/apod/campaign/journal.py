"""The one way into a campaign's log: commands that look at the state and append events.

A command is a function of a `Desk`. Commands of all threads that wait at the same moment share one transaction and
one durable commit; a command that raises has appended nothing and spoils nothing for the others. Between processes
the campaign's row is the lock. Nothing is returned to a caller before its events are durable.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Select, Table, bindparam, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.elements import ColumnClause

from apod.campaign import schema
from apod.campaign.errors import NotFound, StoreError
from apod.campaign.events import GENESIS, Event, Sealed, canonical, link, stored_value
from apod.campaign.fold import apply
from apod.campaign.state import Proposal, Purpose, State
from apod.campaign.store import Store
from apod.errors import ApodError

T = TypeVar("T")
BATCH = 256  # commands per commit
CLOCK_TOLERANCE = 1000  # ms by which two readings of one clock may disagree without its having been moved


class Queued(NamedTuple):
    """A proposal as it waits in the database, and the model that made it."""

    row: int
    purpose: Purpose
    probability: float | None
    reason_text: str  # JSON, read where it is needed: most proposals are replaced before anybody is asked
    model: str | None

    @property
    def reason(self) -> dict[str, object]:
        """Why the row was proposed."""
        found: dict[str, object] = json.loads(self.reason_text)
        return found


class Desk:
    """What a command works with, inside one write transaction that holds the campaign's lock."""

    def __init__(self, journal: Journal, connection: Connection, state: State, head: Any) -> None:
        self.connection, self.state, self.campaign = connection, state, journal.campaign
        self.at: int = head.now + journal.store.skew()
        self.queue: int = head.queue
        self.written: list[tuple[Event, str]] = []
        self.sealed: dict[int, tuple[Table, Sealed]] = {}
        self._journal = journal
        self._queue_before = head.queue

    @property
    def now(self) -> int:
        """Campaign time."""
        return self.state.now(self.at)

    def append(
        self, kind: str, body: Mapping[str, object], seal: Sealed | None = None, table: Table | None = None
    ) -> int:
        """Write an event (and seal a value for it), fold it into the state, return its number."""
        seq, commitment = self.state.seq + 1, seal.commitment if seal is not None else None
        text = canonical(body)
        chained = link(self.state.hash or GENESIS, seq, self.at, kind, text, commitment)
        event = Event(seq, self.at, kind, json.loads(text), commitment, chained)
        self.written.append((event, text))
        if seal is not None:
            self.sealed[seq] = (schema.answers if table is None else table, seal)
        apply(self.state, event)
        return seq

    def answer(self, seq: int) -> Any:
        """The sealed answer of an event; None where it was erased."""
        if seq in self.sealed:
            return self.sealed[seq][1].value
        return read_answers(self.connection, self.campaign, [seq]).get(seq)

    def texts(self, seqs: Sequence[int]) -> dict[int, str]:
        """Sealed answers as they are stored, by event; those of this very batch are sent first."""
        if any(seq in self.sealed for seq in seqs):
            self._send_sealed()
        table = schema.answers
        query = select(table.c.seq, table.c.value).where(table.c.campaign == self.campaign, table.c.seq.in_(seqs))
        return {row.seq: row.value for row in self.connection.execute(query)}

    def next_proposal(self) -> Queued | None:
        """The best waiting proposal nobody was asked about yet."""
        return self._journal.next_queued(self.connection, self.queue)

    def publish(self, proposals: Iterable[Proposal], model: str | None) -> None:
        """Replace the waiting proposals."""
        self.connection.execute(delete(schema.proposals).where(schema.proposals.c.campaign == self.campaign))
        rows = [
            {
                "campaign": self.campaign,
                "rank": rank,
                "row": int(item.row),
                "purpose": item.purpose,
                "probability": item.probability,
                "reason": canonical(item.reason),
                "model": model,
            }
            for rank, item in enumerate(proposals)
        ]
        if rows:
            self.connection.execute(insert(schema.proposals), rows)
        self.queue += 1

    def flush(self) -> None:
        """Send what was appended to the database."""
        if self.written:
            self.connection.execute(_ADD_EVENT, [_event_row(self.campaign, *item) for item in self.written])
        self._send_sealed()
        if self.written or self.queue != self._queue_before:
            self.connection.execute(
                _MOVE_HEAD,
                {"c": self.campaign, "seq": self.state.seq, "hash": self.state.hash, "generation": self.queue},
            )

    def _send_sealed(self) -> None:
        for table, statement in _ADD_SEALED:
            rows = [
                {"campaign": self.campaign, "seq": seq, "salt": seal.salt, "value": seal.text}
                for seq, (into, seal) in self.sealed.items()
                if into is table
            ]
            if rows:
                self.connection.execute(statement, rows)
        self.sealed.clear()


@dataclass(eq=False)
class _Slot(Generic[T]):
    """A command in line. Its thread sleeps on `called` until it is served, or called to serve."""

    command: Callable[[Desk], T]
    called: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False
    value: T | None = None
    error: BaseException | None = None

    def result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


@dataclass(eq=False)
class Journal:
    """The log of one campaign, its cached fold, and the queue of commands."""

    store: Store
    campaign: int
    _state: State = field(default_factory=State)
    _turn: threading.Lock = field(default_factory=threading.Lock)  # whoever touches the state
    _line: threading.Lock = field(default_factory=threading.Lock)  # whoever touches the line
    _serving: bool = False
    _waiting: deque[_Slot[Any]] = field(default_factory=deque)
    _queued: tuple[int, Sequence[Queued]] = (-1, ())
    _passed: int = 0  # proposals of it known to be asked about: a row once asked about stays so

    def __post_init__(self) -> None:
        look = _head_query(self.store.clock)
        self._heads = {False: look, True: look.with_for_update()}

    def submit(self, command: Callable[[Desk], T]) -> T:
        """Run a command; return when what it appended is durable."""
        slot = _Slot(command)
        slot.called.acquire()
        with self._line:
            self._waiting.append(slot)
            first, self._serving = not self._serving, True
        if not first:
            try:
                slot.called.acquire()
            except BaseException:  # Ctrl-C: others must not wait for somebody who has left
                self._leave(slot)
                raise
        if not slot.done:  # first in line: serve all that wait, then call the next
            self._serve_all()
        return slot.result()

    def _serve_all(self) -> None:
        batch: list[_Slot[Any]] = []
        try:
            with self._turn:
                with self._line:
                    batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._serve(batch)
        finally:
            self._call_next()
            for slot in batch:
                slot.done = True
                slot.called.release()

    def _call_next(self) -> None:
        with self._line:
            following = self._waiting[0] if self._waiting else None
            self._serving = following is not None
        if following is not None:
            following.called.release()

    def _leave(self, slot: _Slot[Any]) -> None:
        with self._line:
            if slot in self._waiting:
                self._waiting.remove(slot)
        if slot.called.acquire(blocking=False) and not slot.done:
            self._call_next()

    def view(self, look: Callable[[Connection, State, int], T]) -> T:
        """What a function sees in the latest state (and the database's time); it must not change it."""
        with self._turn, self.store.reading() as connection:
            head = self._head(connection, lock=False)
            try:
                self._catch_up(connection, head)
            except BaseException:
                self._forget()
                raise
            return look(connection, self._state, head.now + self.store.skew())

    def head(self) -> int:
        """The number of the latest event; nothing is folded."""
        with self.store.reading() as connection:
            return int(self._head(connection, lock=False).last_seq)

    def _serve(self, batch: list[_Slot[Any]]) -> None:
        try:
            with self.store.writing() as connection:
                desk = self.desk(connection)
                for slot in batch:
                    self._run(desk, slot)
                desk.flush()
        except BaseException as error:
            self._forget()
            for slot in batch:  # before anything else can fail: nobody may keep a receipt of what was rolled back
                slot.value, slot.error = None, _interrupted()
            if isinstance(error, ApodError):
                for slot in batch:  # an error of their own: a shared one would collect all their tracebacks
                    slot.error = copy(error)
            if not isinstance(error, ApodError):
                raise

    def _run(self, desk: Desk, slot: _Slot[Any]) -> None:
        before = len(desk.written)
        try:
            slot.value = slot.command(desk)
        except SQLAlchemyError:
            raise
        except Exception as error:
            if len(desk.written) != before:  # half a command must not become durable
                raise
            slot.error = error

    def desk(self, connection: Connection) -> Desk:
        """Take the campaign's lock and lay out its latest state; the caller flushes."""
        head = self._head(connection, lock=True)
        self._catch_up(connection, head)
        desk = Desk(self, connection, self._state, head)
        self._note_clock(desk)
        return desk

    def _note_clock(self, desk: Desk) -> None:
        last = desk.state.last_at
        if last is not None and desk.at < last - CLOCK_TOLERANCE:
            desk.append("clock", {"behind_ms": last - desk.at})

    def _head(self, connection: Connection, lock: bool) -> Any:
        head = connection.execute(self._heads[lock], {"c": self.campaign}).first()
        if head is None:
            raise NotFound(f"The campaign is no longer in {self.store.label}: restore a backup.")
        return head

    def _catch_up(self, connection: Connection, head: Any) -> None:
        if self._state.seq > head.last_seq or (self._state.seq == head.last_seq and self._state.hash != head.last_hash):
            self._forget()  # the database was restored from a backup under our feet
        if self._state.seq < head.last_seq:
            for event in read_events(connection, self.campaign, self._state.seq, head.last_seq):
                says = event.seq == 1 or event.kind == "added"  # what is shown and learnt from
                if says and _hash_after(self._state.hash, event) != event.hash:
                    what = "the log's first event was changed" if event.seq == 1 else "an addition of rows was changed"
                    raise self._changed(what)
                apply(self._state, event)
            if self._state.hash != head.last_hash:
                raise self._changed("the log does not end where its head says")

    def _changed(self, what: str) -> StoreError:
        remedy = "Run `apod log verify` and restore a backup; nothing was recorded."
        return StoreError(f"{self.store.label}: {what}. {remedy}")

    def _forget(self) -> None:
        self._state = State()
        self._queued, self._passed = (-1, ()), 0

    def queued(self, connection: Connection, generation: int) -> Sequence[Queued]:
        """The waiting proposals of a generation, read once."""
        if self._queued[0] != generation:
            table = schema.proposals
            columns = (table.c.row, table.c.purpose, table.c.probability, table.c.reason, table.c.model)
            query = select(*columns).where(table.c.campaign == self.campaign).order_by(table.c.rank)
            self._queued = generation, [Queued(*row) for row in connection.execute(query)]
            self._passed = 0
        return self._queued[1]

    def next_queued(self, connection: Connection, generation: int) -> Queued | None:
        """The first of a generation that is neither asked about nor gold."""
        queued = self.queued(connection, generation)
        while self._passed < len(queued):
            if not self._state.closed(queued[self._passed].row):
                return queued[self._passed]
            self._passed += 1
        return None


def read_events(connection: Connection, campaign: int, after: int = 0, upto: int | None = None) -> list[Event]:
    """Events of a campaign in order."""
    table = schema.events
    query = select(table).where(table.c.campaign == campaign, table.c.seq > after).order_by(table.c.seq)
    if upto is not None:
        query = query.where(table.c.seq <= upto)
    return [
        Event(row.seq, row.at, row.kind, json.loads(row.body), row.commitment, row.hash)
        for row in connection.execute(query)
    ]


def _hash_after(previous: str, event: Event) -> str:
    return link(previous or GENESIS, event.seq, event.at, event.kind, canonical(event.body), event.commitment)


def read_answers(connection: Connection, campaign: int, seqs: Sequence[int] | None = None) -> dict[int, Any]:
    """Sealed answers by event; all of the campaign's, or those of some events."""
    table = schema.answers
    query = select(table.c.seq, table.c.value).where(table.c.campaign == campaign)
    if seqs is not None:
        query = query.where(table.c.seq.in_(seqs))
    return {row.seq: stored_value(row.value) for row in connection.execute(query)}


def _event_row(campaign: int, event: Event, text: str) -> dict[str, object]:
    return {
        "campaign": campaign,
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "body": text,
        "commitment": event.commitment,
        "hash": event.hash,
    }


def _head_query(clock: ColumnClause[Any]) -> Select[Any]:
    table = schema.campaigns
    found = select(table.c.last_seq, table.c.last_hash, table.c.queue, clock.label("now"))
    return found.where(table.c.id == bindparam("c"))


# built once: building a statement costs more than running it
_ADD_EVENT = insert(schema.events)
_ADD_SEALED = tuple((table, insert(table)) for table in (schema.answers, schema.reasons))
_MOVE_HEAD = (
    update(schema.campaigns)
    .where(schema.campaigns.c.id == bindparam("c"))
    .values(last_seq=bindparam("seq"), last_hash=bindparam("hash"), queue=bindparam("generation"))
)


def _interrupted() -> StoreError:
    return StoreError("The call was interrupted before it was recorded: repeat it.")
