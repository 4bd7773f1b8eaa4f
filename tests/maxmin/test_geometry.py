"""Bounds are never below the formula, and whoever is farthest by the formula is found from bounds alone."""

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.maxmin.geometry import Geometry, exact_farthest, nearest_centre, round_up, squared_distances


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, (6, 7), elements=st.floats(-1e15, 1e15)),
    st.sampled_from([1.0, 1e-12, 1e-30, 1e-160]),
    st.booleans(),
)
def test_bounds_are_never_below_the_formula(rows, scale, single):
    rows = rows * scale
    rows = rows.astype(np.float32) if single else rows
    for shift in (np.zeros(7), rows.astype(np.float64).mean(axis=0)):
        geometry = Geometry(shift)
        block = rows.astype(np.float32)
        for m in (1, 6):
            upper, _ = geometry.closest(block, geometry.row_terms(block), geometry.centres(rows[:m]))
            exact, _ = nearest_centre(rows, rows[:m])
            assert (upper >= exact).all()


def test_the_formula_gives_one_row_the_same_bits_however_many_rows_are_computed_with_it():
    rng = np.random.default_rng(0)
    for width in (1, 3, 8, 17, 64, 129, 512):
        rows, centres = rng.standard_normal((70, width)), rng.standard_normal((9, width))
        alone = np.array([[squared_distances(row, centre) for centre in centres] for row in rows])
        assert np.array_equal(nearest_centre(rows, centres)[0], alone.min(axis=1))
        assert np.array_equal(nearest_centre(rows, centres)[1], alone.argmin(axis=1))


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 50), elements=st.integers(0, 6)),
    hnp.arrays(np.float64, 50, elements=st.floats(0, 3)),
    hnp.arrays(np.bool_, 50),
)
def test_the_exact_farthest_is_the_first_of_the_largest_however_loose_the_bounds(squares, looseness, mask):
    upper = squares + looseness[: len(squares)]
    bounds, mask = round_up(upper + looseness[: len(squares)]), mask[: len(squares)]
    found = exact_farthest(bounds, squares.__getitem__, upper.__getitem__, mask)
    if not mask.any():
        assert found is None
        return
    expected = int(np.where(mask, squares, -1).argmax())
    assert found is not None
    assert (found.index, found.squared) == (expected, squares[expected])
    assert (bounds >= squares).all()  # lowered where exact values were computed, never below them
