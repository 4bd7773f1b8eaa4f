"""One annotator's side of a campaign: their questions, their answers, how far they are.

`hand`, for pages, computes no proposal: where none waits, whoever refits in the background is woken and the annotator
is told so. `turn`, for commands and notebooks, computes what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection

from apod.campaign import answering, asking
from apod.campaign.answering import Receipt
from apod.campaign.asking import Leased, Nothing, Question, Turn, Why
from apod.campaign.attributes import Answer, part_of, spoken
from apod.campaign.errors import CampaignError
from apod.campaign.journal import Desk, read_answers
from apod.campaign.log import moment
from apod.campaign.settings import check_kind, clean_key, clean_name
from apod.campaign.state import State

if TYPE_CHECKING:
    from apod.campaign.session import Session


DEFAULT_ANNOTATOR = "annotator-1"

PREPARING_SECONDS = 1.0
MOST_WITHDRAWN = 50  # rounds of questions whose pictures turn out unusable, before the page is asked to come again
Phase = Literal["open", "paused", "done", "finished"]


@dataclass(frozen=True)
class Progress:
    """How far a campaign is, and how far one annotator; nothing of what was answered.

    Every answer moves it alike, whatever its question was for: gold questions must not be recognisable. Where there are
    any, `budget` is therefore about as many answers as the campaign takes with them, and `answered` counts them all.
    """

    answered: int
    pending: int  # assigned to somebody
    budget: int
    phase: Phase
    mine_answered: int = 0
    mine_skipped: int = 0


@dataclass(frozen=True)
class Hand:
    """The questions assigned to an annotator, the current one first, or why there are none (see `Turn`).

    "preparing": the next questions are being computed; ask again after `retry_after` seconds.
    """

    questions: tuple[Question, ...]
    why: Why
    progress: Progress
    with_others: int = 0
    retry_after: float | None = None


@dataclass(frozen=True)
class OwnAnswer:
    """An answer as the person who gave it may see it."""

    question: str
    row_id: str
    answer: str | dict[str, str | None] = field(repr=False)  # a group, cannot_tell or declined; by attribute if several
    at: str
    late: bool
    counted: bool


class Annotator:
    """What one annotator does in a campaign: `campaign.annotator(name)`.

    Without a name, a question's id says who answers it, and questions go to "annotator-1".
    """

    def __init__(self, session: Session, name: str | None = None) -> None:
        self._session = session
        self._named = None if name is None else clean_name("annotator's name", name)
        self.name = self._named or DEFAULT_ANNOTATOR

    def turn(self) -> Turn:
        """The annotator's question, or why there is none."""
        session, ask = self._session, partial(asking.ask, annotator=self.name)
        if session.mode == "demand":
            session.refitter.refit()
        for _ in range(20):  # others may take what was proposed, again and again
            found = session.journal.submit(ask)
            while isinstance(found, asking.Leased):
                session.wake()
                question = session.usable(found)
                if question is not None:
                    return Turn(question, "question")
                found = session.journal.submit(ask)
            if isinstance(found, asking.Nothing):
                return Turn(None, found.why, found.retry_after, found.with_others)
            if not session.refitter.supply(found.queue):
                held = session.journal.view(lambda c, state, at: asking.waiting_for_others(state, state.now(at)))
                return Turn(None, held.why, held.retry_after, held.with_others)
        raise CampaignError("Other annotators took every proposal: ask again.")

    def hand(self, count: int = 2) -> Hand:
        """Up to so many questions for a page: the same ones again until they are answered or given back."""
        session, annotator = self._session, self.name

        def command(desk: Desk) -> tuple[list[Leased], asking.Nothing | asking.Starved | None, Progress, int]:
            held, otherwise = asking.hand(desk, annotator, count)
            return held, otherwise, progress_of(desk.state, desk.now, annotator), _closed(desk.state)

        for _ in range(MOST_WITHDRAWN):
            held, otherwise, progress, closed = session.journal.submit(command)
            session.wake()
            questions = [session.usable(item) for item in held]
            if None not in questions:
                break
        if otherwise is None:
            usable = tuple(question for question in questions if question is not None)
            if usable:
                return Hand(usable, "question", progress)
            return Hand((), "preparing", progress, retry_after=PREPARING_SECONDS)
        if isinstance(otherwise, Nothing):
            return Hand((), otherwise.why, progress, otherwise.with_others, otherwise.retry_after)
        if closed < len(session.materials):
            return Hand((), "preparing", progress, retry_after=PREPARING_SECONDS)
        return Hand((), "exhausted", progress)

    def tell(
        self, question: Question | str, answer: Answer, *, kind: str | None = None, key: str | None = None
    ) -> Receipt:
        """Record an answer: a group's name, "cannot_tell" or "declined". Durable when this returns.

        With several attributes one of these for each, as {"sex": "female", "race": None}; None: it cannot be told.
        The same answer twice is recorded once; a different one is a `Conflict`. `key` makes a repeat recognisable
        whatever happened in between.
        """
        session = self._session
        find, who = session.lease_of(question, self._named)
        value, checked = session.value_of(answer), clean_key(key)
        said = None if kind is None else check_kind(kind)

        def command(desk: Desk) -> Receipt:
            return answering.tell(desk, find(desk.state), value, session.kind_in(desk.state, said), who, checked)

        receipt = session.journal.submit(command)
        session.wake()
        return receipt

    def correct(
        self, question: Question | str, answer: Answer, *, kind: str | None = None, key: str | None = None
    ) -> Receipt:
        """Replace a recorded answer; the log keeps both. Without `kind` the answer keeps its own."""
        session = self._session
        find, who = session.lease_of(question, self._named)
        value, checked = session.value_of(answer), clean_key(key)
        kept = None if kind is None else check_kind(kind)
        receipt = session.journal.submit(
            lambda desk: answering.correct(desk, find(desk.state), value, kept, who, checked)
        )
        session.wake()
        return receipt

    def skip(self, question: Question | str, *, key: str | None = None) -> bool:
        """Give a question back for somebody else; it costs nothing. False where it was given back before."""
        find, who = self._session.lease_of(question, self._named)
        checked = clean_key(key)
        return self._session.journal.submit(lambda desk: asking.skip(desk, find(desk.state), who, checked))

    def undo(self, *, key: str | None = None) -> Question | None:
        """Take back the annotator's last answer or skip; the question, if it is theirs again."""
        checked = clean_key(key)
        found = self._session.journal.submit(lambda desk: asking.undo(desk, self.name, checked))
        self._session.wake()
        return self._session.usable(found) if found is not None else None

    def question(self, id_: str) -> Question:
        """The case of a question that was put to this annotator, answered or not."""
        find, who = self._session.lease_of(id_, self.name)

        def look(connection: Connection, state: State, at: int) -> Leased:
            return asking.leased(state, asking.find_lease(state, find(state), who))

        return self._session.case(self._session.journal.view(look))

    def answers(self, limit: int = 10) -> list[OwnAnswer]:
        """The annotator's latest answers that stand, the newest first; what was erased is gone from here too."""
        session = self._session
        number, asked = session.number, session.settings.asked

        def look(connection: Connection, state: State, at: int) -> list[tuple[int, OwnAnswer]]:
            mine = [state.answers[act] for act in state.acts.get(self.name, ()) if act in state.answers][-limit:]
            values = read_answers(connection, number, [given.values[-1] for given in mine])
            found = []
            for given in reversed(mine):
                stored = values.get(given.values[-1])
                said = spoken(
                    asked,
                    [given.outcome_of(place) for place in range(len(asked))],
                    [part_of(stored, place) for place in range(len(asked))],
                )
                answer: str | dict[str, str | None] = said[0] or given.outcome
                if len(asked) > 1:
                    answer = {one.name: part for one, part in zip(asked, said, strict=True)}
                own = OwnAnswer(state.id_of(given.token), "", answer, moment(given.at), given.late, given.counted)
                found.append((given.row, own))
            return found

        return [replace(own, row_id=session.shown(row)[0]) for row, own in session.journal.view(look)]

    def progress(self) -> Progress:
        """How far the campaign is, and this annotator."""
        return self._session.journal.view(lambda c, state, at: progress_of(state, state.now(at), self.name))


def progress_of(state: State, now: int, annotator: str | None) -> Progress:
    """Counts of a state, as annotators may see them."""
    acts = state.acts.get(annotator, []) if annotator is not None else []
    mine = sum(act in state.answers for act in acts)
    answered, total = state.spent, state.budget
    if state.gold or state.gold_of:
        total += _expected_gold(state)
        answered = total if state.spent >= state.budget else min(state.answered, total - 1)
    pending = sum(state.live(held, now) for held in state.outstanding.values())
    return Progress(answered, pending, total, phase_of(state), mine, len(acts) - mine)


def _expected_gold(state: State) -> int:
    """About how many gold questions come between those of the budget: one in so many, each once per annotator."""
    between = int(state.settings["gold_every"]) - 1
    most = len(state.gold) * max(1, len(state.tokens_of))
    return min(most, state.budget // between) if between else most


def _closed(state: State) -> int:
    """How many rows nobody new is to be asked about."""
    closed = {*state.gold, *(state.known.keys() - state.known_partly), *state.retired}
    return len(state.rows) + sum(row not in state.rows for row in closed)


def phase_of(state: State) -> Phase:
    """Whether the campaign asks, and if not, why."""
    if state.finished:
        return "finished"
    if state.paused:
        return "paused"
    return "done" if state.spent >= state.budget else "open"
