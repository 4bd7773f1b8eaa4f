"""What corrections would do to the gap, by every draw of f_a: one sparse product for hundreds of candidates.

A correction changes rates only through the people whose decision it changes. With D_i the model's decision, a_ig the
(probable) membership and f_i = 1 - 2 D_i for people whose decision changes at a strength of at most r,

    rate_cg(r) = rate_cg(0) + sum over cell c of f_i a_ig 1[i changed] / sum over cell c of a_ig

so each person enters one band of strengths per direction, and bands are added up along the path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from apod.fairness.notions import Notion

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Judged:
    """Those a correction is judged on: labels and the model's decisions; groups come as draws."""

    labels: IntArray  # (n,) 0 or 1
    decisions: IntArray  # (n,) 0 or 1

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Paths:
    """Rates along A directions at R strengths, by D draws; cells k, groups G."""

    base: Floats  # (D, k, G) rates of the model
    up: Floats  # (A, R, D, k, G) share newly decided 1
    down: Floats  # (A, R, D, k, G) share newly decided 0
    expected: Floats  # (D, k, G) how many people of a cell belong to a group
    people: Floats  # (D, k, G) how many people a rate averages over: more than that, where membership is only probable

    @property
    def rates(self) -> Floats:
        """(A, R, D, k, G) rates after the correction."""
        return self.base + self.up - self.down


@dataclass(frozen=True, eq=False)
class Costs:
    """What corrections cost on labelled people, and how sure that is; (A, R) each."""

    accuracy: Floats  # lost, as a fraction
    accuracy_error: Floats  # standard error of it
    balanced: Floats
    balanced_error: Floats
    changed: Floats  # share of decisions that change


def bands(changes_at: Floats, strengths: Floats) -> IntArray:
    """(A, n) the first strength (ascending) at which a person's decision has changed; len(strengths) where none."""
    return np.searchsorted(strengths, changes_at, side="left")


def trace_paths(
    notion: Notion,
    people: Judged,
    band: IntArray,
    count: int,
    versions: tuple[int, int],
    blocks: Iterable[tuple[slice, npt.NDArray[np.floating]]],
) -> Paths:
    """Rates along all directions, block by block of people.

    band (A, n) by `bands` for `count` strengths · versions: draws D and groups G · blocks: rows and their members
    (rows, D, G).
    """
    cells = np.asarray(notion.cells(people.labels))  # (n, k)
    k, width = cells.shape[1], versions[0] * versions[1]
    total, squares, base = (np.zeros((k, width)) for _ in range(3))
    moved = np.zeros((2 * len(band) * count * k, width))
    for rows, members in blocks:
        flat = members.reshape(len(members), width)
        inside = cells[rows].T.astype(flat.dtype)  # (k, rows)
        total += inside @ flat
        squares += inside @ flat**2
        base += (inside * people.decisions[rows].astype(flat.dtype)) @ flat
        moved += _placement(cells[rows], people.decisions[rows], band[:, rows], count) @ flat
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0: a group with nobody in a cell has no rate
        steps = moved.reshape(2, len(band), count, k, width) / total
        rates, people_each = base / total, total**2 / squares
    along = np.cumsum(steps, axis=2).reshape(2, len(band), count, k, *versions).transpose(0, 1, 2, 4, 3, 5)
    split = (each.reshape(k, *versions).swapaxes(0, 1) for each in (rates, total, people_each))
    return Paths(next(split), along[0], along[1], *split)


def _placement(cells: npt.NDArray[np.bool_], decisions: IntArray, band: IntArray, count: int) -> sparse.csr_matrix:
    """(2 x A x R x k, rows) who moves where: up or down, direction, band, cell."""
    direction, row = np.nonzero(band < count)
    places, rows = [], []
    for cell in range(cells.shape[1]):
        inside = cells[row, cell]
        d, r = direction[inside], row[inside]
        places.append(((decisions[r] * len(band) + d) * count + band[d, r]) * cells.shape[1] + cell)
        rows.append(r)
    place, column = np.concatenate(places), np.concatenate(rows)
    size = (2 * len(band) * count * cells.shape[1], len(cells))
    return sparse.csr_matrix((np.ones(len(place), np.float32), (place, column)), shape=size)


def costs(people: Judged, band: IntArray, count: int) -> Costs:
    """Accuracy and balanced accuracy lost along all directions, with standard errors; labels alone decide it."""
    right = people.labels == people.decisions
    sums = np.zeros((2, 2, len(band), count))  # label, was right or wrong
    for label in (0, 1):
        for was in (0, 1):
            inside = np.flatnonzero((people.labels == label) & (right == bool(was)))
            place = band[:, inside] + (count + 1) * np.arange(len(band))[:, None]
            counted = np.bincount(place.ravel(), minlength=len(band) * (count + 1))
            sums[label, was] = np.cumsum(counted.reshape(len(band), count + 1)[:, :count], axis=1)
    lost, touched = sums[:, 1] - sums[:, 0], sums[:, 1] + sums[:, 0]  # (2, A, R)
    n, of_label = len(people), np.bincount(people.labels, minlength=2)[:, None, None]
    mean = lost.sum(axis=0) / n
    error = np.sqrt((touched.sum(axis=0) / n - mean**2).clip(0) / n)
    within = lost / of_label
    own = np.sqrt(((touched / of_label - within**2).clip(0) / of_label).sum(axis=0)) / 2
    return Costs(mean, error, within.mean(axis=0), own, touched.sum(axis=0) / n)
