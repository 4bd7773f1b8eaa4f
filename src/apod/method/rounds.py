"""The loop of Algorithm 1 around a `Mitigation`: ask, hear, refit, until the budget is spent.

The order of a round: f_a on S, POD on S, AIS picks, the answer joins S; after the last answer one more f_a and POD, so
that no answer is wasted. Every answer counts against the budget, the first ones and those that could not be given
included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apod.method.algorithm1 import Mitigation, Question

Ask = Callable[[Question], int]
"""Gives the group code of a question's row; UNKNOWN when it cannot be told. Raises AnnotatorError."""

FIRST_ANSWERS = 4
"""How many random answers come first, two per label; more while a group is still unseen."""


@dataclass(frozen=True)
class Answered:
    """A question and the group it got."""

    question: Question
    group: int


def first_answers_done(asked: int, groups_seen: int, n_groups: int, budget: int) -> bool:
    """Whether random answers may end: every group was seen, or a third of the budget went into looking for it."""
    least = min(FIRST_ANSWERS, budget)
    return asked >= max(least, budget // 3) or (asked >= least and groups_seen == n_groups)


def first_answers(mitigation: Mitigation, ask: Ask, budget: int) -> list[Answered]:
    """Random answers, balanced by label, until every group has been seen; the same rows for every trajectory."""
    given: list[Answered] = []
    for number, choice in enumerate(mitigation.first_questions()):
        seen = min(len(answers.seen()) for answers in mitigation.answers)
        if first_answers_done(number, seen, mitigation.pool.n_groups, budget):
            break
        for trajectory in range(len(mitigation.answers)):
            given.append(_hear(mitigation, ask, Question(trajectory, 0, choice)))
    return given


def next_answers(mitigation: Mitigation, ask: Ask, budget: int, k: int) -> list[Answered]:
    """Ask the next questions of every trajectory; empty when the budget is spent or nobody is left."""
    left = budget - max(len(answers) for answers in mitigation.answers)
    if left <= 0:
        return []
    return [_hear(mitigation, ask, question) for question in mitigation.ask(min(k, left))]


def _hear(mitigation: Mitigation, ask: Ask, question: Question) -> Answered:
    answered = Answered(question, ask(question))
    mitigation.tell(question.trajectory, question.row, answered.group)
    return answered


def run_rounds(
    mitigation: Mitigation,
    ask: Ask,
    budget: int,
    questions_per_round: int = 1,
    on_round: Callable[[list[Answered]], None] = lambda answered: None,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Run until the budget is spent, or `enough`; `on_round` hears of every refit, with the answers that led to it."""
    answered = first_answers(mitigation, ask, budget) if mitigation.round == 0 else []
    if answered:
        mitigation.refit()
        on_round(answered)
    while not enough() and (answered := next_answers(mitigation, ask, budget, questions_per_round)):
        mitigation.refit()
        on_round(answered)
