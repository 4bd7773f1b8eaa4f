"""A campaign under any sequence of calls, and an account of what the callers were told, kept without its help."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apod.campaign import Question
from apod.campaign.errors import Conflict, NotFound
from apod.campaign.journal import Journal
from apod.campaign.transfer import records
from apod.errors import BudgetError
from apod.testing.engines import GROUPS, Workshop

PEOPLE = ("anna", "bob", "carl")
OUTCOMES = (*GROUPS, "cannot_tell", "declined")
ROWS = 24
GOLD = {3: GROUPS[0], 11: GROUPS[1], 17: GROUPS[0]}
KNOWN = {6: GROUPS[1], 13: GROUPS[0]}  # handed in with the table
LEASE = 60
JUMPS = (-100_000, -1, 10, LEASE + 1, 100_000)  # seconds


@dataclass(eq=False)
class Answer:
    """An answer that was acknowledged."""

    row: int
    annotator: str
    said: str  # at first
    now: str  # after corrections
    counted: bool
    paid: bool  # whether it costs budget by what was said now
    undone: bool = False
    erased: bool = False

    @property
    def stands(self) -> bool:
        return not self.undone


@dataclass
class Calls:
    """Makes calls and checks each one's result against the account."""

    workshop: Workshop
    folder: Path
    name: str
    overlap: int
    budget: int
    costs: bool  # whether an answer without a group is paid for
    given: dict[str, Answer] = field(default_factory=dict)  # by question id
    imported: list[Answer] = field(default_factory=list)
    acts: dict[str, list[Answer | None]] = field(default_factory=lambda: {name: [] for name in PEOPLE})  # None: a skip
    skipped: set[str] = field(default_factory=set)
    questions: dict[str, Question] = field(default_factory=dict)
    known: dict[int, str] = field(default_factory=lambda: dict(KNOWN))  # and not erased
    erased: set[int] = field(default_factory=set)  # rows: nobody is asked about them, and nothing more is recorded
    files: int = 0

    def __post_init__(self) -> None:
        self.campaign = self.workshop.create(
            rows=ROWS,
            name=self.name,
            overlap=self.overlap,
            budget=self.budget,
            unanswered_costs=self.costs,
            lease_seconds=LEASE,
            gold=GOLD,
            gold_every=3,
            known_groups=[KNOWN.get(row) for row in range(ROWS)],
        )
        self.campaign.refitter.ahead = None

    @property
    def answers(self) -> list[Answer]:
        return [*self.given.values(), *self.imported]

    def hand(self, who: str, count: int) -> None:
        """Ask for questions: all about different people, none of whom this annotator has answered about."""
        found = self.campaign.annotator(who).hand(count)
        if found.why == "preparing":
            self.campaign.refitter.supply()
            found = self.campaign.annotator(who).hand(count)
        rows = [question.row for question in found.questions]
        assert len(rows) == len(set(rows)) <= count
        assert not set(rows) & {answer.row for answer in self.answers if answer.annotator == who and answer.stands}
        assert not set(rows) & self.erased
        for question in found.questions:
            assert question.annotator == who
            assert question.row not in KNOWN or [a for a in self.imported if a.row == question.row]
            assert self.questions.setdefault(question.id, question).row == question.row

    def tell(self, question: Question, outcome: str) -> None:
        """Answer; the same twice is one answer; another, one that was taken back, and one about whom an answer was
        erased are refused."""
        there = self.given.get(question.id)
        try:
            receipt = self.campaign.tell(question, outcome)
        except Conflict:
            assert question.row in self.erased if there is None else there.undone or not self._same(there, outcome)
            return
        assert receipt.question == question.id
        assert receipt.repeated == (there is not None)
        if there is not None:
            assert not there.undone
            assert self._same(there, outcome)
            assert receipt.counted == there.counted
            return
        assert question.row not in self.erased
        if receipt.counted:
            self._nobody_twice(question.row, question.annotator)
        made = Answer(question.row, question.annotator, outcome, outcome, receipt.counted, self._has_price(outcome))
        self.given[question.id] = made
        self.acts[question.annotator].append(made)

    def skip(self, question: Question) -> None:
        """Give a question back."""
        try:
            fresh = self.campaign.annotator().skip(question)
        except Conflict:
            assert question.id in self.given
            return
        assert fresh == (question.id not in self.skipped)
        if fresh:
            self.skipped.add(question.id)
            self.acts[question.annotator].append(None)

    def undo(self, who: str) -> None:
        """Take back the last act; what comes back is the row it was about, and theirs to answer."""
        acts = self.acts[who]
        try:
            question = self.campaign.annotator(who).undo()
        except NotFound:
            assert not acts
            return
        last = acts.pop()
        if last is not None:
            last.undone = True
        if question is not None:
            assert last is None or question.row == last.row
            assert not [a for a in self.answers if (a.row, a.annotator) == (question.row, who) and a.stands]
            self.questions[question.id] = question

    def correct(self, question: Question, outcome: str) -> None:
        """Replace an answer; refused where there is none, it is gone, or it would cost what the budget has not."""
        there = self.given.get(question.id)
        try:
            self.campaign.annotator().correct(question, outcome)
        except (NotFound, Conflict):
            assert there is None or there.undone or there.erased
            return
        except BudgetError:
            assert there is not None
            assert self._has_price(outcome) and not there.paid  # noqa: PT018 one claim
            return
        assert there is not None
        there.now, there.paid = outcome, self._has_price(outcome)

    def erase(self, row: int | None, who: str | None) -> None:
        """Erase everything about a row, or of a person."""
        hit = [a for a in self.answers if not a.erased and (a.row == row if who is None else a.annotator == who)]
        try:
            done = self.campaign.owner.erase(row=row, annotator=who)
        except NotFound:
            assert not hit
            assert row not in self.known
            return
        handed_in = self.known.pop(row, None) if row is not None else None
        assert done.answers in (len(hit) + (handed_in is not None), len(hit) + 1)  # and what was known of a gold row
        self.erased |= {answer.row for answer in hit} | ({row} if row is not None else set())
        for answer in hit:
            answer.erased = True
            self.acts[answer.annotator] = [act for act in self.acts[answer.annotator] if act is not answer]

    def take_in(self, items: list[tuple[int, str, str]]) -> None:
        """Import answers about some rows: all of them or none, each person's first about a row that was not erased."""
        self.files += 1
        path = self.folder / f"{self.name}-{self.files}.csv"
        lines = [
            f"{row},{'' if group not in GROUPS else group},{self._outcome(group)},{who}" for row, who, group in items
        ]
        path.write_text("\n".join(["row,group,outcome,annotator", *lines]) + "\n")
        known = {(a.row, a.annotator) for a in self.answers if a.stands}
        fresh = [item for item in items if item[:2] not in known and item[0] not in self.erased]
        try:
            report = self.campaign.owner.import_(path)
        except BudgetError:
            return
        assert report.added == len(fresh)
        for row, who, group in fresh:
            self._nobody_twice(row, who)
            made = Answer(row, who, group, group, True, self._has_price(group))
            self.imported.append(made)
            self.acts[who].append(made)

    def pass_time(self, seconds: int) -> None:
        """Move the database's clock, also backwards."""
        self.workshop.pass_time(seconds)

    def refit(self) -> None:
        """Publish a model of the answers so far, and what it proposes."""
        self.campaign.owner.refit()

    def reopen(self) -> None:
        """Go on as another process."""
        self.campaign.close()
        self.campaign = self.workshop.open(self.name)
        self.campaign.refitter.ahead = None

    def check(self) -> None:
        """Nothing lost, nobody twice, the budget exact, and the state the fold of the log."""
        status = self.campaign.status()
        gold = self._gold()
        paid = sum(a.paid and a.counted and a.stands and a not in gold for a in self.answers)
        assert status.answered == paid
        assert status.answered + status.pending <= status.budget == self.budget
        counted = [a for a in self.answers if a.counted and a.stands and a not in gold]
        assert max(Counter(a.row for a in counted).values(), default=0) <= self.overlap
        assert (
            max(Counter((a.row, a.annotator) for a in self.answers if a.counted and a.stands).values(), default=0) <= 1
        )
        kept = Counter(
            (found.row, found.annotator, found.group or found.outcome, found.counted)
            for found in records(self.campaign)
        )
        told = Counter((a.row, a.annotator, a.now, a.counted) for a in self.answers if a.stands and not a.erased)
        assert kept == told
        learnt = {answer.row: GROUPS[answer.group] for answer in self.campaign.owner.answers() if answer.row in KNOWN}
        assert learnt.keys() >= self.known.keys()
        assert not [row for row in KNOWN.keys() - self.known.keys() if row in learnt and not self._told(row)]
        used = self.campaign.journal.view(lambda connection, state, at: state)
        fresh = Journal(self.campaign.store, self.campaign.materials.campaign).view(lambda connection, state, at: state)
        assert fresh == used

    def close(self) -> None:
        """Check everything a last time, the log too."""
        self.check()
        assert self.campaign.owner.verify_log().ok
        self.campaign.close()

    def _gold(self) -> list[Answer]:
        """Answers to gold questions; none of those imported, which are for training whatever they are about."""
        asked = {entry["id"] for entry in self.campaign.owner.log() if entry.get("purpose") == "gold"}
        found = [self.given[id_] for id_ in asked & self.given.keys()]
        assert {answer.row for answer in found} <= GOLD.keys()
        return found

    def _told(self, row: int) -> bool:
        """Whether an answer about the row stands and names a group."""
        return any(a.row == row and a.stands and not a.erased and a.now in GROUPS for a in self.answers)

    def _nobody_twice(self, row: int, who: str) -> None:
        assert not [a for a in self.answers if (a.row, a.annotator) == (row, who) and a.counted and a.stands]

    def _has_price(self, outcome: str) -> bool:
        return self.costs or outcome in GROUPS

    def _outcome(self, outcome: str) -> str:
        return "group" if outcome in GROUPS else outcome

    def _same(self, answer: Answer, outcome: str) -> bool:
        """Whether it is the answer given at first; of an erased one only the outcome is known."""
        return answer.said == outcome or (answer.erased and self._outcome(answer.said) == self._outcome(outcome))


def step(calls: Calls, rng: Any) -> None:
    """One random call."""
    who, outcome = PEOPLE[rng.integers(len(PEOPLE))], OUTCOMES[rng.integers(len(OUTCOMES))]
    known = list(calls.questions.values())
    question = known[rng.integers(max(0, len(known) - 8), len(known))] if known else None  # mostly of late
    what = rng.choice(["hand", "tell", "skip", "undo", "correct", "erase", "import", "time", "refit", "reopen"],
                      p=[.27, .33, .06, .08, .06, .02, .05, .07, .04, .02])  # fmt: skip
    if what == "hand" or (question is None and what in ("tell", "skip", "correct")):
        calls.hand(who, int(rng.integers(1, 4)))
    elif what in ("tell", "correct") and question is not None:
        (calls.tell if what == "tell" else calls.correct)(question, outcome)
    elif what == "skip" and question is not None:
        calls.skip(question)
    elif what == "undo":
        calls.undo(who)
    elif what == "erase":
        calls.erase(*((int(rng.integers(ROWS)), None) if rng.random() < 0.7 else (None, who)))
    elif what == "import":
        rows = rng.choice(ROWS, size=rng.integers(1, 4), replace=False)
        calls.take_in([(int(row), who, outcome) for row in rows])
    elif what == "time":
        calls.pass_time(int(rng.choice(JUMPS)))
    elif what == "refit":
        calls.refit()
    else:
        calls.reopen()
