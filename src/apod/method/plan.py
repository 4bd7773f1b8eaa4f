"""How many answers are enough? Before any answer, and once a correction leads.

Before: n_c random answers from cell c (a label), a group with share p of it, decisions 1 at rate r_c. The difference of
two groups' rates has standard error s_c = sqrt(r_c (1 - r_c) / (n_c p (1 - p))), whether or not everybody's decision is
known. All differences together are told from none by a chi-squared test; the smallest gap is the one that the test
finds with the stated probability however it is shared among the cells.

Afterwards: a correction is confirmed when fresh answers about people whose decision it changes pass the exact test of
`method.verification`. How many that takes depends on what share of them belongs to the groups the change is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import binom, chi2, ncx2

from apod.errors import InputError
from apod.fairness.notions import Notion
from apod.method.correction_fit import FittedCorrection
from apod.method.verification import LEVEL as CONFIRMING_LEVEL
from apod.method.verification import leading_changes

Floats = npt.NDArray[np.float64]

LEVEL, POWER = 0.05, 0.8
MOST_ANSWERS = 1000


def smallest_gap(
    notion: Notion,
    labels: npt.NDArray[np.int64],
    decisions: npt.NDArray[np.int64],
    share: float,
    answers: int,
    *,
    level: float = LEVEL,
    power: float = POWER,
) -> float:
    """The smallest gap between two groups that so many random answers, equally from every label, tell from none.

    labels, decisions (n,) 0 or 1 of the people asked about · share of one of the groups. NaN where a label that counts
    gets no answer.
    """
    if not 0 < share < 1:
        raise InputError(f"A group's share has to be between 0 and 1, got {share:g}.")
    variances = difference_variances(notion, labels, decisions, share, answers)
    if not np.isfinite(variances).all():
        return float("nan")
    return float(np.sqrt(_noncentrality(len(variances), level, power) * variances.sum()))


def difference_variances(
    notion: Notion,
    labels: npt.NDArray[np.int64],
    decisions: npt.NDArray[np.int64],
    share: float,
    answers: int,
) -> Floats:
    """(k,) variance of the estimated difference of two groups' rates in every cell, where there is none."""
    cells = np.asarray(notion.cells(labels)).astype(np.float64)  # (n, k)
    labels_in = np.asarray(notion.cells(np.array([0, 1]))).sum(axis=0)  # (k,)
    asked = labels_in * answers / 2  # every label gets the same number of answers
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = (decisions @ cells) / cells.sum(axis=0)
        return np.asarray((rate * (1 - rate)).clip(1e-6) / (asked * share * (1 - share)))


def _noncentrality(degrees: int, level: float, power: float) -> float:
    """Of the chi-squared test with this level, for it to reach the power."""
    critical = chi2.ppf(1 - level, degrees)
    return float(brentq(lambda own: ncx2.sf(critical, degrees, own) - power, 1e-6, 200.0))


def answers_to_confirm(
    expected: float, chance: float, *, level: float = CONFIRMING_LEVEL, power: float = POWER, most: int = MOST_ANSWERS
) -> int | None:
    """How many fresh answers pass the exact test with probability `power`, at this expected and this chance share.

    From that number on the power stays above: a single lucky number does not count. None where `most` are too few.
    """
    if expected <= chance:
        return None
    numbers = np.arange(1, most + 1)
    needed = binom.isf(level, numbers, chance) + 1  # smallest count whose tail is at most the level
    reached = np.where(needed <= numbers, binom.sf(needed - 1, numbers, expected), 0.0)
    short = np.flatnonzero(reached < power)
    if not len(short):
        return 1
    return int(numbers[short[-1]] + 1) if short[-1] + 1 < most else None


@dataclass(frozen=True)
class Confirmation:
    """What it would take to confirm the leading correction."""

    expected: float  # share of the changed who are of the groups the change is for, by the answers so far
    chance: float  # the share that chance alone would bring
    answers: int | None  # None: more than a thousand, or the change is not expected to help


def confirmation(fitted: FittedCorrection) -> Confirmation:
    """How many fresh answers would confirm the correction that leads now, applied or not, if it is as it seems."""
    changes = leading_changes(fitted)
    if not len(changes.rows):
        return Confirmation(float("nan"), float("nan"), None)
    population, weight = fitted.population, changes.weight / changes.weight.sum()
    members = fitted.posterior.members(population.columns[changes.rows]).mean(axis=1, dtype=np.float64)  # (m, G)
    expected = float(weight @ (members * changes.favoured).sum(axis=1))
    chance = float(weight @ changes.chance)
    return Confirmation(expected, chance, answers_to_confirm(expected, chance))
