"""Everybody an audit speaks about: labels, decisions, the answers there are and how they were drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.audit.rates import Cells
from apod.audit.shares import CellAnswers, FloatArray
from apod.data.dataset import UNKNOWN, IntArray
from apod.errors import InputError
from apod.fairness.counts import binary


@dataclass(frozen=True, eq=False)
class People:
    """Everybody, checked. An answer may be a probability of each group, where annotators disagree."""

    labels: IntArray  # (n,)
    decisions: Mapping[str, IntArray]  # name -> (n,)
    answers: FloatArray  # (n, g) rows sum to 1, or to 0 where there is no answer
    probability: FloatArray  # (n,) of having been drawn; NaN where not drawn at random
    group_names: tuple[str, ...]

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """(n,) whether there is an answer."""
        return np.asarray(self.answers.sum(axis=1) > 0)

    @property
    def drawn(self) -> IntArray:
        """Rows drawn at random, with an answer."""
        return np.flatnonzero(self.answered & ~np.isnan(self.probability))

    @property
    def told(self) -> IntArray:
        """Rows whose group is known though they were not drawn at random: they speak for themselves alone."""
        return np.flatnonzero(self.answered & np.isnan(self.probability))

    @property
    def silent(self) -> int:
        """How many were drawn and gave no answer."""
        return int((~self.answered & ~np.isnan(self.probability)).sum())


def check_people(
    labels: npt.ArrayLike,
    predictions: Mapping[str, npt.ArrayLike],
    groups: npt.ArrayLike,
    group_names: Sequence[str],
    probability: npt.ArrayLike | None = None,
) -> People:
    """Everything of one length, decisions 0 or 1, every draw with a probability."""
    y = binary("labels", labels)
    decisions = {name: binary(name, values) for name, values in predictions.items()}
    if not decisions:
        raise InputError("There are no predictions to audit: pass one column at least.")
    answers = _one_hot(np.asarray(groups), len(group_names))
    answered = answers.sum(axis=1) > 0
    for name, values in (("groups", answers), *decisions.items()):
        if len(values) != len(y):
            raise InputError(f"{name} has {len(values)} rows and labels has {len(y)}: pass one per row.")
    if probability is None:  # everybody had the same chance
        chance = np.where(answered, answered.mean(), np.nan)
    else:
        chance = np.asarray(probability, dtype=np.float64)
        if chance.shape != y.shape:
            raise InputError(f"probability has {chance.size} rows and labels has {len(y)}: pass one per row.")
        if ((chance <= 0) | (chance > 1)).any():
            raise InputError("A probability of having been drawn is above 0 and at most 1: leave others empty.")
    return People(y, decisions, answers, chance, tuple(group_names))


def _one_hot(groups: npt.NDArray[Any], n_groups: int) -> FloatArray:
    if n_groups < 2:
        raise InputError("An audit compares groups: name two at least.")
    if groups.ndim == 2:
        sums = groups.sum(axis=1)
        if groups.shape[1] != n_groups or not (np.isclose(sums, 0) | np.isclose(sums, 1)).all():
            raise InputError(f"groups needs {n_groups} probabilities per row that sum to 1, or to 0 without an answer.")
        return np.asarray(groups, dtype=np.float64)
    codes = groups.astype(np.int64)
    if ((codes < UNKNOWN) | (codes >= n_groups)).any():
        raise InputError(f"Groups are codes from 0 to {n_groups - 1}, or {UNKNOWN} where nobody answered.")
    return np.asarray(codes[:, None] == np.arange(n_groups), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CellPlan:
    """Everybody's cell by label and one or more decisions, and the cells as each of the decisions sees them."""

    code: IntArray  # (n,)
    views: tuple[Cells, ...]

    @property
    def sizes(self) -> FloatArray:
        """(c,) people in each cell whose group is not known for certain."""
        return self.views[0].sizes

    @property
    def labels(self) -> IntArray:
        """(c,) the label of each cell."""
        return self.views[0].labels


def cells_of(people: People, names: Sequence[str]) -> CellPlan:
    """The cells of label x the named decisions."""
    code, count = people.labels, 2 ** (len(names) + 1)
    for name in names:
        code = code * 2 + people.decisions[name]
    told = people.told
    certain = np.zeros((count, len(people.group_names)))
    np.add.at(certain, code[told], people.answers[told])
    sizes = np.maximum(np.bincount(code, minlength=count) - np.bincount(code[told], minlength=count), 0).astype(float)
    every = np.arange(count)
    decisions = [every >> (len(names) - 1 - place) & 1 for place in range(len(names))]
    return CellPlan(code, tuple(Cells(every >> len(names), decision, sizes, certain) for decision in decisions))


def sample_of(people: People, plan: CellPlan, proxies: FloatArray) -> tuple[CellAnswers, FloatArray]:
    """The answers drawn at random, and per cell the mean proxy of everybody whose group is not known for certain."""
    rows = people.drawn
    sample = CellAnswers(plan.code[rows], people.answers[rows], proxies[rows], people.probability[rows])
    open_ = np.ones(len(plan.code), dtype=bool)
    open_[people.told] = False
    return sample, cell_means(plan.code[open_], proxies[open_], len(plan.sizes))


def cell_means(code: IntArray, proxies: FloatArray, count: int) -> FloatArray:
    """(c, g) mean proxy per cell; even shares where a cell is empty."""
    sums = np.stack([np.bincount(code, weights=column, minlength=count) for column in proxies.T], axis=1)
    people = np.bincount(code, minlength=count)[:, None]
    return np.where(people > 0, sums / np.maximum(people, 1), 1 / proxies.shape[1])
