"""A batch gives the picks of one answer after another, from few passes."""

import numpy as np
import pytest
from brute_force import STORAGE, max_min_picks, picked

from apod.maxmin import Coverage
from apod.maxmin.nearest import Sizes

SMALL = Sizes(block=1, converted=1, watched=6, sampled=6)  # a small pool takes every road of a large one


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("kind", ["gaussian", "clusters", "one_hot", "duplicates", "outlier"])
def test_batches_from_a_few_watched_rows_equal_brute_force(kind, storage):
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((300, 4))
    if kind == "clusters":
        matrix = matrix * 0.05 + 10 * rng.standard_normal((20, 4))[rng.integers(20, size=300)]
    elif kind == "one_hot":
        matrix = np.eye(4)[rng.integers(4, size=300)]
    elif kind == "duplicates":
        matrix = matrix[rng.integers(60, size=300)]
    elif kind == "outlier":
        matrix[123] = 3e4
    matrix, mask = matrix.astype(storage), rng.random(300) < 0.7
    for answered in ([], [3], [3, 123, 50, 7]):
        coverage = Coverage(matrix, answered, threads=2, sizes=SMALL)
        assert picked(coverage, mask, 50) == max_min_picks(matrix, answered, mask, 50)


def test_batches_from_clustered_rows_take_few_passes():
    rng = np.random.default_rng(7)
    centres = 5 * rng.standard_normal((40, 16))
    matrix = (centres[rng.integers(40, size=60_000)] + rng.standard_normal((60_000, 16))).astype(np.float32)
    coverage = Coverage(matrix, [0, 1, 2], sizes=Sizes(watched=1200, sampled=600))  # one row in fifty is watched
    before = coverage.passes
    picks = [pick.row for pick in coverage.farthest(k=100)]
    assert coverage.passes - before <= 10
    wide, expected = matrix.astype(np.float64), []
    gaps = np.min([np.sqrt(((wide - wide[row]) ** 2).sum(axis=1)) for row in (0, 1, 2)], axis=0)
    for _ in range(100):
        expected.append(int(gaps.argmax()))
        gaps = np.minimum(gaps, np.sqrt(((wide - wide[expected[-1]]) ** 2).sum(axis=1)))
    assert picks == expected
