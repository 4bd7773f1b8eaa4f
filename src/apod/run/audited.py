"""The audit of a run: people of the test part drawn at random and asked about, as a campaign would without records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.audit import allocate, audit, draw_people
from apod.audit.sampling import cells_of, check_people
from apod.data.dataset import UNKNOWN
from apod.errors import BudgetError
from apod.method.algorithm1 import Question
from apod.method.annotators import Interview
from apod.method.pool import Answers
from apod.method.selection import Choice
from apod.randomness import generator
from apod.run.record import Measured

AUDIT, VERIFYING = -1, -2
"""Stand for the trajectory in the file of answers: what audits and verifies belongs to none."""

RULE = "audit, random person of a label and both decisions"


@dataclass(frozen=True, eq=False)
class Audited:
    """The test part, as an audit meets it."""

    measured: Measured
    predicted: npt.NDArray[np.bool_]  # (2, n_test) before, after
    guessed: npt.NDArray[np.float64]  # (n_test, G) group probabilities
    known: Answers = field(default_factory=Answers)  # handed in: they speak for themselves
    closed: Sequence[int] = ()  # nobody can answer for these: they are no part of the audit


def audited(people: Audited, answers: int, round_: int, interview: Interview) -> dict[str, Any] | None:
    """Estimates per group before and after from so many answers about the test part, as `apod audit --json` has them.

    None where nobody who was drawn could be told.
    """
    measured, part = people.measured, np.delete(np.arange(len(people.measured.rows)), list(people.closed))
    dataset, notion, seed = measured.dataset, measured.notion, measured.seed
    labels, names = dataset.labels[measured.rows[part]], dataset.group_names
    before, after = people.predicted[:, part].astype(np.int64)
    decisions = {"before": before, "after": after}
    groups, chance = np.full(len(part), UNKNOWN), np.full(len(part), np.nan)
    known = np.isin(part, people.known.rows)
    groups[known] = np.array(people.known.groups, dtype=np.int64)[np.searchsorted(people.known.rows, part[known])]
    free = np.flatnonzero(~known)
    if answers > len(free):
        raise BudgetError(f"An audit of {answers} people does not fit the {len(free)} of the test part: ask for fewer.")
    plan = cells_of(check_people(labels, decisions, groups, names, chance), list(decisions))
    even = np.full((len(plan.sizes), len(names)), 1 / len(names))
    room = np.bincount(plan.code[free], minlength=len(plan.sizes))
    counts = allocate(even, plan.views, answers, room, notion)
    drawn = draw_people(plan.code, counts, free, generator(seed, "audit", dataset.key))
    for row, probability in zip(drawn.rows.tolist(), drawn.probability.tolist(), strict=True):
        choice = Choice(int(part[row]), {"rule": RULE}, probability)
        groups[row] = interview(Question(AUDIT, round_, choice, "audit"))
        chance[row] = probability
    if (groups[drawn.rows] == UNKNOWN).all():
        return None
    proxies = people.guessed[part]
    return audit(
        labels, decisions, groups, names, probability=chance, proxies=proxies, seed=seed, notion=notion
    ).to_dict()
