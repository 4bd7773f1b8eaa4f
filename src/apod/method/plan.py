"""How many answers are enough? Before any answer, and once a correction leads.

Before: n_c random answers from cell c (a label), a group with share p of it, decisions 1 at rate r_c. The difference of
two groups' rates has standard error s_c = sqrt(r_c (1 - r_c) / (n_c p (1 - p))), whether or not everybody's decision is
known. All differences together are told from none by a chi-squared test; the smallest gap is the one that the test
finds with the stated probability however it is shared among the cells.

Afterwards: a correction is confirmed when fresh answers about people whose decision it changes pass the exact test of
`method.verification`. How many that takes depends on what share of them belongs to the groups the change is for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
from apod.text import number

Floats = npt.NDArray[np.float64]

LEVEL, POWER = 0.05, 0.8
MOST_ANSWERS = 1000
WANTED = (0.3, 0.2, 0.1)
MOST_GAP = 2.0
"""No sum of two differences of rates is larger."""


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


@dataclass(frozen=True)
class BudgetPlan:
    """What so many answers alone can tell of a gap, before any of them is asked for."""

    answers: int
    share: float  # of the smaller group, told or assumed
    assumed: bool
    smallest_gap: float  # told from none with probability `POWER`
    needed: Mapping[str, int]  # gap -> answers that would tell it from none

    def words(self) -> list[str]:
        """Sentences for people."""
        how = "assumed; --group-share says another" if self.assumed else "as you say"
        lines = [f"With a group of {self.share:.0%} ({how}) and {self.answers} random answers, half of each label:"]
        if self.smallest_gap > MOST_GAP:
            lines.append("- no gap, however large, is told from none by the answers alone.")
        else:
            size = 100 * self.smallest_gap
            lines.append(f"- a gap of {size:.0f} points or more is told from none (probability {POWER:.0%}).")
        needed = ", ".join(f"{100 * float(gap):.0f} points {count:,}" for gap, count in self.needed.items())
        lines.append(f"- answers needed for a gap of: {needed}.")
        lines.append(
            "Where the group shows in the columns, guesses make intervals about half as wide as answers alone."
        )
        return lines

    def to_dict(self) -> dict[str, object]:
        """As JSON."""
        return {
            "answers": self.answers,
            "group_share": self.share,
            "share_assumed": self.assumed,
            "smallest_gap": number(self.smallest_gap),
            "probability": POWER,
            "answers_needed": dict(self.needed),
        }


def plan_budget(
    notion: Notion,
    labels: npt.NDArray[np.int64],
    decisions: npt.NDArray[np.int64],
    share: float | None,
    answers: int,
) -> BudgetPlan:
    """The smallest gap that the budget tells from none, and what budgets would tell smaller ones."""
    assumed = share is None
    told = 0.5 if share is None else min(share, 1 - share)
    gap = smallest_gap(notion, labels, decisions, told, answers)
    needed = {f"{wanted:g}": math.ceil(answers * (gap / wanted) ** 2) for wanted in WANTED} if gap > 0 else {}
    return BudgetPlan(answers, told, assumed, gap, needed)


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
    fitted = fitted.verified_by
    changes = leading_changes(fitted)
    if not len(changes.rows):
        return Confirmation(float("nan"), float("nan"), None)
    population, weight = fitted.population, changes.weight / changes.weight.sum()
    members = fitted.posterior.members(population.columns[changes.rows]).mean(axis=1, dtype=np.float64)  # (m, G)
    expected = float(weight @ (members * changes.favoured).sum(axis=1))
    chance = float(weight @ changes.chance)
    return Confirmation(expected, chance, answers_to_confirm(expected, chance))
