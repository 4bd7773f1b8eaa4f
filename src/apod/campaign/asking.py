"""Commands that assign questions to people and take them back, and what an annotator's side sees of them.

A gold question must not be recognisable. It comes at a random place among so many, only where another could have come,
under an id like any other. Whether it comes again and whether a late answer to it counts goes by what would become of
any other question left at that moment: the next person who asks gets it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from apod.campaign import schema
from apod.campaign.errors import CampaignFinished, Conflict, NotFound, NotYours, UnknownQuestion
from apod.campaign.events import Sealed
from apod.campaign.journal import Desk, Queued
from apod.campaign.settings import Attribute
from apod.campaign.state import GOLD, Asked, Given, Lease, State

Why = Literal["question", "done", "wait", "preparing", "paused", "finished", "exhausted"]


@dataclass(frozen=True)
class Leased:
    """A question assigned to somebody."""

    id: str
    token: int
    number: int
    row: int
    annotator: str
    expires_at: int  # by the database's clock, milliseconds since 1970


@dataclass(frozen=True)
class Nothing:
    """No question, and why: all asked for, all assigned to others for now, campaign ended, nobody left in the pool."""

    why: Why
    retry_after: float | None = None  # seconds until a lease runs out
    with_others: int = 0  # questions assigned to others


@dataclass(frozen=True)
class Starved:
    """There is budget, but no proposal waits: the pool has to be looked at again."""

    queue: int


def ask(desk: Desk, annotator: str) -> Leased | Nothing | Starved:
    """The annotator's question: the one already held, one that was given back, or the next proposal."""
    held, otherwise = hand(desk, annotator, 1)
    return held[0] if otherwise is None else otherwise


def hand(desk: Desk, annotator: str, count: int) -> tuple[list[Leased], Nothing | Starved | None]:
    """Up to so many questions for the annotator, those already held first; if none at all, why."""
    if desk.state.paused:
        return [], Nothing("paused")
    held = [leased(desk.state, found) for found in held_leases(desk.state, annotator, desk.now)[:count]]
    while len(held) < count:
        found = _another(desk, annotator)
        if not isinstance(found, Leased):
            return held, None if held else found
        held.append(found)
    return held, None


def _another(desk: Desk, annotator: str) -> Leased | Nothing | Starved:
    """One more question for the annotator: one they left unanswered, gold if it is due, one of others, a proposal."""
    state, now = desk.state, desk.now
    if state.finished:
        return Nothing("finished")
    pending = state.pending(now)
    if state.spent + pending >= state.budget:
        return _busy(state, now) if state.spent < state.budget else Nothing("done")
    assigned = _assigned(state, now)
    returned = _returned(state, annotator, assigned, now)
    if returned is not None:
        return lease(desk, returned, annotator)
    freed = _freed(state, annotator, assigned, now)
    queued = desk.next_proposal() if freed is None else None
    if freed is None and queued is None:
        return Starved(desk.queue)
    gold = _due_gold(state, annotator)
    if gold is not None:
        return lease(desk, None, annotator, row=gold)
    return lease(desk, freed, annotator, queued=queued)


def skip(desk: Desk, token: int, annotator: str | None, key: str | None) -> bool:
    """Give a question back for others to answer; False where it was given back before."""
    state = desk.state
    held = find_lease(state, token, annotator)
    if key is not None and key in state.keys:
        if state.skips.get(state.keys[key]) != token:
            raise Conflict("This key was used for something else: use a new one.")
        return False
    if held.ended == "answered":
        raise Conflict("This question is answered: undo the answer instead of skipping.")
    if held.ended == "skipped":
        return False
    desk.append("skipped", {"token": token, **keyed(key)})
    return True


def withdraw(desk: Desk, row: int, cause: str) -> None:
    """Take the questions about a row back from everybody for good: they can be put to nobody, and cost nothing."""
    if row not in desk.state.withdrawn:
        desk.append("withdrawn", {"row": row, "cause": cause})


def undo(desk: Desk, annotator: str, key: str | None) -> Leased | None:
    """Take the annotator's last answer or skip back, and assign the question to them again if it is free."""
    state = desk.state
    if key is not None and key in state.keys:
        still = held_leases(state, annotator, desk.now)
        return leased(state, still[0]) if still else None
    if state.finished:
        raise CampaignFinished("The campaign is finished: nothing can be undone. Correct the answer instead.")
    acts = state.acts.get(annotator)
    if not acts:
        raise NotFound("There is nothing left to undo for this annotator.")
    act = acts[-1]
    number = state.answers[act].number if act in state.answers else state.leases[state.skips[act]].number
    for held in held_leases(state, annotator, desk.now):  # what was shown in the meantime waits for its turn
        desk.append("released", {"token": held.token, "cause": "undo"})
    desk.append("undone", {"act": act, "annotator": annotator, **keyed(key)})
    asked, now = state.questions[number], desk.now
    budget = state.spent + state.pending(now) < state.budget
    if asked.purpose == GOLD and act in state.answers:  # any other answer would have kept its place, or paid for it
        given = state.answers[act]
        room = given.counted and (budget or state.has_price(given.outcome))
    else:
        room = budget and _has_room(state, asked, annotator, _assigned(state, now), now)
    closed = asked.row in state.withdrawn or asked.row in state.erased_rows
    return lease(desk, asked, annotator) if room and not closed else None


def lease(
    desk: Desk,
    asked: Asked | None,
    annotator: str,
    *,
    queued: Queued | None = None,
    row: int | None = None,
    lease_ms: int | None = None,
) -> Leased:
    """Write that the annotator holds the question: one asked before, a new proposal, or a gold row."""
    state, now = desk.state, desk.now
    seal, expired = None, []
    if asked is not None:
        body = {
            "question": asked.number,
            "row": asked.row,
            "purpose": asked.purpose,
            "probability": asked.probability,
            "model": asked.model,
            "rule": asked.rule,
        }
        expired = [token for token in asked.tokens if _expired(state.leases[token], now)]
    elif queued is not None:
        body = {"question": len(state.questions) + 1, "row": queued.row, "model": queued.model}
        opened, reason = _in_the_open(state, queued)
        body |= opened
        seal = Sealed(reason)
    else:
        body = {"question": len(state.questions) + 1, "row": row, "purpose": GOLD, "rule": None}
        body |= {"probability": None, "model": None}
    if lease_ms is None:
        lease_ms = round(1000 * float(state.settings["lease_seconds"]))
    body |= {"annotator": annotator, "lease_ms": lease_ms, "expired": expired}
    token = desk.append("asked", body, seal, schema.reasons)
    return leased(state, state.leases[token])


def _in_the_open(state: State, queued: Queued) -> tuple[dict[str, object], dict[str, object]]:
    """What of a proposal goes into the open log, and what is sealed.

    Where a campaign verifies its correction, rule and probability of a question are sealed as well: they would tell
    those that verify, whose decision changes, from those that train.
    """
    reason = queued.reason
    rule = reason.get("rule")
    told: dict[str, object] = {
        "purpose": queued.purpose,
        "probability": queued.probability,
        "rule": None if rule is None else str(rule),
    }
    if queued.purpose == "audit" or not state.settings.get("verify_share", 0.0):
        return told, reason
    return {"purpose": "training", "probability": None, "rule": None}, {**reason, **told}


def leased(state: State, held: Lease) -> Leased:
    """The lease as the annotator's side sees it; the same every time."""
    expires_at = (state.last_at or 0) + held.expires - state.time
    row = state.questions[held.number].row
    return Leased(state.id_of(held.token), held.token, held.number, row, held.annotator, expires_at)


def held_leases(state: State, annotator: str, now: int) -> list[Lease]:
    """The questions the annotator holds now, the oldest first."""
    return [held for held in state.outstanding.values() if held.annotator == annotator and state.live(held, now)]


def find_lease(state: State, token: int, annotator: str | None) -> Lease:
    """A lease by its token, if it is this annotator's (or nobody asks whose it is)."""
    found = state.leases.get(token)
    if found is None:
        raise UnknownQuestion
    if annotator is not None and found.annotator != annotator:
        raise NotYours("This question was put to another annotator: ask for one of your own.")
    return found


def keyed(key: str | None) -> dict[str, str]:
    """The part of an event's body that remembers an idempotency key."""
    return {} if key is None else {"key": key}


def _expired(held: Lease, now: int) -> bool:
    return held.ended is None and now >= held.expires


def _assigned(state: State, now: int) -> Counter[int]:
    """How many people hold each question."""
    return Counter(held.number for held in state.outstanding.values() if state.live(held, now))


def own_answer(state: State, row: int, annotator: str) -> Given | None:
    """The annotator's answer about a row that stands, whatever it was asked for."""
    numbers = (state.rows.get(row), state.gold_of.get(annotator, {}).get(row))
    given = (state.answers[seq] for number in numbers if number is not None for seq in state.questions[number].given)
    return next((one for one in given if one.annotator == annotator and not one.withdrawn), None)


def would_be_taken(state: State, gold: Asked, annotator: str, since: int) -> bool:
    """Whether others would have a question by now that this annotator left then, if it were no gold one.

    Whoever asks gets the oldest question that is free, so those who were given a newer one would have had it. How many
    of its places others had before is drawn: of as many places, each is as often the first, the second, ...
    """
    places = state.overlap - _draw(state, annotator, "place", gold.row) % state.overlap
    others: set[str] = set()
    for held in reversed(state.leases.values()):
        if held.taken < since or len(others) == places:
            break
        newer = held.number > gold.number and state.questions[held.number].purpose != GOLD
        others |= {held.annotator} - {annotator} if newer else set()
    return len(others) == places


def _returned(state: State, annotator: str, assigned: Counter[int], now: int) -> Asked | None:
    """The first question that the annotator had and left unanswered, if it is still to be had."""
    lapsed = (held.number for held in state.outstanding.values() if held.annotator == annotator)
    numbers = {*state.returned.get(annotator, ()), *lapsed}
    free = [state.questions[n] for n in numbers if _has_room(state, state.questions[n], annotator, assigned, now)]
    return min(free, key=lambda asked: _own_leases(state, asked, annotator)[-1].token, default=None)


def _freed(state: State, annotator: str, assigned: Counter[int], now: int) -> Asked | None:
    """The oldest question of others that has room for an answer of this annotator."""
    for number in sorted(number for number in state.incomplete if assigned[number] < state.overlap):
        if _has_room(state, state.questions[number], annotator, assigned, now):
            return state.questions[number]
    return None


def _has_room(state: State, asked: Asked, annotator: str, assigned: Counter[int], now: int) -> bool:
    """Whether the annotator may have the question: it is free, and they neither hold, skipped nor answered it."""
    mine = _own_leases(state, asked, annotator)
    if asked.row in state.withdrawn or annotator in asked.skipped or any(state.live(held, now) for held in mine):
        return False
    if asked.row in state.erased_rows or own_answer(state, asked.row, annotator) is not None:
        return False
    if asked.purpose == GOLD:
        return bool(mine) and not would_be_taken(state, asked, annotator, mine[-1].expires)
    as_gold = asked.row in state.gold_of.get(annotator, {})
    return not as_gold and state.filled(asked) + assigned[asked.number] < state.overlap


def _own_leases(state: State, asked: Asked, annotator: str) -> list[Lease]:
    """The annotator's leases of a question, the oldest first."""
    return [state.leases[token] for token in asked.tokens if state.leases[token].annotator == annotator]


def _due_gold(state: State, annotator: str) -> int | None:
    """A gold row for this annotator: one in so many questions, at a place and in an order nobody can foretell."""
    every = int(state.settings["gold_every"])
    block, place = divmod(state.met.get(annotator, 0), every)
    if state.last_gold.get(annotator, -1) >= block * every or place < _draw(state, annotator, "block", block) % every:
        return None
    gone = state.withdrawn.keys() | state.erased_rows
    left = [row for row in state.gold if row not in gone and not _was_put(state, row, annotator)]
    return min(left, key=lambda row: _draw(state, annotator, "row", row), default=None)


def _draw(state: State, annotator: str, what: str, number: int) -> int:
    """A number that depends on its arguments and on what no annotator knows."""
    text = f"{state.origin}\x1f{annotator}\x1f{what}\x1f{number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _was_put(state: State, row: int, annotator: str) -> bool:
    """Whether the annotator was ever asked about the row."""
    asked = state.questions.get(state.rows.get(row, 0))
    put = asked is not None and bool(_own_leases(state, asked, annotator))
    return put or row in state.gold_of.get(annotator, {})


def waiting_for_others(state: State, now: int) -> Nothing:
    """Why nobody can be proposed: others hold the last questions before a correction is verified, or nobody is left."""
    found = _busy(state, now)
    return found if state.settings.get("verify_share", 0.0) and found.with_others else Nothing("exhausted")


def _busy(state: State, now: int) -> Nothing:
    waits = [held.expires - now for held in state.outstanding.values() if state.live(held, now)]
    return Nothing("wait", min(waits) / 1000 if waits else None, len(waits))


@dataclass(frozen=True)
class Question:
    """One case put to one annotator: what may be seen of it, and nothing of what a model or others think."""

    id: str
    campaign: str
    annotator: str
    row: int
    row_id: str
    display: Mapping[str, object] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)  # of the first attribute
    expires_at: str  # ISO 8601, by the database's clock
    label: str | None = field(default=None, repr=False)
    image: str | None = None
    attributes: tuple[Attribute, ...] = field(default=(), repr=False)  # all that are asked about, with their groups

    def to_json(self) -> dict[str, object]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Turn:
    """A question, or why there is none now.

    why  "question"; "done": the budget is spent; "wait": what remains is assigned to others (`with_others` questions),
         for `retry_after` seconds at most; "paused": by the owner, or by its least gain;
         "finished": the campaign was ended; "exhausted": nobody is left to ask about
    """

    question: Question | None
    why: Why
    retry_after: float | None = None
    with_others: int = 0

    def to_json(self) -> dict[str, object]:
        """As plain JSON."""
        return asdict(self)


def parse_id(text: object) -> tuple[int, int]:
    """Place and token of a question id (see `State.id_of`)."""
    place, dash, token = str(text)[:50].strip().partition("-")
    if not (dash and place.isascii() and place.isdigit() and token.isascii() and token.isdigit()):
        raise UnknownQuestion
    return int(place), int(token)
