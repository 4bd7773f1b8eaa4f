"""Several attributes at once: everybody's intersections by draws, from each attribute's own f_a.

Every attribute has its f_a and its draws. Draw d of the joint is draw d of each attribute, times what goes with what

    P(a, b | x)  is proportional to  p_a(x) p_b(x) exp(t_ab),        t_ab ~ N(0, WIDTH^2)

t is learnt from the people whose answers tell both attributes (Newton's method, then normal draws), one table for each
pair. Where hardly anybody of a cell was found, t stays near 0: a rare intersection is pooled toward its margins rather
than dropped. Cells are numbered with the last attribute fastest; the last cell is the one of all references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from apod.method.posterior import Block, Matrix, Posterior, answers_key
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Pair = tuple[int, int]
Told = tuple[IntArray, Floats]
"""Rows that were answered about, ascending, and the likelihoods (n, G) of their answers."""

WIDTH = 0.7
"""Of t before any answer: cells up to about twice as frequent as their margins say are nothing unusual."""
STEPS, TOLERANCE = 30, 1e-10


@dataclass(frozen=True, eq=False)
class JointPosterior(Posterior):
    """Draws of everybody's intersection; `weights` are those of the first attribute."""

    parts: tuple[Posterior, ...]
    associations: Mapping[Pair, Floats]  # (D, G_i, G_j) t of every pair of attributes

    @property
    def versions(self) -> tuple[int, int]:
        """Draws and intersections."""
        return self.weights.shape[0], int(np.prod([part.versions[1] for part in self.parts]))

    def members(self, columns: Matrix) -> npt.NDArray[np.float32]:
        """(n, D, cells) by people's `Reader.columns`."""
        return joined([part.members(columns) for part in self.parts], self.associations)

    def crossed_blocks(self, columns: Matrix, told: Sequence[Told]) -> Iterator[Block]:
        """Everybody's intersections block by block; certain answers of any attribute overwrite its guesses."""
        each = [part.blocks(columns, *own) for part, own in zip(self.parts, told, strict=True)]
        for together in zip(*each, strict=True):
            yield together[0][0], joined([members for _, members in together], self.associations)

    def mean_associations(self) -> dict[Pair, Floats]:
        """(G_i, G_j) of every pair: what the correction reads."""
        return {pair: drawn.mean(axis=0) for pair, drawn in self.associations.items()}


def joined(members: Sequence[npt.NDArray[np.floating]], associations: Mapping[Pair, Floats]) -> npt.NDArray[np.float32]:
    """(n, D, cells) intersections by the members (n, D, G) of each attribute and t (D, G_i, G_j) of each pair."""
    count = len(members)
    found = np.ones((1,) * (2 + count), dtype=np.float32)
    for place, own in enumerate(members):
        found = found * _spread(own, (place,), count)
    for pair, t in associations.items():
        found = found * _spread(np.exp(t)[None].astype(np.float32), pair, count)
    flat = found.reshape(*found.shape[:2], -1)
    return np.asarray(flat / flat.sum(axis=2, keepdims=True), dtype=np.float32)


def crossed_members(members: Sequence[Floats], associations: Mapping[Pair, Floats]) -> Floats:
    """(n, cells) the same by one version: members (n, G) of each attribute, t (G_i, G_j) of each pair."""
    count = len(members)
    found = np.ones((1,) * (1 + count))
    for place, own in enumerate(members):
        found = found * _spread(own[:, None], (place,), count)[:, 0]
    for pair, t in associations.items():
        found = found * _spread(np.exp(t)[None, None], pair, count)[0]
    flat = found.reshape(len(found), -1)
    return np.asarray(flat / flat.sum(axis=1, keepdims=True))


def _spread(own: npt.NDArray[np.floating], places: Sequence[int], count: int) -> npt.NDArray[np.floating]:
    """(n, D, ...) an array over the groups of some attributes, with an axis of 1 for each of the others."""
    shape = [1] * count
    for place, size in zip(places, own.shape[2:], strict=True):
        shape[place] = size
    return own.reshape(*own.shape[:2], *shape)


def fit_joint(parts: Sequence[Posterior], columns: Matrix, told: Sequence[Told], seed: int) -> JointPosterior:
    """The joint posterior of attributes whose own posteriors are these, after these answers."""
    associations = {}
    for first, second in combinations(range(len(parts)), 2):
        rows, one, other = _both(told[first], told[second])
        guesses = [part.members(columns[rows]).mean(axis=1, dtype=np.float64) for part in (parts[first], parts[second])]
        mode, precision = associated(guesses[0], guesses[1], one, other)
        rng = generator(seed, "association", first, second, answers_key(rows, np.column_stack([one, other])))
        noise = rng.standard_normal((len(parts[0].weights), mode.size))
        drawn = mode.ravel() + np.linalg.solve(np.linalg.cholesky(precision).T, noise.T).T
        associations[first, second] = drawn.reshape(-1, *mode.shape)
    return JointPosterior(parts[0].reader, parts[0].weights, tuple(parts), associations)


def _both(first: Told, second: Told) -> tuple[IntArray, Floats, Floats]:
    """The people whose answers are certain in both attributes, and these answers, one-hot."""
    (rows, one), (others, other) = (_certain(*own) for own in (first, second))
    both, here, there = np.intersect1d(rows, others, assume_unique=True, return_indices=True)
    return both, one[here], other[there]


def _certain(rows: IntArray, likelihood: Floats) -> Told:
    certain = (likelihood > 0).sum(axis=1) == 1
    return rows[certain], (likelihood[certain] > 0).astype(np.float64)


def associated(p: Floats, q: Floats, one: Floats, other: Floats, width: float = WIDTH) -> tuple[Floats, Floats]:
    """The mode of t (G, H) and the precision (G H, G H) around it.

    p (m, G), q (m, H) guesses about the people whose groups are known · one, other their groups, one-hot.
    """
    size = p.shape[1] * q.shape[1]
    guessed = (p[:, :, None] * q[:, None, :]).reshape(len(p), size)
    found = (one[:, :, None] * other[:, None, :]).reshape(len(p), size).sum(axis=0)
    t, prior = np.zeros(size), np.eye(size) / width**2
    for _ in range(STEPS):
        likely = guessed * np.exp(t)
        likely /= likely.sum(axis=1, keepdims=True).clip(1e-300)
        slope = found - likely.sum(axis=0) - t / width**2
        precision = np.diag(likely.sum(axis=0)) - likely.T @ likely + prior
        step = np.linalg.solve(precision, slope)
        t = t + step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < TOLERANCE:
            break
    return t.reshape(p.shape[1], q.shape[1]), precision


def cell_names(names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What the intersections of these attributes' groups are called, in the order of their numbers."""
    found: tuple[str, ...] = ("",)
    for own in names:
        found = tuple(f"{before}, {name}" if before else name for before in found for name in own)
    return found


def cell_codes(codes: Sequence[IntArray], sizes: Sequence[int]) -> IntArray:
    """(n,) everybody's intersection by their groups (n,) in every attribute; -1 where one of them is not known."""
    found, known = np.zeros(len(codes[0]), dtype=np.int64), np.ones(len(codes[0]), dtype=np.bool_)
    for own, size in zip(codes, sizes, strict=True):
        found, known = found * size + own, known & (own >= 0)
    return np.where(known, found, -1)
