"""Brute force in float64, stated as slowly and plainly as it goes."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import strategies as st

STORAGE = [np.float16, np.float32, np.float64]


def distance_table(matrix):
    """(n, n) distances by the formula sqrt(sum((x - c)**2)) in float64."""
    rows = np.asarray(matrix).astype(np.float64)
    return np.sqrt(((rows[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2))


def max_min_picks(matrix, answered, candidates, k):
    """[(row, distance)] of greedy max-min, ties to the lowest row."""
    table, answered = distance_table(matrix), list(answered)
    left = [row for row in range(len(matrix)) if candidates[row] and row not in answered]
    picks = []
    while left and len(picks) < k:
        gaps = [min((table[row, other] for other in answered), default=np.inf) for row in left]
        best = max(range(len(left)), key=lambda i: (gaps[i], -left[i]))
        picks.append((left[best], gaps[best]))
        answered.append(left.pop(best))
    return picks


def picked(coverage, mask, k):
    """The same of a coverage."""
    return [(pick.row, pick.distance) for pick in coverage.farthest(mask, k=k)]


@st.composite
def pools(draw):
    """A matrix in which duplicates, ties, near-ties and large offsets are common; answers; candidates; k."""
    n, width = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    storage = draw(st.sampled_from(STORAGE))
    kind = draw(st.sampled_from(["grid", "offset", "near", "far", "any"]))
    if kind == "any":
        matrix = draw(hnp.arrays(storage, (n, width), elements=st.floats(-1e4, 1e4, width=16)))
    else:
        grid = draw(hnp.arrays(np.int8, (n, width), elements=st.integers(0, 2))).astype(np.float64)
        sides = draw(hnp.arrays(np.int8, (n, 1), elements=st.sampled_from([-1, 1])))
        far = 1000.0 * sides  # two clusters so far apart that float32 blurs the distances within one
        kinds = {"grid": (1, 0), "offset": (1, 1000), "near": (2.0**-10, 1), "far": (2.0**-6, far)}
        scale, offset = kinds[kind]
        matrix = (grid * scale + offset).astype(storage)
    rows = st.lists(st.integers(0, n - 1), unique=True, max_size=6)
    mask = draw(hnp.arrays(np.bool_, n)) if draw(st.booleans()) else None
    return matrix, draw(rows), mask, draw(st.integers(1, n + 1))
