"""What a page needs for one annotator: their questions, their last answers, how far everybody is.

Nothing here computes a proposal: where none waits, whoever refits in the background is woken and the annotator is told
so. A page therefore never waits for numerics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection

from apod.campaign import asking
from apod.campaign.asking import Leased, Nothing, Question, Why
from apod.campaign.journal import Desk, read_answers
from apod.campaign.log import moment
from apod.campaign.session import Session
from apod.campaign.settings import clean_name, composed
from apod.campaign.state import GROUP, State

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
    answer: str = field(repr=False)  # a group, cannot_tell or declined
    at: str
    late: bool
    counted: bool


class Handing(Session):
    """The annotator's side of a campaign, as a page needs it."""

    def hand(self, annotator: str, count: int = 2) -> Hand:
        """Up to so many questions for the annotator: the same ones again until they are answered or given back."""
        annotator = clean_name("annotator's name", annotator)

        def command(desk: Desk) -> tuple[list[Leased], asking.Nothing | asking.Starved | None, Progress, int]:
            held, otherwise = asking.hand(desk, annotator, count)
            return held, otherwise, progress_of(desk.state, desk.now, annotator), _closed(desk.state)

        for _ in range(MOST_WITHDRAWN):
            held, otherwise, progress, closed = self.journal.submit(command)
            self._wake()
            questions = [self._usable(item) for item in held]
            if None not in questions:
                break
        if otherwise is None:
            usable = tuple(question for question in questions if question is not None)
            if usable:
                return Hand(usable, "question", progress)
            return Hand((), "preparing", progress, retry_after=PREPARING_SECONDS)
        if isinstance(otherwise, Nothing):
            return Hand((), otherwise.why, progress, otherwise.with_others, otherwise.retry_after)
        if closed < len(self.materials):
            return Hand((), "preparing", progress, retry_after=PREPARING_SECONDS)
        return Hand((), "exhausted", progress)

    def warm(self) -> None:
        """Have the first questions prepared before anybody asks."""
        self._wake()

    def own_question(self, question: str, annotator: str) -> Question:
        """The case of a question that was put to this annotator, answered or not."""
        find, annotator_ = self._token(question, annotator)

        def look(connection: Connection, state: State, at: int) -> Leased:
            return asking.leased(state, asking.find_lease(state, find(state), annotator_))

        return self._question(self.journal.view(look))

    def own_answers(self, annotator: str, limit: int = 10) -> list[OwnAnswer]:
        """The annotator's latest answers that stand, the newest first; what was erased is gone from here too."""
        number, groups, annotator = self.materials.campaign, self.settings.groups, composed(annotator)

        def look(connection: Connection, state: State, at: int) -> list[tuple[int, OwnAnswer]]:
            mine = [state.answers[act] for act in state.acts.get(annotator, ()) if act in state.answers][-limit:]
            values = read_answers(connection, number, [given.values[-1] for given in mine])
            found = []
            for given in reversed(mine):
                code = values.get(given.values[-1])
                answer = given.outcome if given.outcome != GROUP or code is None else groups[code]
                own = OwnAnswer(state.id_of(given.token), "", answer, moment(given.at), given.late, given.counted)
                found.append((given.row, own))
            return found

        found = self.journal.view(look)
        return [OwnAnswer(**{**vars(own), "row_id": self.shown(row)[0]}) for row, own in found]

    def progress(self, annotator: str | None = None) -> Progress:
        """How far the campaign is, and the annotator."""
        annotator = None if annotator is None else composed(annotator)
        return self.journal.view(lambda c, state, at: progress_of(state, state.now(at), annotator))

    def head(self) -> int:
        """The number of the latest event, without reading any."""
        return self.journal.head()


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
    return len(state.rows) + sum(row not in state.rows for row in {*state.gold, *state.known, *state.retired})


def phase_of(state: State) -> Phase:
    """Whether the campaign asks, and if not, why."""
    if state.finished:
        return "finished"
    if state.paused:
        return "paused"
    return "done" if state.spent >= state.budget else "open"
