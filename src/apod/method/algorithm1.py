"""Algorithm 1: questions, answers and refits in turn, whatever is trained on the answers.

    first answers at random;  then, until the budget is spent:  train on S · a selector picks · the answer joins S

and after the last answer one more training, so that no answer is wasted. Every answer counts against the budget, the
first ones and those that could not be given included. Nothing here ever sees a group that was not answered. What is
trained is heads on a body (`method.head_mitigation`) or the correction of a model (`method.model_mitigation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from apod.data.dataset import UNKNOWN, IntArray
from apod.fairness.notions import Notion
from apod.method.selection import Choice

VANILLA = 0.0
"""The strength of the head nobody penalises; every plan trains it beside the others, with the same steps."""


@dataclass(frozen=True)
class Answers:
    """Rows asked about and the group each answer gave; UNKNOWN where the annotator could not tell.

    Every asked row counts against the budget and is never asked again; only rows with a group are in S. Where
    annotators disagree a row stands once per group, with weights that sum to one. The first ones may be groups that
    were handed in: nobody was asked about them, and they cost nothing.
    """

    rows: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    weights: tuple[float, ...] = field(default=())  # trust in each answer, 1 unless an annotator model says less
    handed_in: int = field(default=0, kw_only=True)  # so many come first

    def __post_init__(self) -> None:
        if not self.weights:
            object.__setattr__(self, "weights", (1.0,) * len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def asked(self) -> int:
        """How many count against the budget."""
        return len(self.rows) - self.handed_in

    def plus(self, row: int, group: int, weight: float = 1.0) -> Answers:
        """These answers and one more."""
        return Answers((*self.rows, row), (*self.groups, group), (*self.weights, weight), handed_in=self.handed_in)

    def known(self) -> tuple[IntArray, IntArray]:
        """Rows and groups of S."""
        rows, groups = np.array(self.rows, dtype=np.int64), np.array(self.groups, dtype=np.int64)
        return rows[groups != UNKNOWN], groups[groups != UNKNOWN]

    def likeliest(self) -> tuple[IntArray, IntArray]:
        """Rows and groups of S with each row once: where annotators disagree, the group with the most weight."""
        rows, groups = self.known()
        if len(np.unique(rows)) == len(rows):
            return rows, groups
        best = np.lexsort((groups, -self.trust(), rows))  # by row, the heaviest group first
        first = best[np.flatnonzero(np.r_[True, np.diff(rows[best]) != 0])]
        return rows[first], groups[first]

    def trust(self) -> npt.NDArray[np.float64]:
        """Weights of S, in the order of `known`."""
        weights, groups = np.array(self.weights), np.array(self.groups, dtype=np.int64)
        return np.asarray(weights[groups != UNKNOWN], dtype=np.float64)

    def groups_seen(self) -> set[int]:
        """Groups that have been answered at least once."""
        return {group for group in self.groups if group != UNKNOWN}

    def empty_cells(self, labels: IntArray, n_groups: int) -> list[tuple[int, int]]:
        """The (group, label) cells that nobody is known of; labels (n,) of the rows that may be asked about."""
        rows, groups = self.known()
        filled = set(zip(groups.tolist(), labels[rows].tolist(), strict=True))
        return [(group, label) for group in range(n_groups) for label in (0, 1) if (group, label) not in filled]


Purpose = Literal["training", "verification", "audit"]


@dataclass(frozen=True)
class Question:
    """One row of the training part to ask about, in one trajectory."""

    trajectory: int
    round: int
    choice: Choice
    purpose: Purpose = "training"

    @property
    def row(self) -> int:
        """Index into the training part."""
        return self.choice.row


Ask = Callable[[Question], int]
"""Gives the group code of a question's row; UNKNOWN when it cannot be told. Raises AnnotatorError."""


@dataclass(frozen=True)
class Answered:
    """A question and the group it got."""

    question: Question
    group: int


def next_answers(mitigation: Alternating, ask: Ask, budget: int, k: int) -> list[Answered]:
    """Ask the next questions of every trajectory with answers left; none when all are spent or nobody is left."""
    left = [budget - answers.asked for answers in mitigation.answers]
    if max(left) <= 0:
        return []
    answered = []
    for question in mitigation.ask(min(k, max(left))):
        if left[question.trajectory] > 0:
            answered.append(put(mitigation, ask, question))
            left[question.trajectory] -= 1
    return answered


def put(mitigation: Alternating, ask: Ask, question: Question) -> Answered:
    """Put one question and take in its answer."""
    answered = Answered(question, ask(question))
    mitigation.add_answer(question.trajectory, question.row, answered.group)
    return answered


class Alternating(Protocol):
    """Whatever asks, takes in answers and refits in turn: heads on a body, or the correction of a model."""

    answers: list[Answers]
    round: int

    @property
    def notion(self) -> Notion:
        """What is equalised."""
        ...

    def begin_with(self, known: Answers, closed: Sequence[int] = ()) -> None:
        """Start from groups that were handed in; nobody is asked about `closed`."""
        ...

    def first_answers(self, ask: Ask, budget: int) -> list[Answered]:
        """Put the questions that come before any refit."""
        ...

    def ask(self, k: int = 1) -> list[Question]:
        """The next k questions of every trajectory."""
        ...

    def add_answer(self, trajectory: int, row: int, group: int) -> None:
        """Take in one answer."""
        ...

    def refit(self) -> None:
        """Train on all answers so far."""
        ...


def run_rounds(
    mitigation: Alternating,
    ask: Ask,
    budget: int,
    questions_per_round: int = 1,
    on_round: Callable[[list[Answered]], None] = lambda answered: None,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Run until the budget is spent, or `enough`; `on_round` gets the answers of every refit."""
    answered = mitigation.first_answers(ask, budget) if mitigation.round == 0 else []
    if answered or (mitigation.round == 0 and mitigation.answers[0].handed_in):
        mitigation.refit()
        on_round(answered)
    while not enough() and (answered := next_answers(mitigation, ask, budget, questions_per_round)):
        mitigation.refit()
        on_round(answered)
