"""Commands that put questions into people's hands and take them back."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from apod.campaign import schema
from apod.campaign.errors import CampaignFinished, Conflict, NotFound, NotYours, UnknownQuestion
from apod.campaign.events import Sealed
from apod.campaign.journal import Desk, Queued
from apod.campaign.state import GOLD, Asked, Lease, State

Why = Literal["question", "done", "wait", "preparing", "paused", "finished", "exhausted"]


@dataclass(frozen=True)
class Leased:
    """A question in somebody's hands."""

    token: int
    number: int
    row: int
    annotator: str
    expires_at: int  # by the database's clock, milliseconds since 1970


@dataclass(frozen=True)
class Nothing:
    """No question, and why: all asked for, all in others' hands for now, campaign ended, nobody left in the pool."""

    why: Why
    retry_after: float | None = None  # seconds until a lease runs out
    with_others: int = 0  # questions in other people's hands


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
    """One more question for the annotator: one that was given back, or the next proposal."""
    state, now = desk.state, desk.now
    if state.finished:
        return Nothing("finished")
    pending = state.pending(now)
    if state.spent + pending >= state.budget:
        return _busy(state, now) if state.spent < state.budget else Nothing("done")
    gold = _due_gold(state, annotator)
    if gold is not None:
        return lease(desk, state.questions.get(state.gold_questions.get(gold, 0)), annotator, row=gold)
    freed = _freed(state, annotator, now)
    if freed is not None:
        return lease(desk, freed, annotator)
    queued = desk.next_proposal()
    return Starved(desk.queue) if queued is None else lease(desk, None, annotator, queued=queued)


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


def undo(desk: Desk, annotator: str, key: str | None) -> Leased | None:
    """Take the annotator's last answer or skip back, and put the question into their hands again if it is free."""
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
    in_hands = _in_hands(state, now)[number]
    gold = asked.purpose == GOLD
    room = gold or state.filled(asked) + in_hands < state.overlap
    if room and not has_answered(state, asked, annotator) and (gold or state.spent + state.pending(now) < state.budget):
        return lease(desk, asked, annotator)
    return None


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
        reason = queued.reason
        rule = reason.get("rule")
        body = {
            "question": len(state.questions) + 1,
            "row": queued.row,
            "purpose": queued.purpose,
            "probability": queued.probability,
            "model": queued.model,
            "rule": None if rule is None else str(rule),
        }
        seal = Sealed(reason)
    else:
        body = {"question": len(state.questions) + 1, "row": row, "purpose": GOLD, "rule": None}
        body |= {"probability": None, "model": None}
    if lease_ms is None:
        lease_ms = round(1000 * float(state.settings["lease_seconds"]))
    body |= {"annotator": annotator, "lease_ms": lease_ms, "expired": expired}
    token = desk.append("asked", body, seal, schema.reasons)
    return leased(state, state.leases[token])


def leased(state: State, held: Lease) -> Leased:
    """The lease as the annotator's side sees it; the same every time."""
    expires_at = (state.last_at or 0) + held.expires - state.time
    return Leased(held.token, held.number, state.questions[held.number].row, held.annotator, expires_at)


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


def _in_hands(state: State, now: int) -> Counter[int]:
    """How many people hold each question."""
    return Counter(held.number for held in state.outstanding.values() if state.live(held, now))


def _freed(state: State, annotator: str, now: int) -> Asked | None:
    """The oldest question that has room for an answer of this annotator, who neither holds nor answered it."""
    in_hands = _in_hands(state, now)
    mine = {held.number for held in held_leases(state, annotator, now)}
    for number in sorted(number for number in state.incomplete if in_hands[number] < state.overlap):
        asked = state.questions[number]
        taken = state.filled(asked) + in_hands[number]
        if taken >= state.overlap or number in mine or annotator in asked.skipped:
            continue
        if not has_answered(state, asked, annotator):
            return asked
    return None


def has_answered(state: State, asked: Asked, annotator: str) -> bool:
    """Whether an answer of this annotator to the question stands."""
    mine = (state.answers[seq] for seq in asked.given)
    return any(given.annotator == annotator and not given.withdrawn for given in mine)


def _due_gold(state: State, annotator: str) -> int | None:
    """A gold row for this annotator, once per so many questions; each annotator meets them in an order of their own."""
    if not state.gold:
        return None
    mine = [state.leases[token].number for token in state.tokens_of.get(annotator, ())]
    seen = {state.questions[number].row for number in mine if state.questions[number].purpose == GOLD}
    ordinary = len({number for number in mine if state.questions[number].purpose != GOLD})
    every = int(state.settings["gold_every"])
    left = [row for row in state.gold if row not in seen]
    if not left or ordinary < (len(seen) + 1) * every - (len(seen) + 1):
        return None
    return min(left, key=lambda row: hashlib.sha256(f"{annotator}\x1f{row}".encode()).digest())


def _busy(state: State, now: int) -> Nothing:
    waits = [held.expires - now for held in state.outstanding.values() if state.live(held, now)]
    return Nothing("wait", min(waits) / 1000 if waits else None, len(waits))
