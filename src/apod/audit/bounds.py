"""Worst and best case of a gap: every value that some assignment of groups consistent with the data would give.

Labels and decisions are known for everybody, so people fall into cells of label and decision. Of each cell some
people's groups are known, some were drawn at random and answered, and of the others nothing is assumed: not that a
proxy guesses well, nor that people who gave no answer are like those who did. Of a random draw the exact
(hypergeometric) limits are taken, so that all of them hold at once with the level asked for; without a draw the bounds
are arithmetic and certain.

For two groups the bounds are attained: a rate grows with the group's selected people and falls with the others, so both
ends lie where the cells are at their limits. Beyond two groups they may be wider than necessary, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt
from scipy import stats

from apod.audit.json_types import BoundsJson
from apod.audit.sampling import People
from apod.data.dataset import IntArray
from apod.fairness.counts import GroupCounts
from apod.fairness.notions import Notion, SelectionRateRatio, compared

FloatArray = npt.NDArray[np.float64]
SURE = 1 - 1e-9
"""An answer with a smaller probability, because annotators disagree, tells nobody's group."""


@dataclass(frozen=True)
class Bounds:
    """The smallest and the largest gap that the data allow; None where a group has nobody to measure on."""

    low: float | None
    high: float | None

    def to_dict(self) -> BoundsJson:
        """For JSON."""
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class CellKnowledge:
    """What is known of the groups in c cells, each of one label and one decision."""

    labels: IntArray  # (c,)
    decisions: IntArray  # (c,)
    known: IntArray  # (c, g) people whose group is certain
    drawn: IntArray  # (c, g) answers of people drawn at random from all others of the cell
    sampled: IntArray  # (c,) people drawn at random, those without an answer among them
    rest: IntArray  # (c,) people who are not among the known, the sampled included


def gap_bounds(notion: Notion, cells: CellKnowledge, level: float = 0.95) -> Bounds:
    """The gaps consistent with the data; of random draws, with a probability of at least `level` that all hold."""
    low, high = _member_limits(cells, level)
    inside, happened = compared(notion, cells.labels, cells.decisions)  # (c, k), (c, e)
    ratio = isinstance(notion, SelectionRateRatio)
    ends = [_spread_limits(mine, happened[:, 0], low, high, ratio=ratio) for mine in inside.T]
    if any(end is None for end in ends):
        return Bounds(None, None)
    return Bounds(*(float(sum(end[side] for end in ends if end is not None)) for side in (0, 1)))


def counted_bounds(notion: Notion, counts: GroupCounts) -> Bounds:
    """Of recorded groups: whoever has none on record may be of any group. Certain, no sampling enters."""
    table = counts.cells.astype(np.int64)  # (g + 1, 2, 2), the last those without a group
    labels, decisions = (side.ravel() for side in np.indices((2, 2)))
    known = table[:-1].reshape(counts.n_groups, 4).T
    nobody = np.zeros(4, dtype=np.int64)
    return gap_bounds(
        notion, CellKnowledge(labels, decisions, known, np.zeros_like(known), nobody, table[-1].reshape(4))
    )


def knowledge_of(people: People, names: Sequence[str]) -> CellKnowledge | None:
    """What an audit knows of the cells of label and the first of these decisions, the others dividing them further.

    None where people of one such cell were drawn with different probabilities: no exact limits are known for that.
    """
    code = people.labels
    for name in names:
        code = code * 2 + people.decisions[name]
    drawn = ~np.isnan(people.probability)
    count, sure = 2 ** (len(names) + 1), people.answers.max(axis=1) >= SURE
    for cell in range(count):
        chances = people.probability[drawn & (code == cell)]
        if len(chances) and not np.isclose(chances, chances[0]).all():
            return None
    groups = people.answers.argmax(axis=1)
    every = np.arange(count)
    certain = sure & ~drawn
    return CellKnowledge(
        labels=every >> len(names),
        decisions=every >> (len(names) - 1) & 1,
        known=_table(code[certain], groups[certain], count, len(people.group_names)),
        drawn=_table(code[drawn & sure], groups[drawn & sure], count, len(people.group_names)),
        sampled=np.bincount(code[drawn], minlength=count),
        rest=np.bincount(code[~certain], minlength=count),
    )


def audited_bounds(notion: Notion, people: People, view: str, level: float = 0.95) -> Bounds:
    """The bounds of an audit's gap. Where nothing tells how people were drawn, answers speak for themselves alone."""
    if people.weights is not None:  # exact limits are known of people who count alike
        return Bounds(None, None)
    others = [name for name in people.decisions if name != view]
    for names in ([view], [view, *others]):
        found = knowledge_of(people, names)
        if found is not None:
            return gap_bounds(notion, found, level)
    alone = People(
        people.labels, people.decisions, people.answers, np.full(len(people.labels), np.nan), people.group_names
    )
    found = knowledge_of(alone, [view])
    assert found is not None  # nobody is drawn
    return gap_bounds(notion, found, level)


def _table(code: IntArray, groups: IntArray, count: int, n_groups: int) -> IntArray:
    return np.bincount(code * n_groups + groups, minlength=count * n_groups).reshape(count, n_groups)


def _member_limits(cells: CellKnowledge, level: float) -> tuple[IntArray, IntArray]:
    """(c, g) how many people of every group a cell has at least and at most."""
    count, groups = cells.known.shape
    free = 1 if groups == 2 else groups  # of two groups one follows from the other
    each = (1 - level) / max(1, free * int((cells.sampled > 0).sum()))
    low, high = np.zeros((count, groups), dtype=np.int64), np.zeros((count, groups), dtype=np.int64)
    for c in range(count):
        silent = cells.sampled[c] - cells.drawn[c].sum()
        for g in range(groups):
            least, most = int(cells.drawn[c, g]), int(cells.drawn[c, g] + silent)
            low[c, g], high[c, g] = _draw_limits(least, most, int(cells.sampled[c]), int(cells.rest[c]), each)
    total = cells.rest[:, None]
    others_low, others_high = low.sum(1, keepdims=True) - low, high.sum(1, keepdims=True) - high
    low, high = np.maximum(low, total - others_high), np.minimum(high, total - others_low)
    return cells.known + low, cells.known + high


def _draw_limits(least: int, most: int, sampled: int, people: int, error: float) -> tuple[int, int]:
    """How many of so many people are of a group, if a random sample has between `least` and `most` of it."""
    if sampled == 0:
        return 0, people
    first, last = least, people - (sampled - most)

    def too_few(members: int) -> bool:
        return bool(stats.hypergeom.sf(least - 1, people, members, sampled) <= error / 2)

    def too_many(members: int) -> bool:
        return bool(stats.hypergeom.cdf(most, people, members, sampled) <= error / 2)

    return _first(lambda members: not too_few(members), first, last), _first(too_many, first, last + 1) - 1


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from low to high for which a condition holds that stays true; high where none does."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _spread_limits(
    inside: npt.NDArray[np.bool_], happened: npt.NDArray[np.bool_], low: IntArray, high: IntArray, *, ratio: bool
) -> tuple[float, float] | None:
    """Smallest and largest difference between two groups' rates among people of these cells; or 1 - their `ratio`."""
    selected, others = inside & happened, inside & ~happened
    yes_low, yes_high = low[selected].sum(0), high[selected].sum(0)  # (g,)
    no_low, no_high = low[others].sum(0), high[others].sum(0)
    if (yes_high + no_high == 0).any():
        return None
    most = np.where(yes_high > 0, yes_high / np.maximum(yes_high + no_low, 1), 0.0)
    least = np.where(no_high > 0, yes_low / np.maximum(yes_low + no_high, 1), 1.0)
    pairs = list(permutations(range(len(most)), 2))
    if ratio:  # of the lower rate to the higher: the higher is most where the other is least
        if not least.max() > 0:
            return None  # nobody may be selected at all
        nearest = max(0.0, *(1 - most[a] / least[b] if least[b] > 0 else 0.0 for a, b in pairs))
        return nearest, max(1 - least[a] / most[b] if most[b] > 0 else 0.0 for a, b in pairs)
    return max(0.0, *(least[a] - most[b] for a, b in pairs)), max(0.0, *(most[a] - least[b] for a, b in pairs))
