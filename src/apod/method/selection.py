"""AIS: whom to ask about next. Every rule is one function in the `SELECTORS` table.

The paper's rule (Algorithm 3) in two steps:

    a~, c~ = argmin over (a, c) of  p*_a(c, c) = p_a(c, c) - mean over groups of p_.(c, c)      group selection
    x*     = argmax over the subgroup (a~, c~) of  min over S of ||h_i - h_j||                  individual selection
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from apod.data.blocks import moments
from apod.data.dataset import IntArray
from apod.errors import InputError
from apod.maxmin import Coverage, Rows, typical_rows

FloatArray = npt.NDArray[np.floating]
BoolArray = npt.NDArray[np.bool_]
Matrix = npt.NDArray[np.floating]


Scores = tuple[FloatArray, FloatArray]
"""Of everybody: P(y = 1) by the asking head, (n,), and P(group) by f_a, (n, g)."""


@dataclass(frozen=True, eq=False)
class View:
    """What a selector may see of one trajectory: no recorded group, only answers and what follows from them."""

    labels: IntArray  # (n,) y
    askable: BoolArray  # (n,) not asked yet, and not with somebody else right now
    scores: Callable[[], Scores]  # computed when a rule first looks at them: many do without
    coverage: Coverage  # distance of every row to its nearest answered row
    likeness: Rows | None = None  # (n, d) their distances say who is like whom; for rules that look at that

    @cached_property
    def positive(self) -> FloatArray:
        """(n,) P(y = 1) by the asking head, in evaluation mode."""
        return self.scores()[0]

    @cached_property
    def membership(self) -> FloatArray:
        """(n, g) P(group) by f_a."""
        return self.scores()[1]

    def accuracies(self) -> npt.NDArray[np.float64]:
        """(g, 2) centred accuracies of the subgroups."""
        return centred_accuracies(self.labels, self.predicted, self.proxy, self.membership.shape[1], self.askable)

    def inside(self, group: int, label: int) -> BoolArray:
        """(n,) who of a subgroup may be asked about."""
        return np.asarray(self.askable & (self.proxy == group) & (self.labels == label))

    @property
    def predicted(self) -> IntArray:
        """(n,) the asking head's decisions."""
        return (self.positive > 0.5).astype(np.int64)

    @property
    def proxy(self) -> IntArray:
        """(n,) the most probable group."""
        return np.asarray(self.membership.argmax(axis=1), dtype=np.int64)


Reason = Mapping[str, str | int | float | None]
"""Why somebody was chosen: the rule, and what it looked at."""

FIRST_ANSWERS = 4
"""How many random answers come first, two per label; more while a group is still unseen."""


@dataclass(frozen=True)
class Choice:
    """One row to ask about, why, and with which probability it was drawn (1 = the rule left no choice)."""

    row: int
    reason: Reason
    probability: float = 1.0


Selector = Callable[[View, int, np.random.Generator], list[Choice]]
"""Choose up to k askable rows, all different, best first; ties go to the lowest row; fewer when the pool runs out.

Invariants: only askable rows; the same view and generator give the same choice; nothing outside the view is read.
"""


def centred_accuracies(
    labels: IntArray, predicted: IntArray, proxy: IntArray, n_groups: int, askable: BoolArray
) -> npt.NDArray[np.float64]:
    """p*_a(c, c) on the unannotated rows, (g, 2): accuracy of group a and label c minus its mean over groups.

    A subgroup without members is NaN and does not enter the mean.
    """
    cell = proxy[askable] * 2 + labels[askable]
    members = np.bincount(cell, minlength=2 * n_groups).reshape(-1, 2)
    right = np.bincount(cell[labels[askable] == predicted[askable]], minlength=2 * n_groups).reshape(-1, 2)
    with np.errstate(invalid="ignore"):  # 0/0 is the documented NaN
        accuracy = right / members
    filled = members > 0
    mean = np.where(filled, accuracy, 0).sum(axis=0) / np.maximum(filled.sum(axis=0), 1)
    return np.asarray(accuracy - mean)


def worst_first(accuracies: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Subgroups (group, label) from the lowest centred accuracy up; ties by group, then label; empty ones left out."""
    order = np.argsort(accuracies.round(12), axis=None, kind="stable")  # a tie in exact numbers stays a tie
    cells = [(int(i) // 2, int(i) % 2) for i in order]
    return [cell for cell in cells if not np.isnan(accuracies[cell])]


Pick = Callable[[BoolArray, int, list[int]], list[Choice]]
"""Choose up to so many of the candidates, knowing who has just been chosen besides."""


def _by_subgroup(view: View, k: int, pick: Pick, rule: str) -> list[Choice]:
    """Fill k places from the worst subgroup; where it runs out, from the next worst."""
    accuracies = view.accuracies()
    chosen: list[Choice] = []
    for group, label in worst_first(accuracies):
        if len(chosen) == k:
            break
        inside = view.inside(group, label)
        where: Reason = {
            "rule": rule,
            "group": group,
            "label": label,
            "centred_accuracy": float(accuracies[group, label]),
        }
        picks = pick(inside, k - len(chosen), [choice.row for choice in chosen])
        chosen += [Choice(c.row, {**where, **c.reason}, c.probability) for c in picks]
    return chosen


def _farthest(view: View, candidates: BoolArray, k: int, chosen: list[int]) -> list[Choice]:
    """Max-min over the candidates, as if those chosen a moment ago had been answered."""
    view.coverage.add(chosen)
    try:
        return [Choice(p.row, {"distance": p.distance}) for p in view.coverage.farthest(candidates, k)]
    finally:
        view.coverage.remove(chosen)


def _random(candidates: BoolArray, k: int, rng: np.random.Generator) -> list[Choice]:
    rows = np.flatnonzero(candidates)
    drawn = rng.choice(rows, size=min(k, len(rows)), replace=False)
    return [Choice(int(row), {}, len(drawn) / len(rows)) for row in drawn]


def worst_subgroup_farthest(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """APOD: the subgroup with the worst accuracy, then the person in it farthest from all annotated ones."""
    return _by_subgroup(
        view, k, lambda inside, m, new: _farthest(view, inside, m, new), "worst subgroup, farthest person"
    )


def worst_subgroup_random(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """Group selection alone: a random person of the worst subgroup."""
    return _by_subgroup(view, k, lambda inside, m, new: _random(inside, m, rng), "worst subgroup, random person")


def farthest_anywhere(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """Individual selection alone = core-set: the person farthest from all annotated ones, in any subgroup."""
    return [Choice(c.row, {"rule": "farthest person", **c.reason}) for c in _farthest(view, view.askable, k, [])]


def random_anywhere(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """A random person."""
    return [Choice(c.row, {"rule": "random person"}, c.probability) for c in _random(view.askable, k, rng)]


def _labels_in_turn(view: View, k: int) -> list[int]:
    """The labels to ask about, one by one: always the one with fewer answers."""
    left = [int((view.askable & (view.labels == label)).sum()) for label in (0, 1)]
    answered = np.bincount(view.labels[list(view.coverage.answered)], minlength=2)
    order = []
    for _ in range(min(k, sum(left))):
        label = min((c for c in (0, 1) if left[c]), key=lambda c: answered[c])
        order.append(label)
        answered[label] += 1
        left[label] -= 1
    return order


def typical_by_label(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """Both labels in turn: the person in the densest region of the label that no answer covers yet.

    With thirty answers f_a learns from typical people; the farthest ones are outliers and teach it little.
    """
    if view.likeness is None:
        raise InputError("This selector looks at who is like whom: pass their likeness in the view.")
    order = _labels_in_turn(view, k)
    picks: list[list[int]] = []
    for label in (0, 1):
        same = view.labels == label
        asked = np.flatnonzero(same & ~view.askable).tolist()  # answered, or with somebody right now
        picks.append(typical_rows(view.likeness, view.askable & same, asked, order.count(label)))
    return [Choice(picks[label].pop(0), {"rule": "typical person of a label", "label": label}) for label in order]


def random_by_label(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """Random people, as many of each label as makes the answered labels most even: random answers, stratified."""
    piles = [view.askable & (view.labels == label) for label in (0, 1)]
    order = _labels_in_turn(view, k)
    drawn = [_random(pile, order.count(label), rng) for label, pile in enumerate(piles)]
    return [
        Choice(choice.row, {"rule": "random person of a label", "label": label}, choice.probability)
        for label in order
        for choice in [drawn[label].pop(0)]
    ]


def most_uncertain(view: View, k: int, rng: np.random.Generator) -> list[Choice]:
    """Active learning: the person whose prediction has the largest Shannon entropy."""
    p = view.positive.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 log 0 = 0
        entropy = np.nan_to_num(-p * np.log2(p)) + np.nan_to_num(-(1 - p) * np.log2(1 - p))
    rows = np.flatnonzero(view.askable)
    best = rows[np.argsort(-entropy[rows], kind="stable")[:k]]
    return [Choice(int(row), {"rule": "most uncertain person", "entropy": float(entropy[row])}) for row in best]


SELECTORS: dict[str, Selector] = {
    "apod": worst_subgroup_farthest,
    "random": random_anywhere,
    "stratified": random_by_label,
    "typical": typical_by_label,
    "uncertainty": most_uncertain,
    "coreset": farthest_anywhere,
    "group": worst_subgroup_random,
}
"""Whom to ask about next, by name."""


def first_rows(labels: IntArray, rng: np.random.Generator, closed: Collection[int] = ()) -> Iterator[Choice]:
    """All rows but the closed ones in the order the first answers are drawn: at random, alternating between the labels.

    Nobody's group is known yet, so nothing but the label can be balanced.
    """
    piles = [rng.permutation(np.flatnonzero(labels == label)) for label in (1, 0)]
    if closed:
        piles = [pile[~np.isin(pile, list(closed))] for pile in piles]
    for place in range(max(len(pile) for pile in piles)):
        for label, pile in zip((1, 0), piles, strict=True):
            if place < len(pile):
                reason: Reason = {"rule": "first answers, random person of a label", "label": label}
                yield Choice(int(pile[place]), reason, 1 / (len(pile) - place))


def first_answers_done(asked: int, groups_seen: int, n_groups: int, budget: int) -> bool:
    """Whether random answers may end: every group was seen, or a third of the budget went into looking for it."""
    least = min(FIRST_ANSWERS, budget)
    return asked >= max(least, budget // 3) or (asked >= least and groups_seen == n_groups)


def named_reason(reason: Reason, group_names: Sequence[str], label_names: Sequence[str]) -> Reason:
    """A reason with the names of group and label in place of their codes."""
    found = dict(reason)
    for key, names in (("group", group_names), ("label", label_names)):
        if found.get(key) is not None:
            found[key] = names[int(found[key] or 0)]
    return found


class Likeness:
    """Rows of several matrices side by side, each in units of its own spread; made for those rows that are taken."""

    def __init__(self, parts: Sequence[Matrix]) -> None:
        self._parts = [(part, _spread(part) if len(parts) > 1 else 1.0) for part in parts]

    def __getitem__(self, rows: IntArray) -> Matrix:
        return np.hstack([part[rows] / spread for part, spread in self._parts])


def _spread(rows: Matrix) -> float:
    """Mean distance (root mean square) from the middle."""
    return float(np.sqrt((moments(rows)[1] ** 2).sum())) or 1.0
