"""The audit of a run: people of the test part drawn at random and asked about, as a campaign would without records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from apod.audit import allocate, audit, draw_people
from apod.audit.sampling import cells_of, check_people
from apod.data.dataset import UNKNOWN
from apod.errors import BudgetError
from apod.method.algorithm1 import Mitigation, Question
from apod.method.annotators import Interview
from apod.method.prepare import Prepared
from apod.method.selection import Choice
from apod.randomness import generator

AUDIT = -1
"""Stands for the trajectory in the file of answers: audit answers belong to none."""

RULE = "audit, random person of a label and both decisions"


def audited(
    prepared: Prepared,
    mitigation: Mitigation,
    trajectory: int,
    predicted: npt.NDArray[np.bool_],
    answers: int,
    interview: Interview,
    seed: int,
) -> dict[str, Any] | None:
    """Estimates per group before and after from so many answers about the test part, as `apod audit --json` has them.

    predicted (2, n_test): before, after. None where nobody who was drawn could be told.
    """
    dataset, test = prepared.dataset, prepared.split.test
    if answers > len(test):
        raise BudgetError(f"An audit of {answers} people does not fit a test part of {len(test)}: ask for fewer.")
    labels, names = dataset.labels[test], dataset.group_names
    decisions = {"before": predicted[0].astype(np.int64), "after": predicted[1].astype(np.int64)}
    groups, chance = np.full(len(test), UNKNOWN), np.full(len(test), np.nan)
    plan = cells_of(check_people(labels, decisions, groups, names), list(decisions))
    even = np.full((len(plan.sizes), len(names)), 1 / len(names))
    counts = allocate(even, plan.views, answers, notion=mitigation.notion)
    drawn = draw_people(plan.code, counts, np.arange(len(test)), generator(seed, "audit", dataset.key))
    for row, probability in zip(drawn.rows.tolist(), drawn.probability.tolist(), strict=True):
        choice = Choice(row, {"rule": RULE}, probability)
        groups[row] = interview(Question(AUDIT, mitigation.round, choice, "audit"))
        chance[row] = probability
    if (groups == UNKNOWN).all():
        return None
    guessed = mitigation.membership(prepared.test_seen)[trajectory].double().numpy()
    return audit(
        labels, decisions, groups, names, probability=chance, proxies=guessed, seed=seed, notion=mitigation.notion
    ).to_dict()
