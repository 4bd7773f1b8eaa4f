"""Any sequence of calls, by several people, with a clock that jumps: what must always hold, holds after every one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import standin
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from random_calls import JUMPS, OUTCOMES, PEOPLE, ROWS, Calls, step

from apod.campaign import Question
from apod.randomness import generator
from apod.testing import Place
from apod.testing.engines import Workshop
from support.postgres import ThrowawayPostgres

who, outcomes, rows = st.sampled_from(PEOPLE), st.sampled_from(OUTCOMES), st.integers(0, ROWS - 1)
steps = st.integers(-8, -1)  # one of the questions put last


def new_folder() -> Path:
    """A folder in memory where there is one: what is tested here is not whether the disk keeps its word."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))


@pytest.fixture
def folder() -> Iterator[Path]:
    found = new_folder()
    yield found
    shutil.rmtree(found)


class Machine(RuleBasedStateMachine):
    """Hypothesis chooses the calls, and shortens the sequence where one fails."""

    @initialize(overlap=st.integers(1, 3), budget=st.integers(1, 12), costs=st.booleans())
    def start(self, overlap: int, budget: int, costs: bool) -> None:
        self.folder = new_folder()
        self.workshop = Workshop(Place(f"sqlite:///{self.folder}/x.db", self.folder / "files"), standin.build)
        self.calls = Calls(self.workshop, self.folder, "trial", overlap, budget, costs)

    @rule(who=who, count=st.integers(1, 3))
    def hand(self, who: str, count: int) -> None:
        self.calls.hand(who, count)

    def question(self, place: int) -> Question:
        known = list(self.calls.questions.values())
        return known[max(place, -len(known))]

    @precondition(lambda self: self.calls.questions)
    @rule(place=steps, outcome=outcomes)
    def tell(self, place: int, outcome: str) -> None:
        self.calls.tell(self.question(place), outcome)

    @precondition(lambda self: self.calls.questions)
    @rule(place=steps, outcome=outcomes)
    def correct(self, place: int, outcome: str) -> None:
        self.calls.correct(self.question(place), outcome)

    @precondition(lambda self: self.calls.questions)
    @rule(place=steps)
    def skip(self, place: int) -> None:
        self.calls.skip(self.question(place))

    @rule(who=who)
    def undo(self, who: str) -> None:
        self.calls.undo(who)

    @rule(row=rows)
    def erase_row(self, row: int) -> None:
        self.calls.erase(row, None)

    @rule(who=who)
    def erase_annotator(self, who: str) -> None:
        self.calls.erase(None, who)

    @rule(found=st.lists(rows, min_size=1, max_size=3, unique=True), who=who, outcome=outcomes)
    def take_in(self, found: list[int], who: str, outcome: str) -> None:
        self.calls.take_in([(row, who, outcome) for row in found])

    @rule(seconds=st.sampled_from(JUMPS))
    def pass_time(self, seconds: int) -> None:
        self.calls.pass_time(seconds)

    @rule()
    def refit(self) -> None:
        self.calls.refit()

    @rule()
    def reopen(self) -> None:
        self.calls.reopen()

    @invariant()
    def what_must_always_hold(self) -> None:
        if hasattr(self, "calls"):
            self.calls.check()

    def teardown(self) -> None:
        if hasattr(self, "calls"):
            try:
                self.calls.close()
            finally:
                for campaign in self.workshop.opened:
                    campaign.close()
                shutil.rmtree(self.folder)


Machine.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
TestMachine = Machine.TestCase


def play(place: Place, folder: Path, seeds: range) -> None:
    """Random sequences of calls, each on a campaign of its own."""
    for seed in seeds:
        rng = generator(seed, "random calls")
        workshop = Workshop(place, standin.build)
        overlap, budget, costs = int(rng.integers(1, 4)), int(rng.integers(2, 16)), bool(rng.integers(2))
        calls = Calls(workshop, folder, f"trial {seed}", overlap, budget, costs)
        for _ in range(25):
            step(calls, rng)
        calls.close()
        for campaign in workshop.opened:
            campaign.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_two_thousand_random_sequences_lose_nothing_and_count_nobody_twice(part: int, folder: Path) -> None:
    play(Place(f"sqlite:///{folder}/x.db", folder / "files"), folder, range(500 * part, 500 * (part + 1)))


@pytest.mark.slow
def test_random_sequences_on_postgresql_lose_nothing_and_count_nobody_twice(
    postgres: ThrowawayPostgres, folder: Path
) -> None:
    play(Place(postgres.fresh(), folder / "files"), folder, range(2000, 2200))
