"""Commands that record answers: told, corrected, imported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apod.campaign.asking import find_lease, keyed, own_answer, would_be_taken
from apod.campaign.attributes import Value
from apod.campaign.errors import CampaignFinished, Conflict, NotFound
from apod.campaign.journal import Desk
from apod.campaign.state import GOLD, GROUP, Given, Lease, State
from apod.errors import BudgetError


@dataclass(frozen=True)
class Receipt:
    """Proof that an answer is durable.

    late      the lease had run out when it came
    counted   it takes part in the campaign; a late answer does not where somebody else has the question by now, or
              the budget is taken. It is recorded all the same
    repeated  the same call was recorded before; nothing was added
    undone    the answer was taken back since
    erased    the answer was erased since: whether it was the same one is not known any more
    """

    question: str
    event: int
    late: bool = False
    counted: bool = True
    repeated: bool = False
    undone: bool = False
    erased: bool = False


def tell(desk: Desk, token: int, value: Value, kind: str, annotator: str | None, key: str | None) -> Receipt:
    """Record the answer to a question; the same one twice is recorded once, a different one is a conflict."""
    state = desk.state
    held = find_lease(state, token, annotator)
    if key is not None and key in state.keys:
        given = state.answers.get(state.keys[key])
        if given is None or given.token != token or not _same(desk, given, value):
            raise Conflict("This key was used for another answer: use a new one, or `correct` the answer.")
        return _receipt(state, given, repeated=True)
    if held.answer is not None:
        given = state.answers[held.answer]
        if given.withdrawn:
            raise _taken_back(state, held)
        if not _same(desk, given, value):
            raise Conflict(
                "This question has a different answer already: to change it, correct it (`apod tell --correct`)."
            )
        return _receipt(state, given, repeated=True)
    if state.questions[held.number].row in state.erased_rows:
        raise Conflict(
            "An answer about this person was erased: nothing more is recorded about them. Ask for the next one."
        )
    late = not state.live(held, desk.now)
    own = [other.token for other in _own_leases(state, held) if state.live(other, desk.now)]
    body = {
        "token": token,
        "kind": kind,
        **value.body,
        "late": late,
        "counted": _first(state, held) and (not late or _still_wanted(state, held, desk.now, len(own))),
        "expired": own,
        **keyed(key),
    }
    seq = desk.append("answered", body, value.seal())
    return _receipt(state, state.answers[seq])


def correct(desk: Desk, token: int, value: Value, kind: str | None, annotator: str | None, key: str | None) -> Receipt:
    """Replace an answer by another one; both stay in the log."""
    state = desk.state
    held = find_lease(state, token, annotator)
    if held.answer is None:
        raise NotFound("This question has no answer yet: use `tell`.")
    given = state.answers[held.answer]
    if key is not None and key in state.keys:
        if state.keys[key] not in given.values:
            raise Conflict("This key was used for something else: use a new one.")
        return _receipt(state, given, repeated=True)
    if given.withdrawn:
        raise _taken_back(state, held)
    decided = state.reviews[given.number].values if given.number in state.reviews else ()
    if given.erased or any(seq in state.erased_parts for seq in (*given.values, *decided)):
        raise Conflict("This answer was erased and is not asked for again.")
    if _stands(desk, given) == (value.told, value.stored) and kind in (None, given.kind):
        return _receipt(state, given, repeated=True)
    dearer = given.counted and state.has_price(value.outcome) and not state.has_price(given.outcome)
    if dearer and state.spent + state.pending(desk.now) >= state.budget:  # gold too: it must not be told apart
        raise BudgetError("The budget is used up: this correction would cost one more answer. Extend the budget.")
    body = {"answer": given.seq, "kind": kind or given.kind, **value.body, **keyed(key)}
    desk.append("corrected", body, value.seal())
    return _receipt(state, given)


@dataclass(frozen=True)
class Incoming:
    """An answer from a file."""

    row: int
    annotator: str
    value: Value
    kind: str
    purpose: str = "training"
    probability: float | None = None
    counted: bool = True
    late: bool = False
    token: int | None = None  # the lease under which it was handed out, if it was


@dataclass(frozen=True)
class ImportReport:
    """What came of an import."""

    added: int
    repeated: int  # were there before
    skipped: int  # cancelled or empty in the file
    conflicts: tuple[int, ...] = ()  # rows this annotator has answered differently; left as they are


def take_in(desk: Desk, incoming: Iterable[Incoming], cancelled: Iterable[int | None] = ()) -> ImportReport:
    """Record answers given elsewhere, all of them or none; they cost budget like any other.

    `cancelled` are leases handed out with the file and given back unanswered (None where it does not say which).
    """
    state = desk.state
    if state.finished:
        raise CampaignFinished("The campaign is finished: it takes no more answers.")
    fresh: list[Incoming] = []
    repeated, conflicts = 0, []
    seen: dict[tuple[int, str], object] = {}
    for item in incoming:
        if item.row in state.erased_rows:
            repeated += 1  # a file made before the erasure brings nothing back
            continue
        there = own_answer(state, item.row, item.annotator)
        if there is not None:
            stored: object = _stands(desk, there)
        elif (item.row, item.annotator) in seen:
            stored = seen[item.row, item.annotator]
        else:
            seen[item.row, item.annotator] = item.value.told, item.value.stored
            fresh.append(item)
            continue
        if stored == (item.value.told, item.value.stored):
            repeated += 1
        else:
            conflicts.append(item.row)
    _check_room(desk, fresh)
    for item in fresh:
        _take(desk, item)
    given_back = list(cancelled)
    for token in given_back:
        if token in state.outstanding:
            desk.append("skipped", {"token": token})
    return ImportReport(len(fresh), repeated, len(given_back), tuple(conflicts))


def _check_room(desk: Desk, fresh: list[Incoming]) -> None:
    state = desk.state
    paid = (item for item in fresh if item.counted and item.purpose != GOLD)
    cost = sum(state.has_price(item.value.outcome) for item in paid)
    held = [one for item in fresh for one in _held_by(state, item, desk.now)]
    own = sum(state.questions[one.number].purpose != GOLD for one in held)  # places their own leases keep for them
    room = state.budget - state.spent - state.pending(desk.now) + own
    if cost > room:
        raise BudgetError(
            f"The file holds {cost} new answers and the budget has room for {room}: extend it, or import fewer. "
            "Nothing was imported."
        )
    taken = {number: state.filled(asked) for number, asked in state.questions.items()}
    for one in state.outstanding.values():
        taken[one.number] += state.live(one, desk.now)
    for item in fresh:
        if item.purpose == GOLD:
            continue
        number = state.rows.get(item.row, -1 - item.row)
        own = sum(one.number == number for one in _held_by(state, item, desk.now))
        taken[number] = taken.get(number, 0) + item.counted - own
        if taken[number] > state.overlap:
            raise BudgetError(
                f"Row {item.row} would have {taken[number]} answers and the campaign's overlap is {state.overlap}: "
                "import one answer per person asked. Nothing was imported."
            )


def _take(desk: Desk, item: Incoming) -> None:
    state = desk.state
    number = _number(state, item)
    asked = state.questions.get(number) if number is not None else None
    body = {
        "question": asked.number if asked is not None else len(state.questions) + 1,
        "row": item.row,
        "purpose": asked.purpose if asked is not None else item.purpose,
        "probability": asked.probability if asked is not None else item.probability,
        "model": asked.model if asked is not None else None,
        "rule": asked.rule if asked is not None else "import",
        "annotator": item.annotator,
        "lease_ms": 0,
        "expired": [],
    }
    own = [one.token for one in _held_by(state, item, desk.now)]
    token = desk.append("asked", body)
    told = {"token": token, "kind": item.kind, **item.value.body, "counted": item.counted}
    desk.append("answered", {**told, "late": item.late, "expired": own, "source": "import"}, item.value.seal())


def _number(state: State, item: Incoming) -> int | None:
    """The question about the row, if it was asked about; every annotator has gold questions of their own."""
    return (state.gold_of.get(item.annotator, {}) if item.purpose == GOLD else state.rows).get(item.row)


def _held_by(state: State, item: Incoming, now: int) -> list[Lease]:
    """Leases of the row that the answer ends: its annotator's own, and the one it was handed out under."""
    numbers = (state.rows.get(item.row), state.gold_of.get(item.annotator, {}).get(item.row))
    held = (state.leases[token] for number in numbers if number for token in state.questions[number].tokens)
    return [
        one for one in held if state.live(one, now) and (one.annotator == item.annotator or one.token == item.token)
    ]


def _taken_back(state: State, held: Lease) -> Conflict:
    """That an answer was undone, and under which id its annotator holds or held the question since."""
    tokens = state.questions[held.number].tokens
    last = max(token for token in tokens if state.leases[token].annotator == held.annotator)
    now = f"the question is {state.id_of(last)} now" if last > held.token else "ask for the question again"
    return Conflict(f"This answer was taken back: {now}.")


def _own_leases(state: State, held: Lease) -> list[Lease]:
    """Later leases of the same question to the same person: a late answer settles those too."""
    tokens = state.questions[held.number].tokens
    mine = (state.leases[token] for token in tokens if token != held.token)
    return [other for other in mine if other.annotator == held.annotator and other.ended is None]


def _first(state: State, held: Lease) -> bool:
    """Whether no other answer of this annotator about the row stands: nobody counts twice on a row."""
    return own_answer(state, state.questions[held.number].row, held.annotator) is None


def _still_wanted(state: State, held: Lease, now: int, own: int) -> bool:
    """Whether a late answer can still take part: nobody else has its place, and there is budget for it."""
    asked = state.questions[held.number]
    if asked.purpose == GOLD:
        taken = would_be_taken(state, asked, held.annotator, held.expires)
        return bool(own) or (not taken and state.spent + state.pending(now) < state.budget)
    others = sum(
        other.number == held.number and other.annotator != held.annotator and state.live(other, now)
        for other in state.outstanding.values()
    )
    room = state.filled(asked) + others < state.overlap
    return room and state.spent + state.pending(now) - own < state.budget


def _stands(desk: Desk, given: Given) -> tuple[str, object]:
    """What an answer says now, to compare with another."""
    return ",".join(given.outcomes) or given.outcome, desk.answer(given.values[-1])


def _same(desk: Desk, given: Given, value: Value) -> bool:
    if given.told != value.told:
        return False
    if value.outcome != GROUP or given.seq in desk.state.erased:
        return True
    stored, gone = desk.answer(given.seq), desk.state.erased_parts.get(given.seq)
    if gone:  # nobody can say any more
        return all(at in gone or one == other for at, (one, other) in enumerate(zip(stored, value.groups, strict=True)))
    return bool(stored == value.stored)


def _receipt(state: State, given: Given, repeated: bool = False) -> Receipt:
    return Receipt(
        state.id_of(given.token),
        given.seq,
        given.late,
        given.counted and not given.withdrawn,
        repeated,
        given.withdrawn,
        given.erased,
    )
