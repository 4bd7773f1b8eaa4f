"""Events folded into state, one after the other.

`apply` is the only place where a `State` changes, and it decides nothing: whether an answer counted or came late stands
in the event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any

from apod.campaign.event_bodies import (
    AddedBody,
    AnsweredBody,
    ArchivedBody,
    AskedBody,
    BackupBody,
    BudgetBody,
    ChosenBody,
    ComputedBody,
    CorrectedBody,
    CreatedBody,
    ErasedBody,
    FinishedBody,
    FrozenBody,
    KnownBody,
    PausedBody,
    RefittedBody,
    ReviewedBody,
    RevisedBody,
    RowBody,
    TokenBody,
    UndoneBody,
    WithdrawnBody,
)
from apod.campaign.events import Event
from apod.campaign.state import GOLD, LEAST_GAIN, Asked, Backup, Given, Lease, Review, State


def apply(state: State, event: Event) -> None:
    """Take one event in. Events come in order and exactly once."""
    if event.seq != state.seq + 1:
        raise ValueError(f"event {event.seq} does not follow {state.seq}")
    state.time = state.now(event.at)
    state.last_at = event.at
    state.seq, state.hash = event.seq, event.hash
    state.origin = state.origin or event.hash
    _APPLY[event.kind](state, event, event.body)
    if event.kind in _CHANGES:
        state.changed = event.seq
    key = event.body.get("key")
    if key is not None:
        state.keys[key] = event.seq


def _created(state: State, event: Event, body: CreatedBody) -> None:
    state.settings = body["settings"]
    state.budget, state.overlap = body["settings"]["budget"], body["settings"]["overlap"]


def _asked(state: State, event: Event, body: AskedBody) -> None:
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


def _answered(state: State, event: Event, body: AnsweredBody) -> None:
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
        told=intern(",".join(body.get("outcomes", (body["outcome"],)))),
        values=own,
        free=body.get("free", False),
        outcomes=_by_attribute(body.get("outcomes")),
    )
    asked.given += own  # the same object where it is the first: there may be very many
    state.answers[event.seq] = given
    receipt = body.get("receipt")
    if receipt is not None:
        state.receipts[receipt] = event.seq
    lease.answer = event.seq
    state.acts.setdefault(lease.annotator, []).append(event.seq)
    state.spent += state.costs(given)
    state.answered += state.priced(given)
    _end(state, lease.token, "answered")
    for token in body.get("expired", ()):
        _end(state, token, "expired")
    state.returned.get(lease.annotator, set()).discard(lease.number)
    _settle(state, asked)


def _corrected(state: State, event: Event, body: CorrectedBody) -> None:
    given = state.answers[body["answer"]]
    state.spent -= state.costs(given)
    state.answered -= state.priced(given)
    given.kind, given.outcome = body["kind"], body["outcome"]
    given.outcomes = _by_attribute(body.get("outcomes"))
    given.values += (event.seq,)
    state.spent += state.costs(given)
    state.answered += state.priced(given)


def _skipped(state: State, event: Event, body: TokenBody) -> None:
    lease = state.leases[body["token"]]
    state.questions[lease.number].skipped |= {lease.annotator}
    state.skips[event.seq] = lease.token
    state.acts.setdefault(lease.annotator, []).append(event.seq)
    _end(state, lease.token, "skipped")


def _released(state: State, event: Event, body: TokenBody) -> None:
    _end(state, body["token"], "released")


def _withdrawn(state: State, event: Event, body: WithdrawnBody) -> None:
    row = body["row"]
    state.withdrawn[row] = body["cause"]
    for token in [token for token, held in state.outstanding.items() if state.questions[held.number].row == row]:
        _end(state, token, "withdrawn")
    state.incomplete.pop(state.rows.get(row, 0), None)


def _undone(state: State, event: Event, body: UndoneBody) -> None:
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


def _gold(state: State, event: Event, body: RowBody) -> None:
    state.gold[body["row"]] = event.seq


def _known(state: State, event: Event, body: KnownBody) -> None:
    state.known[body["row"]] = event.seq
    if body["purpose"] == "audit":
        state.known_audit.add(body["row"])
    if body.get("partly"):
        state.known_partly.add(body["row"])


def _added(state: State, event: Event, body: AddedBody) -> None:
    state.added.append(body["materials"])
    state.added_queue = body["queue"]


def _refitted(state: State, event: Event, body: RefittedBody) -> None:
    state.model, state.model_answers = body["model"], body["answers"]
    state.model_added = body.get("added", 0)
    state.models[body["model"]] = event.seq


def _frozen(state: State, event: Event, body: FrozenBody) -> None:
    state.frozen.append(event.seq)


def _erased(state: State, event: Event, body: ErasedBody) -> None:
    state.erased.update(body["sealed"])
    for seq in body["answers"]:
        state.answers[seq].erased = True
        state.erased_rows.add(state.answers[seq].row)
        acts = state.acts.get(state.answers[seq].annotator, [])
        if seq in acts:
            acts.remove(seq)
    for review in state.reviews.values():
        review.erased |= review.seq in body["sealed"]
    for row in (*body["gold"], *body.get("known", ())):
        state.gold.pop(row, None)
        state.known.pop(row, None)
        state.retired.add(row)
        state.erased_rows.add(row)
    parts = body.get("parts")
    if parts is not None:
        for seq in parts["sealed"]:
            state.erased_parts[seq] = state.erased_parts.get(seq, frozenset()) | {parts["attribute"]}
        state.erased_rows.update(parts["rows"])
        state.retired.update(row for row in parts["rows"] if row not in state.rows)
    if state.model in body["models"]:
        state.model, state.model_answers = None, 0


def _budget(state: State, event: Event, body: BudgetBody) -> None:
    state.budget = body["budget"]


def _finished(state: State, event: Event, body: FinishedBody) -> None:
    state.finished = body["finished"]


def _paused(state: State, event: Event, body: PausedBody) -> None:
    state.paused = body["paused"]
    state.paused_because = body.get("because")
    state.not_worth_more |= state.paused_because == LEAST_GAIN


def _chosen(state: State, event: Event, body: ChosenBody) -> None:
    state.strength = body["strength"]


def _computed(state: State, event: Event, body: ComputedBody) -> None:
    state.computed[body["name"]] = body["files"]


def _revised(state: State, event: Event, body: RevisedBody) -> None:
    state.revised |= body["settings"]
    state.revisions += 1


def _archived(state: State, event: Event, body: ArchivedBody) -> None:
    state.archived = body["archived"]


def _noted(state: State, event: Event, body: object) -> None:
    """Something that the log is to prove, and that changes nothing."""


def _reviewed(state: State, event: Event, body: ReviewedBody) -> None:
    number = body["question"]
    before = state.reviews[number].values if number in state.reviews else ()
    state.reviews[number] = Review(
        event.seq,
        number,
        intern(body["reviewer"]),
        intern(body["outcome"]),
        event.at,
        (*before, event.seq),
        outcomes=_by_attribute(body.get("outcomes")),
    )


def _backed_up(state: State, event: Event, body: BackupBody) -> None:
    state.backups.append(Backup(event.seq, event.at, body["name"], body["sha256"]))


def _clock(state: State, event: Event, body: object) -> None:
    state.clock_moves += 1


def _by_attribute(outcomes: list[str] | None) -> tuple[str, ...]:
    return tuple(map(intern, outcomes)) if outcomes else ()


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


_CHANGES = {"answered", "corrected", "undone", "erased", "gold", "known", "reviewed", "frozen", "added"}

_APPLY: Mapping[str, Callable[[State, Event, Any], None]] = {  # an event's kind says which body it has
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
    "added": _added,
    "refitted": _refitted,
    "frozen": _frozen,
    "erased": _erased,
    "budget": _budget,
    "finished": _finished,
    "paused": _paused,
    "chosen": _chosen,
    "computed": _computed,
    "revised": _revised,
    "archived": _archived,
    "expired": _noted,
    "evidence": _noted,
    "reviewed": _reviewed,
    "backup": _backed_up,
    "clock": _clock,
}
