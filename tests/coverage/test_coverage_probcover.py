"""Probability cover picks what plain counting over all pairs picks."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from coverage_oracle import distance_table
from hypothesis import given, settings
from hypothesis import strategies as st

import apod.maxmin.probcover as module
from apod.errors import InputError
from apod.maxmin import probability_cover


def cover_picks(matrix, radius, answered, candidates, k):
    """[(row, covered)] by counting, ties to the lowest row."""
    near = distance_table(matrix) <= radius
    left = {row for row in range(len(matrix)) if candidates[row] and not near[row, answered].any()}
    picks = []
    for _ in range(k):
        counts = {
            row: sum(near[row, other] for other in left)
            for row in range(len(matrix))
            if candidates[row] and row not in answered
        }
        best = max(counts, key=lambda row: (counts[row], -row), default=None)
        if best is None or counts[best] == 0:
            break
        picks.append((best, counts[best]))
        left -= {other for other in left if near[best, other]}
    return picks


@st.composite
def pools(draw):
    n, width = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    storage = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    grid = draw(hnp.arrays(np.int8, (n, width), elements=st.integers(0, 4))).astype(storage)
    answered = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3))
    mask = draw(hnp.arrays(np.bool_, n)) if draw(st.booleans()) else None
    offset = draw(st.sampled_from([0, 500]))
    # radii that many pairs meet exactly: whole numbers and roots of whole numbers
    return grid + storage(offset), np.sqrt(draw(st.integers(0, 12))), answered, mask, draw(st.integers(1, n))


@settings(max_examples=200, deadline=None)
@given(pools())
def test_picks_equal_counting_all_pairs(pool):
    matrix, radius, answered, mask, k = pool
    everyone = np.ones(len(matrix), bool) if mask is None else mask
    picks = probability_cover(matrix, radius, answered, mask, k)
    assert [(pick.row, pick.covered) for pick in picks] == cover_picks(matrix, radius, answered, everyone, k)


def test_cells_far_apart_are_told_apart_and_tiles_change_nothing(monkeypatch):
    monkeypatch.setattr(module, "TILE_ROWS", 7)
    rng = np.random.default_rng(3)
    centres = 20 * rng.standard_normal((6, 3))
    matrix = (centres[rng.integers(6, size=150)] + rng.standard_normal((150, 3))).astype(np.float32)
    everyone = np.ones(150, bool)
    for radius in (0.5, 1.5, 3.0, 25.0):
        picks = probability_cover(matrix, radius, [4], k=40, threads=2)
        assert [(pick.row, pick.covered) for pick in picks] == cover_picks(matrix, radius, [4], everyone, 40)


def test_an_impossible_radius_is_refused():
    for radius in (-1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="radius is"):
            probability_cover(np.zeros((3, 2)), radius)
