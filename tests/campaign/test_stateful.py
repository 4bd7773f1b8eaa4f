"""Any sequence of calls, by several people, with time passing: what must always hold, holds after every one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import standin
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from apod.campaign import Question
from apod.campaign.errors import Conflict, NotFound
from apod.campaign.journal import Journal
from apod.testing import Place
from apod.testing.contract import GROUPS, Workshop

PEOPLE = st.sampled_from(["anna", "bob", "carl"])
OUTCOMES = st.sampled_from([*GROUPS, "cannot_tell", "declined"])


class Calls(RuleBasedStateMachine):
    """Random calls on a campaign, and a list of what was acknowledged."""

    questions = Bundle("questions")

    @initialize(overlap=st.integers(1, 2), budget=st.integers(1, 8), costs=st.booleans())
    def start(self, overlap: int, budget: int, costs: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.workshop = Workshop(Place(f"sqlite:///{self.folder}/x.db", self.folder / "files"), standin.build)
        self.campaign = self.workshop.create(
            rows=30, overlap=overlap, budget=budget, unanswered_costs=costs, lease_seconds=60
        )
        self.told: dict[str, str] = {}

    @rule(target=questions, who=PEOPLE)
    def ask(self, who: str) -> Question | None:
        question = self.campaign.ask(who)
        assert question is None or question.annotator == who
        return question

    @rule(question=questions, outcome=OUTCOMES)
    def tell(self, question: Question | None, outcome: str) -> None:
        if question is None:
            return
        withdrawn = question.id in self.withdrawn()
        try:
            receipt = self.campaign.tell(question, outcome)
        except Conflict:
            assert question.id in self.told
            assert withdrawn or self.told[question.id] != outcome
            return
        assert not withdrawn
        assert receipt.repeated == (question.id in self.told)
        self.told[question.id] = outcome

    def withdrawn(self) -> set[str]:
        journal = Journal(self.campaign.store, self.campaign.materials.campaign)
        given = journal.view(lambda connection, state, at: list(state.answers.values()))
        return {f"{one.number}-{one.token}" for one in given if one.withdrawn}

    @rule(question=consumes(questions))
    def skip(self, question: Question | None) -> None:
        if question is None:
            return
        try:
            self.campaign.skip(question)
        except Conflict:
            assert question.id in self.told

    @rule(target=questions, who=PEOPLE)
    def undo(self, who: str) -> Question | None:
        try:
            return self.campaign.undo(who)
        except NotFound:
            return None

    @rule(seconds=st.sampled_from([-1000, 10, 61]))
    def pass_time(self, seconds: int) -> None:
        self.workshop.pass_time(seconds)

    @rule()
    def reopen(self) -> None:
        self.campaign.close()
        self.campaign = self.workshop.open()

    @invariant()
    def what_must_always_hold(self) -> None:
        if not hasattr(self, "campaign"):
            return
        status = self.campaign.status()
        assert status.answered + status.pending <= status.budget

        def look(connection: object, state: object, at: int) -> object:
            return state

        state = Journal(self.campaign.store, self.campaign.materials.campaign).view(look)  # type: ignore[arg-type]
        held = self.campaign.journal.view(look)  # type: ignore[arg-type]
        assert state == held
        assert state.spent == sum(state.costs(given) for given in state.answers.values())  # type: ignore[attr-defined]
        for asked in state.questions.values():  # type: ignore[attr-defined]
            counted = [state.answers[seq] for seq in asked.given if state.answers[seq].counted]  # type: ignore[attr-defined]
            standing = [given.annotator for given in counted if not given.withdrawn]
            assert len(standing) == len(set(standing)) <= state.overlap  # type: ignore[attr-defined]
        recorded = {f"{given.number}-{given.token}" for given in state.answers.values()}  # type: ignore[attr-defined]
        assert recorded == set(self.told)

    def teardown(self) -> None:
        if hasattr(self, "campaign"):
            assert self.campaign.verify_log().ok
            for campaign in self.workshop.opened:
                campaign.close()
            shutil.rmtree(self.folder)


Calls.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
TestCalls = Calls.TestCase
