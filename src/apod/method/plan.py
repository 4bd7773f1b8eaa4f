"""How many answers are enough? Before any answer, and once a correction leads.

Before: n_c random answers from cell c (a label), a group with share p of it, decisions 1 at rate r_c. The difference of
two groups' rates has standard error s_c = sqrt(r_c (1 - r_c) / (n_c p (1 - p))), whether or not everybody's decision is
known. All differences together are told from none by a chi-squared test; the smallest gap is the one that the test
finds with the stated probability however it is shared among the cells.

Afterwards: more answers raise what the choice maximises, E[fall] - caution x sd[fall], in two ways. They make the
deviation smaller, and they move the expectation, after which the better of correcting and not correcting is done. With
variance s^2 of the fall over draws, v that of one answer removed on average (`method.questions`) and s_n^2 what n of
them leave, the expectation moves by a normal amount of variance s^2 - s_n^2:

    E[max(0, Z)],   Z ~ N(E[fall] - caution x sd_n, s^2 - s_n^2),   1 / s_n^2 = 1 / s^2 + n v / (s^2 (s^2 - v))

A correction is confirmed when fresh answers about people whose decision it changes pass the exact test of
`method.verification`. How many that takes depends on what share of them belongs to the groups the change is for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import binom, chi2, ncx2, norm

from apod.errors import InputError
from apod.fairness.many_labels import pair_events
from apod.fairness.notions import Notion
from apod.method.correction_choice import Limits, affordable
from apod.method.correction_fit import FittedCorrection
from apod.method.outlook import CorrectionOutlookJson
from apod.method.questions import LEAST_PROBABILITY, RANDOM_SHARE
from apod.method.verification import LEVEL as CONFIRMING_LEVEL
from apod.method.verification import leading_changes
from apod.text import number

Floats = npt.NDArray[np.float64]

LEVEL, POWER = 0.05, 0.8
MOST_ANSWERS = 1000
WANTED = (0.3, 0.2, 0.1)
LOOKED_ROWS = 2000
"""So many people, evenly spaced, say how much an answer tells of the fall of the gap."""
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
    labels: int = 2

    def words(self) -> list[str]:
        """Sentences for people."""
        how = "assumed; --group-share says another" if self.assumed else "as you say"
        each = "half of each label" if self.labels == 2 else "as many of each label"
        lines = [f"With a group of {self.share:.0%} ({how}) and {self.answers} random answers, {each}:"]
        if self.smallest_gap > (MOST_GAP if self.labels == 2 else self.labels):
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
    return BudgetPlan(answers, told, assumed, gap, needed, notion.classes)


def difference_variances(
    notion: Notion,
    labels: npt.NDArray[np.int64],
    decisions: npt.NDArray[np.int64],
    share: float,
    answers: int,
) -> Floats:
    """(k,) variance of the estimated difference of two groups' rates in every cell, where there is none."""
    if notion.classes > 2:
        inside, happened = pair_events(notion, labels, decisions)  # (n, k x e)
        cells, events = inside.astype(np.float64), happened.sum(axis=0)
    else:
        cells = np.asarray(notion.cells(labels)).astype(np.float64)  # (n, k)
        events = decisions @ cells
    labels_in = np.asarray(notion.cells(np.arange(notion.classes))).sum(axis=0)  # (k,)
    asked = np.repeat(labels_in, cells.shape[1] // len(labels_in)) * answers / notion.classes  # each label as many
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = events / cells.sum(axis=0)
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


def expected_gain(fitted: FittedCorrection, limits: Limits, more: int) -> float | None:
    """By how much so many more answers are expected to raise what the choice maximises, by the leading direction.

    None where no place of its path is affordable. Never below 0, and never less with more answers.
    """
    if more <= 0:
        return 0.0
    way = fitted.chosen.direction
    allowed = affordable(fitted.costs, limits)[way] & (fitted.falls.reverses[way] <= limits.reversal)
    if not allowed.any():
        return None
    fall = _fall_by_draw(fitted)[allowed]  # (r, D)
    mean, total = fitted.falls.mean[way][allowed], fitted.falls.deviation[way][allowed] ** 2
    own = np.minimum(fall.var(axis=1), total)  # what answers can narrow; the rest is the sampling of those judged on
    one = np.minimum(_removed_by_answer(fitted, fall, more), 0.5 * own)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(own > 0, 1 / (1 / own + more * one / (own * (own - one))), 0.0)
        centre, spread = mean - limits.caution * np.sqrt(left + total - own), np.sqrt(own - left)
        z = np.where(spread > 0, centre / spread, np.inf * np.sign(centre))
    later = np.where(spread > 0, centre * norm.cdf(z) + spread * norm.pdf(z), np.maximum(0, centre))
    now = np.maximum(0, mean - limits.caution * np.sqrt(total)).max()
    return max(0.0, float(later.max() - now))


def _fall_by_draw(fitted: FittedCorrection) -> Floats:
    """(R, D) the fall of the gap along the leading direction, by every draw."""
    notion, paths = fitted.population.notion, fitted.paths
    rates = paths.rates[fitted.chosen.direction]  # (R, D, k, G)
    return np.asarray(notion.gap(paths.base[:, :, None]) - notion.gap(rates[..., None, :]))


def _removed_by_answer(fitted: FittedCorrection, fall: Floats, more: int) -> Floats:
    """(r,) variance of these falls (r, D) that one of the next answers removes on average: half are about random
    people, half about those who tell most."""
    population = fitted.population
    rows = np.linspace(0, population.training - 1, min(population.training, LOOKED_ROWS)).astype(np.int64)
    members = fitted.posterior.members(population.columns[rows])  # (n, D, G)
    flat = members.transpose(1, 0, 2).reshape(members.shape[1], -1)  # (D, n x G)
    centred = (fall - fall.mean(axis=1, keepdims=True)) / fall.shape[1]
    together = (centred.astype(flat.dtype) @ flat).astype(np.float64).reshape(len(fall), len(rows), -1)  # (r, n, G)
    told = (together**2 / members.mean(axis=1, dtype=np.float64).clip(LEAST_PROBABILITY)).sum(axis=2)  # (r, n)
    best = np.sort(told, axis=1)[:, -max(1, min(len(rows), more) // 2) :]
    return np.asarray(RANDOM_SHARE * told.mean(axis=1) + (1 - RANDOM_SHARE) * best.mean(axis=1))


def correction_outlook(
    fitted: FittedCorrection, limits: Limits, answers: int, more: int | None = None
) -> CorrectionOutlookJson:
    """What so many answers in all can tell of a gap, `more` of which are still to come, and what would confirm."""
    population, needed = fitted.population, confirmation(fitted)
    expected = fitted.paths.expected.mean(axis=0).sum(axis=0)  # (G,) people
    share = float((expected / expected.sum()).min().clip(1e-3, 1 - 1e-3))
    people = population.people
    gain = None if more is None else expected_gain(fitted, limits, more)
    gap = smallest_gap(population.notion, people.labels, people.decisions, share, answers) if answers else math.nan
    return {
        "answers": answers,
        "smallest_gap": number(gap),
        "confirming_answers": needed.answers,
        "probability": POWER,
        "expected_share": number(needed.expected),
        "chance_share": number(needed.chance),
        "gain": gain,
    }


def outlook_words(found: CorrectionOutlookJson) -> list[str]:
    """Sentences for people: what the answers can tell, and what would confirm the leading correction."""
    said, gap, answers = [], found["smallest_gap"], found["confirming_answers"]
    if gap is not None and gap <= MOST_GAP:
        said.append(
            f"{found['answers']:,} random answers alone tell a gap of {100 * gap:.0f} points or more from none "
            f"(probability {found['probability']:.0%})."
        )
    elif gap is not None:
        said.append(f"{found['answers']:,} random answers alone tell no gap from none, however large.")
    if answers is None:
        said.append("By what is known now, not even 1,000 fresh answers could be expected to confirm a correction.")
    else:
        said.append(
            f"If it is as it seems, {answers:,} fresh answer{'' if answers == 1 else 's'} about people whose decision "
            f"it changes would confirm the leading correction with a probability of {found['probability']:.0%}."
        )
    return said
