"""Brute force in float64, stated as slowly and plainly as it goes."""

from __future__ import annotations

import numpy as np


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
