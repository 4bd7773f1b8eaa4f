"""Typical rows: the densest spot nobody was asked about yet, with a radius that the rows themselves set.

Probability cover needs a radius. Here it is the distance within which a row finds a given share of the others, so it
needs no tuning to the scale of the embeddings; once everything is covered at that share, the next rows are picked at
half of it, and so on: first the large regions, then what lies between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apod.coverage.bounds import Int, Mask, Stored
from apod.coverage.probcover import probability_cover

SHARE = 0.06  # of the rows that a ball holds, on average: about fifteen balls make a cover
MOST_ROWS = 2048  # looked at: balls are counted over all pairs, and a question must come in milliseconds
RADIUS_ROWS = 512  # whose pairwise distances set the radius


def typical_rows(matrix: Stored, candidates: Mask, covered: Sequence[int], k: int) -> list[int]:
    """Up to k candidates, the one with the most uncovered others around it first.

    `covered` rows are never picked, and what lies around them counts as covered. Of more than 2,048 rows, evenly
    spaced ones stand for all.
    """
    if k == 0:
        return []
    mask = np.array(candidates, dtype=bool)
    mask[list(covered)] = True
    rows = _spaced(np.flatnonzero(mask), MOST_ROWS)
    rows = np.union1d(rows, np.asarray(covered, dtype=np.int64))
    vectors = np.asarray(matrix[rows], dtype=np.float32)
    free = np.asarray(candidates)[rows]
    done = np.flatnonzero(np.isin(rows, covered)).tolist()
    picked: list[int] = []
    share = SHARE
    while len(picked) < k and len(picked) < int(free.sum()) and share * len(rows) >= 0.5:
        radius = radius_of_share(vectors, share)
        found = probability_cover(vectors, radius, [*done, *picked], k=k - len(picked), threads=1)
        picked += [pick.row for pick in found]
        share /= 2
    rest = [row for row in np.flatnonzero(free).tolist() if row not in set(picked)]
    picked += rest[: k - len(picked)]  # nothing but copies of covered rows is left
    return [int(rows[place]) for place in picked]


def radius_of_share(vectors: Stored, share: float) -> float:
    """The distance that this share of all pairs, a row with itself among them, does not exceed."""
    sample = np.asarray(vectors[_spaced(np.arange(len(vectors)), RADIUS_ROWS)], dtype=np.float64)
    squares = (sample**2).sum(axis=1)
    table = squares[:, None] + squares[None, :] - 2 * sample @ sample.T
    return float(np.sqrt(np.quantile(table, share).clip(min=0)))


def _spaced(rows: Int, most: int) -> Int:
    """All of them, or `most` of them at even distances in their order."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).round().astype(np.int64)]
