"""Second looks: questions whose answers disagree, say nothing, or come from annotators who are often wrong.

A reviewer sees the opinions without names and decides; the log keeps opinions and decision. Nobody reviews a row they
were ever asked about. What is decided counts instead of the opinions, and says who of the annotators was right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection

from apod.campaign.asking import keyed
from apod.campaign.attributes import Answer, Value, part_of
from apod.campaign.errors import Conflict, NotFound, NotYours, PictureUnusable
from apod.campaign.journal import Desk, read_answers
from apod.campaign.session import Seen
from apod.campaign.settings import clean_key, clean_name
from apod.campaign.state import GOLD, GROUP, OPEN, Asked, Given, State
from apod.campaign.votes import OneCoin, Vote, collect, fleiss_kappa
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.campaign.session import Session

LOW_ACCURACY = 0.7
"""Answers of annotators who are estimated to be right less often are looked at again."""

Why = Literal["disagreement", "cannot_tell", "low_agreement"]


@dataclass(frozen=True)
class AttributeReview:
    """One attribute that needs a second look: its groups, the opinions without names, and why."""

    name: str
    groups: tuple[str, ...] = field(repr=False)
    opinions: Mapping[str, int] = field(repr=False)
    why: Why


@dataclass(frozen=True)
class ReviewCase:
    """A question to decide: what may be seen of the row, and the opinions without names.

    `groups`, `opinions` and `why` are those of the first attribute to decide.
    """

    question: int
    row_id: str
    display: Mapping[str, Any] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    opinions: Mapping[str, int] = field(repr=False)  # a group, cannot_tell or declined -> how many said so
    why: Why
    attributes: tuple[AttributeReview, ...] = field(default=(), repr=False)  # the same of each attribute to decide
    label: str | None = field(default=None, repr=False)
    image: str | None = None  # where its picture lies


@dataclass(frozen=True)
class ReviewSummary:
    """How far the second looks are. Agreement is Fleiss' kappa; after: with decisions in place of opinions."""

    waiting: int
    decided: int
    agreement_before: float | None
    agreement_after: float | None


@dataclass(frozen=True)
class Decision:
    """Proof that a decision is durable."""

    question: int
    event: int
    repeated: bool = False


class Reviews:
    """The second looks of one campaign: `campaign.reviews`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def next(self, reviewer: str, question: int | None = None) -> ReviewCase | None:
        """The oldest question that this reviewer may decide, or this one; None where there is none."""
        name, known = clean_name("reviewer's name", reviewer), self._session.settings.asked

        def look(connection: Connection, state: State, at: int) -> tuple[Asked, list[AttributeReview]] | None:
            values = read_answers(connection, self._session.number)
            for asked, why in _waiting(state, values):
                if question in (None, asked.number) and not _was_asked(state, asked.row, name):
                    return asked, [
                        AttributeReview(
                            known[place].name,
                            known[place].groups,
                            _opinions(state, asked, values, place, known[place].groups),
                            cause,
                        )
                        for place, cause in why.items()
                    ]
            return None

        found = self._session.reader.view(look)
        if found is None:
            return None
        asked, parts = found
        try:
            seen = self._session.seen(asked.row)
        except PictureUnusable:  # the annotators saw it; what they said can still be decided
            row_id, values = self._session.shown(asked.row)
            seen = Seen(row_id, {name: value for name, value in values.items() if name in self._columns}, None, None)
        first = parts[0]
        told = first.groups, first.opinions, first.why, tuple(parts)
        return ReviewCase(asked.number, seen.row_id, seen.display, *told, seen.label, seen.image)

    @property
    def _columns(self) -> tuple[str, ...]:
        settings = self._session.settings
        return tuple(name for name in settings.show if name != settings.image_column)

    def decide(self, reviewer: str, question: int, answer: Answer, *, key: str | None = None) -> Decision:
        """Record what the reviewer decides: a group's name, "cannot_tell" or "declined". Durable when this returns.

        With several attributes, one of these for each that needs a second look; of the others, opinions still count.
        """
        name, checked = clean_name("reviewer's name", reviewer), clean_key(key)
        value = self._session.value_of(answer, partial=True)

        def command(desk: Desk) -> Decision:
            state = desk.state
            asked = state.questions.get(question)
            if asked is None or asked.purpose == GOLD or not _standing(state, asked):
                raise NotFound("There is no such question to decide: ask for the next one.")
            if checked is not None and checked in state.keys:
                review = state.reviews.get(question)
                if review is None or state.keys[checked] not in review.values:
                    raise Conflict("This key was used for something else: use a new one.")
                return Decision(question, state.keys[checked], repeated=True)
            if _was_asked(state, asked.row, name):
                raise NotYours("You were asked about this row yourself: somebody else has to decide.")
            before = state.reviews.get(question)
            if before is not None and before.reviewer != name and not _outdated(state, asked):
                raise Conflict("Another reviewer has decided this question already.")
            self._check_erased(state, asked, value)
            self._check_complete(desk, asked, value)
            body = {"question": question, "reviewer": name, **value.body, **keyed(checked)}
            return Decision(question, desk.append("reviewed", body, value.seal()))

        done = self._session.journal.submit(command)
        self._session.wake()
        return done

    def _check_erased(self, state: State, asked: Asked, value: Value) -> None:
        """Refuse to decide what was erased: it must not come back."""
        names = [
            self._session.settings.asked[at].name for at in sorted(_erased(state, asked)) if value.outcomes[at] != OPEN
        ]
        if names:
            raise Conflict(f"What was said of {', '.join(names)} is erased and not asked for again: leave it out.")

    def _check_complete(self, desk: Desk, asked: Asked, value: Value) -> None:
        """Refuse a decision that leaves open what it is wanted for."""
        if OPEN not in value.outcomes:
            return
        values = {
            **read_answers(desk.connection, desk.campaign),
            **{at: one[1].value for at, one in desk.sealed.items()},
        }
        models = [one.noise_model() for one in collect(desk.state, values).each]
        waiting = _causes(desk.state, asked, values, models)
        left = [self._session.settings.asked[at].name for at in waiting if value.outcomes[at] == OPEN]
        if left or set(value.outcomes) == {OPEN}:
            raise InputError(f"Decide {', '.join(left) or 'at least one attribute'} too.")

    def summary(self) -> ReviewSummary:
        """How many wait and are decided, and the annotators' agreement before and after (of the first attribute)."""
        number = self._session.number

        def look(connection: Connection, state: State, at: int) -> ReviewSummary:
            values = read_answers(connection, number)
            collected = collect(state, values)
            decided = {item.row: item.group for item in collected.reviewed if item.group is not None}
            after = [Vote(v.item, v.annotator, decided.get(v.item, v.group)) for v in collected.votes]
            kappas = [fleiss_kappa(votes, collected.groups) for votes in (collected.votes, after)]
            before, now = (None if math.isnan(kappa) else kappa for kappa in kappas)
            waiting = sum(1 for _ in _waiting(state, values))
            return ReviewSummary(waiting, sum(not one.erased for one in state.reviews.values()), before, now)

        return self._session.reader.view(look)


def _standing(state: State, asked: Asked) -> list[Given]:
    """The answers to a question that count."""
    given = (state.answers[seq] for seq in asked.given)
    return [one for one in given if one.counted and not one.withdrawn and not one.erased]


def _outdated(state: State, asked: Asked) -> bool:
    """Whether an answer came in or changed after the decision."""
    return max(one.values[-1] for one in _standing(state, asked)) > state.reviews[asked.number].seq


def _was_asked(state: State, row: int, name: str) -> bool:
    numbers = (state.rows.get(row), state.gold_of.get(name, {}).get(row))
    asked = [state.questions[number] for number in numbers if number is not None]
    return any(state.leases[token].annotator == name for one in asked for token in one.tokens)


def _waiting(state: State, values: Mapping[int, object]) -> list[tuple[Asked, dict[int, Why]]]:
    """Questions that need a second look, the oldest first, and why, by attribute."""
    models = [one.noise_model() for one in collect(state, values).each]
    found = []
    for asked in state.questions.values():
        given = _standing(state, asked)
        if asked.purpose == GOLD or not given or asked.number in state.incomplete:
            continue
        if asked.number in state.reviews and not state.reviews[asked.number].erased and not _outdated(state, asked):
            continue
        why = _causes(state, asked, values, models)
        if why:
            found.append((asked, why))
    return found


def _causes(
    state: State, asked: Asked, values: Mapping[int, object], models: Sequence[OneCoin | None]
) -> dict[int, Why]:
    given, gone = _standing(state, asked), _erased(state, asked)
    causes = ((place, _why(given, values, place, model)) for place, model in enumerate(models) if place not in gone)
    return {place: why for place, why in causes if why is not None}


def _erased(state: State, asked: Asked) -> frozenset[int]:
    """The attributes that were erased of an answer to the question that stands, or of its decision."""
    decided = state.reviews[asked.number].values if asked.number in state.reviews else ()
    seqs = (*decided, *(seq for one in _standing(state, asked) for seq in one.values))
    return frozenset(place for seq in seqs for place in state.erased_parts.get(seq, ()))


def _why(given: list[Given], values: Mapping[int, object], attribute: int, model: OneCoin | None) -> Why | None:
    told = [one for one in given if one.outcome_of(attribute) == GROUP]
    named = {part_of(values.get(one.values[-1]), attribute) for one in told} - {None}
    if len(named) > 1:
        return "disagreement"
    if not named:
        return "cannot_tell" if any(one.outcome_of(attribute) == "cannot_tell" for one in given) else None
    doubtful = model is not None and all(model.accuracy.get(one.annotator, 1.0) < LOW_ACCURACY for one in given)
    return "low_agreement" if doubtful else None


def _opinions(
    state: State, asked: Asked, values: Mapping[int, object], attribute: int, groups: tuple[str, ...]
) -> dict[str, int]:
    said: Counter[str] = Counter()
    for one in _standing(state, asked):
        code, outcome = part_of(values.get(one.values[-1]), attribute), one.outcome_of(attribute)
        if outcome not in (GROUP, OPEN):
            said[outcome] += 1
        elif code is not None:
            said[groups[code]] += 1
    return dict(sorted(said.items(), key=lambda item: (-item[1], item[0])))
