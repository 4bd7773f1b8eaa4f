"""Whatever is not watched is covered by what the watchlist says of all others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.maxmin.watchlist import WatchedRows, Watchlist, WatchlistBuilder, WatchPlan, count_strata, stratum


def passed(seed: int, rows: int, pivots: int, size: int, blocks: int) -> tuple[Watchlist, dict[str, np.ndarray]]:
    """A pass over random bounds in several blocks, and everything that went by."""
    rng = np.random.default_rng(seed)
    bounds = rng.exponential(size=rows).astype(np.float32)
    reach = rng.exponential(size=rows).astype(np.float32)
    strata = stratum(bounds, reach, rng.integers(pivots, size=rows), pivots)
    thresholds = rng.exponential(0.3, size=count_strata(pivots)).astype(np.float32)
    vectors = rng.standard_normal((rows, 2)).astype(np.float32)
    builder = WatchlistBuilder(WatchPlan(vectors[:pivots], thresholds, np.float32(0)), size)
    for block in np.array_split(rng.permutation(rows), blocks):
        kept = block[builder.choose(bounds[block], reach[block], strata[block])]
        builder.keep(WatchedRows(vectors[kept], kept, bounds[kept], kept, reach[kept], strata[kept]))
    return builder.result(), {"bounds": bounds, "reach": reach, "strata": strata, "vectors": vectors}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 300), st.integers(1, 4), st.integers(1, 40), st.integers(1, 6))
def test_no_row_outside_the_watchlist_exceeds_what_is_noted_of_its_stratum(seed, rows, pivots, size, blocks):
    found, all_rows = passed(seed, rows, pivots, size, blocks)
    watched = found.watched
    assert len(watched) <= max(size, 2 * count_strata(pivots))  # every stratum keeps one at least
    assert (np.diff(watched.rows) > 0).all()
    for name in ("bounds", "reach", "strata", "vectors"):
        np.testing.assert_array_equal(getattr(watched, name), all_rows[name][watched.rows])
    others = np.setdiff1d(np.arange(rows), watched.rows)
    strata = all_rows["strata"][others]
    assert (all_rows["bounds"][others] <= found.highest[strata]).all()
    assert (all_rows["reach"][others] <= found.reach[strata]).all()
    empty = np.setdiff1d(np.arange(count_strata(pivots)), strata)
    assert (found.highest[empty] == -1).all()


def test_the_watchlist_of_two_parts_holds_both():
    (one, first), (two, second) = passed(1, 50, 2, 20, 2), passed(2, 60, 2, 20, 2)
    both = Watchlist.joined([one, two])
    assert both.watched.rows.tolist() == [*one.watched.rows, *two.watched.rows]
    assert both.highest.tolist() == pytest.approx(np.maximum(one.highest, two.highest))
    assert both.reach.tolist() == pytest.approx(np.maximum(one.reach, two.reach))
    assert both.beneath == -1
    assert len(first["bounds"]) + len(second["bounds"]) > len(both.watched)


def test_candidates_under_the_floor_are_covered_by_it():
    plan = WatchPlan(np.zeros((1, 2), np.float32), np.full(count_strata(1), 0.5, np.float32), np.float32(0.5))
    builder = WatchlistBuilder(plan, 8)
    assert builder.result().beneath == -1
    builder.below()
    assert builder.result().beneath == 0.5


def test_strata_are_bands_around_the_nearest_pivot_and_a_last_one_for_rows_near_none():
    bounds, reach = np.ones(5, np.float32), np.array([0.01, 0.1, 0.5, 1.0, 9.0], np.float32)
    assert stratum(bounds, reach, np.full(5, 1), pivots=2).tolist() == [3, 4, 5, 6, 6]
