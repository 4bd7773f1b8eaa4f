"""A pool in parts is the pool."""

import numpy as np
from brute_force import max_min_picks, picked, pools
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.maxmin import Coverage
from apod.maxmin.nearest import StoredRows
from apod.maxmin.shard import Shard, Shards


@settings(max_examples=60, deadline=None)
@given(pools(), st.integers(1, 5))
def test_a_pool_in_parts_gives_the_same_picks_row_for_row(pool, parts):
    matrix, answered, mask, k = pool
    shift = StoredRows(matrix).middle()
    pieces = [piece for piece in np.array_split(np.arange(len(matrix)), parts) if len(piece)]
    split = Coverage.over(Shards([Shard(StoredRows(matrix[piece]), shift, int(piece[0])) for piece in pieces]))
    split.add(answered)
    everyone = np.ones(len(matrix), bool) if mask is None else mask
    assert picked(split, mask, 1) == max_min_picks(matrix, answered, everyone, 1)
    assert picked(split, mask, k) == max_min_picks(matrix, answered, everyone, k)
