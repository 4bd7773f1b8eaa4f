"""A correction is tried on fresh answers before it is applied.

A correction changes the gap only through the people whose decision it changes. Someone newly decided 1 narrows it when
they belong to the groups that got 1 too rarely in their cell, someone newly decided 0 when they belong to the others:
the change is *for* these groups. With share p_c of them in cell c, N_c people in it,

    fall of the gap  =  sum over changed people of  (for them or not - p_c) / (N_c p_c (1 - p_c))

as long as nothing is overshot. So people are drawn at random among the changed, each with probability in proportion to
1 / (N_c p_c (1 - p_c)), and the change passes when more of them belong to the groups it is for than chance would bring
were the shares at their unfavourable 90 % limit: a one-sided exact test. The correction is frozen before the first of
these answers, so having searched hundreds of candidates costs nothing here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from apod.fairness.many_labels import pair_events
from apod.method.correction_choice import Limits
from apod.method.correction_fit import STRENGTHS, FittedCorrection, Frozen, Population, fit_correction
from apod.method.outlook import Verdict
from apod.method.selection import Choice

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LEVEL, SHRUNK_LEVEL = 0.08, 0.02
"""Of the test of the whole correction, and of its weaker half if that fails: together .1."""
LIMIT = 0.9
"""How sure it is that a group's share is below the one the test assumes."""
CERTAIN = 0.9
"""Answers less sure than this do not count in the test."""

VERIFYING_RULE = "random person whose decision the correction changes"
UNVERIFIED = "The base model is kept: the correction that the answers chose is not verified yet."
FAILED_TEST = "The base model is kept: the correction that the answers chose did not pass the test of fresh ones."


@dataclass(frozen=True)
class Tally:
    """Of the people a correction would newly decide one way: how many were asked about, and are those it is for."""

    decision: int  # code of the label they would newly be decided
    groups: tuple[int, ...]  # the change is for these
    asked: int
    favourable: int


@dataclass(frozen=True)
class Verified:
    """What fresh answers say of a frozen correction."""

    verdict: Verdict
    asked: int  # answers that count
    favourable: int  # of these, people of the groups that the change is for
    needed: int | None  # at least so many of them; None where no number would be enough
    strength: float  # to be applied; 0 = the model as it is
    tallies: tuple[Tally, ...] = ()

    def words(self, groups: Sequence[str], labels: Sequence[str]) -> str:
        """Sentences for people; names of the groups and of the two labels, as their codes count them."""
        if self.verdict == "not verified":
            return f"Not verified: {self.asked} fresh answers cannot tell."
        found = "; of ".join(
            f"{one.asked} {'person' if one.asked == 1 else 'people'} it would newly decide {labels[one.decision]!r}, "
            f"{one.favourable} {'is' if one.favourable == 1 else 'are'} "
            f"{' or '.join(groups[group] for group in one.groups)}"
            for one in self.tallies
        )
        total = f" That is {self.favourable} of {self.asked};" if len(self.tallies) > 1 else ""
        needed = f"at least {self.needed} were needed." if self.needed is not None else "no number would have sufficed."
        ending = {"passed": "", "shrunk": " Half of its changes passed.", "failed": " The base model is kept."}
        return f"Of {found}{'.' if total else ';'}{total} {needed}{ending[self.verdict]}"


@dataclass(frozen=True, eq=False)
class Changes:
    """The people whose decision a correction changes, and what chance alone would bring among them."""

    rows: IntArray  # (m,) of the population
    place: IntArray  # (m,) on the grid of strengths, where their decision changes
    favoured: BoolArray  # (m, G) the groups that a person's change is for
    chance: Floats  # (m,) their share of the cell, at its unfavourable limit
    weight: Floats  # (m,) how much a person moves the gap
    upward: BoolArray | IntArray  # (m,) newly decided 1; of more than two labels, what they are newly decided
    half: int  # the place on the grid by which half of all changes are made


def leading_changes(fitted: FittedCorrection) -> Changes:
    """Of the leading correction, applied or not."""
    population, paths = fitted.population, fitted.paths
    if population.notion.classes > 2:
        return _class_changes(fitted)
    cells = np.asarray(population.notion.cells(population.people.labels))  # (n, k)
    band = fitted.band[fitted.chosen.direction]
    rows = np.flatnonzero((band <= fitted.chosen.strength) & cells.any(axis=1))
    cell, upward = cells[rows].argmax(axis=1), population.people.decisions[rows] == 0
    rates = np.nanmean(paths.base, axis=0)  # (k, G)
    below = rates < rates.mean(axis=1, keepdims=True)
    favoured = np.where(upward[:, None], below[cell], ~below[cell])  # (m, G)
    share = paths.expected / paths.expected.sum(axis=2, keepdims=True)  # (D, k, G)
    lower = (share * below).sum(axis=2)  # (D, k) share of the groups below
    limits = np.quantile(np.stack([1 - lower, lower]), LIMIT, axis=1)  # (2, k): of those above, of those below
    middle = lower.mean(axis=0).clip(1e-3, 1 - 1e-3)
    own = population.weights
    people = cells.sum(axis=0) if own is None else own @ cells
    weight = 1 / (people * middle * (1 - middle))  # (k,)
    moves = weight[cell] if own is None else weight[cell] * own[rows]  # whoever stands for more moves the gap more
    chance = limits[upward.astype(np.int64), cell]
    half = int(np.median(band[rows])) if len(rows) else 0
    return Changes(rows, band[rows], favoured, chance, moves, upward, half)


def _class_changes(fitted: FittedCorrection) -> Changes:
    """Of more than two labels: a change counts in the pair, of a cell and a decision that is counted in it, where the
    groups are farther apart, the one it leaves or the one it enters; none where nothing is counted."""
    population, paths, decided = fitted.population, fitted.paths, fitted.decided()
    notion, labels, own = population.notion, population.people.labels, population.people.decisions
    rates = np.nanmean(paths.base, axis=0)  # (pairs, G)
    changed = np.flatnonzero(decided != own)
    left, entered = (pair_events(notion, labels[changed], one[changed])[1] for one in (own, decided))  # (m, pairs)
    apart = np.where(left | entered, np.ptp(rates, axis=1), -1.0)  # (m, pairs)
    pair, counts = apart.argmax(axis=1), (left | entered).any(axis=1)
    rows, pair, upward = changed[counts], pair[counts], entered[np.arange(len(changed)), pair][counts]
    below = rates < rates.mean(axis=1, keepdims=True)
    favoured = np.where(upward[:, None], below[pair], ~below[pair])
    share = paths.expected / paths.expected.sum(axis=2, keepdims=True)  # (D, pairs, G)
    lower = (share * below).sum(axis=2)
    limits = np.quantile(np.stack([1 - lower, lower]), LIMIT, axis=1)  # (2, pairs)
    middle = lower.mean(axis=0).clip(1e-3, 1 - 1e-3)
    everybody = pair_events(notion, labels, own)[0].sum(axis=0)
    weight = 1 / (everybody * middle * (1 - middle))  # (pairs,)
    chance, place = limits[upward.astype(np.int64), pair], fitted.reached(rows)
    half = int(np.median(place)) if len(rows) else 0
    return Changes(rows, place, favoured, chance, weight[pair], decided[rows], half)


@dataclass(frozen=True, eq=False)
class Verification:
    """A frozen correction and whom it changes."""

    frozen: Frozen
    changes: Changes

    @property
    def fingerprint(self) -> str:
        """What tells this frozen correction from any other."""
        digest = hashlib.blake2b(np.float64(self.frozen.strength).tobytes(), digest_size=16)
        for own in (self.frozen.weights, self.frozen.direction, self.frozen.scores.shares):
            digest.update(np.ascontiguousarray(own, dtype=np.float64).tobytes())
        return digest.hexdigest()

    def draw(self, count: int, askable: BoolArray, rng: np.random.Generator) -> list[Choice]:
        """People to ask about, at random among the changed; askable (n,) over the population. Fewer if there are."""
        rows, weight = self.changes.rows, self.changes.weight
        left = np.flatnonzero(askable[rows])
        chosen = []
        for _ in range(min(count, len(left))):
            odds = weight[left] / weight[left].sum()
            place = int(rng.choice(len(left), p=odds))
            chosen.append(Choice(int(rows[left[place]]), {"rule": VERIFYING_RULE}, float(odds[place])))
            left = np.delete(left, place)
        return chosen

    def judge(self, answers: Mapping[int, Floats]) -> Verified:
        """The verdict of fresh answers: row of the population -> likelihood (G,) of what was answered."""
        changes, full = self.changes, self.frozen.place
        place = {int(row): at for at, row in enumerate(changes.rows)}
        sure = {place[row]: own for row, own in answers.items() if row in place and own.max() >= CERTAIN * own.sum()}
        at = np.array(sorted(sure), dtype=np.int64)
        favourable = np.array([changes.favoured[p, int(sure[p].argmax())] for p in at.tolist()], dtype=np.bool_)
        count, needed = int(favourable.sum()), needed_count(changes.chance[at], LEVEL)
        tallies = _tallies(changes, at, favourable)
        if needed is None:
            return Verified("not verified", len(at), count, None, float(STRENGTHS[full]), tallies)
        if count >= needed:
            return Verified("passed", len(at), count, needed, float(STRENGTHS[full]), tallies)
        inside = changes.place[at] <= changes.half
        enough = needed_count(changes.chance[at][inside], SHRUNK_LEVEL) if changes.half < full else None
        if enough is not None and int(favourable[inside].sum()) >= enough:
            return Verified("shrunk", len(at), count, needed, float(STRENGTHS[changes.half]), tallies)
        return Verified("failed", len(at), count, needed, 0.0, tallies)


def _tallies(changes: Changes, at: IntArray, favourable: BoolArray) -> tuple[Tally, ...]:
    """Those asked about, by what they would newly be decided and whom that is for."""
    found: dict[tuple[int, tuple[int, ...]], list[bool]] = {}
    for place, own in zip(at.tolist(), favourable.tolist(), strict=True):
        groups = tuple(np.flatnonzero(changes.favoured[place]).tolist())
        found.setdefault((int(changes.upward[place]), groups), []).append(own)
    return tuple(Tally(*kind, len(own), sum(own)) for kind, own in sorted(found.items()))


def plan_verification(fitted: FittedCorrection) -> Verification | None:
    """Freeze the correction that these answers chose; None where the base model is kept."""
    frozen = fitted.freeze()
    return None if frozen is None else Verification(frozen, leading_changes(fitted.verified_by))


def apply_verdict(
    population: Population, answers: Mapping[int, Floats], limits: Limits, seed: int, plan: Frozen, told: Verified
) -> FittedCorrection:
    """The frozen correction as the verdict leaves it, judged by all answers, the fresh ones among them.

    It is not applied where it failed, or where all answers together no longer support it.
    """
    place = plan.place if told.strength == 0 else int(np.abs(STRENGTHS - told.strength).argmin())
    kept = fit_correction(population, answers, limits, seed, frozen=replace(plan, place=place))
    return kept if told.strength > 0 else replace(kept, chosen=replace(kept.chosen, applied=False))


def needed_count(chance: Floats, level: float) -> int | None:
    """The smallest number of successes that chance alone, with these probabilities, reaches with at most `level`."""
    reached = np.cumsum(count_distribution(chance)[::-1])[::-1]  # P(count >= m), m = 0 to n
    small = np.flatnonzero(reached <= level)
    return int(small[0]) if len(small) else None


def count_distribution(chance: Floats) -> Floats:
    """(n + 1,) distribution of the number of successes of n independent trials with these probabilities, exactly."""
    distribution = np.ones(1)
    for p in chance:
        distribution = np.append(distribution * (1 - p), 0) + np.append(0, distribution * p)
    return distribution
