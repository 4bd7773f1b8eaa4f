"""Picks are those of brute force in float64, whatever the storage, the ties, the parts, the order of events."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from coverage_oracle import distance_table, max_min_picks
from hypothesis import given, settings
from hypothesis import strategies as st

import apod.maxmin.batch as batch
import apod.maxmin.rows as rows_module
from apod.maxmin import Coverage
from apod.maxmin.bounds import Geometry, nearest_centre, squared_distances
from apod.maxmin.pool import Pool
from apod.maxmin.rows import Rows
from apod.maxmin.shard import Shard

STORAGE = [np.float16, np.float32, np.float64]


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


def picked(coverage, mask, k):
    return [(pick.row, pick.distance) for pick in coverage.farthest(mask, k=k)]


@pytest.fixture
def tiny_blocks(monkeypatch):
    """Small blocks, few watched rows and two threads, so that a small pool takes every road of a large one."""
    monkeypatch.setattr(rows_module, "BLOCK", 1)
    monkeypatch.setattr(rows_module, "CONVERTED", 1)
    monkeypatch.setattr(batch, "sizes", lambda width, itemsize: (6, 6))


@settings(max_examples=300, deadline=None)
@given(pools())
def test_picks_equal_brute_force(pool):
    matrix, answered, mask, k = pool
    everyone = np.ones(len(matrix), bool) if mask is None else mask
    coverage = Coverage(matrix, answered)
    assert picked(coverage, mask, 1) == max_min_picks(matrix, answered, everyone, 1)
    assert picked(coverage, mask, k) == max_min_picks(matrix, answered, everyone, k)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("kind", ["gaussian", "clusters", "one_hot", "duplicates", "outlier"])
def test_batches_from_a_few_watched_rows_equal_brute_force(kind, storage, tiny_blocks):
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
        coverage = Coverage(matrix, answered, threads=2)
        assert picked(coverage, mask, 50) == max_min_picks(matrix, answered, mask, 50)


@settings(max_examples=60, deadline=None)
@given(pools(), st.data())
def test_any_sequence_of_answers_and_undos_leaves_what_the_answers_alone_would(pool, data):
    matrix, answered, mask, k = pool
    everyone = np.ones(len(matrix), bool) if mask is None else mask
    coverage, current = Coverage(matrix, answered), list(answered)
    for _ in range(5):
        if current and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from(current), unique=True, max_size=3))
            coverage.remove(gone)
            current = [row for row in current if row not in gone]
        else:
            fresh = data.draw(st.lists(st.integers(0, len(matrix) - 1), max_size=3))
            coverage.add(fresh)
            current += [row for row in dict.fromkeys(fresh) if row not in current]
        assert picked(coverage, mask, 1) == max_min_picks(matrix, current, everyone, 1)
    assert picked(coverage, mask, k) == max_min_picks(matrix, current, everyone, k)
    assert coverage.answered == tuple(current)


@settings(max_examples=60, deadline=None)
@given(pools(), st.integers(1, 5))
def test_a_pool_in_parts_gives_the_same_picks_row_for_row(pool, parts):
    matrix, answered, mask, k = pool
    shift = Rows(matrix).middle()
    pieces = [piece for piece in np.array_split(np.arange(len(matrix)), parts) if len(piece)]
    split = Coverage.over(Pool([Shard(Rows(matrix[piece]), shift, int(piece[0])) for piece in pieces]))
    split.add(answered)
    everyone = np.ones(len(matrix), bool) if mask is None else mask
    assert picked(split, mask, 1) == max_min_picks(matrix, answered, everyone, 1)
    assert picked(split, mask, k) == max_min_picks(matrix, answered, everyone, k)


@settings(max_examples=100, deadline=None)
@given(pools())
def test_distances_and_nearest_are_brute_forces_to_within_float32(pool):
    matrix, answered, _, _ = pool
    coverage = Coverage(matrix, answered)
    if not answered:
        assert np.isinf(coverage.distances).all()
        assert (coverage.nearest == -1).all()
        return
    table = distance_table(matrix)[:, answered]
    norm = np.abs(matrix.astype(np.float64)).max() + 1
    assert np.allclose(coverage.distances**2, table.min(axis=1) ** 2, rtol=0, atol=1e-5 * norm**2)
    own = table[np.arange(len(matrix)), [answered.index(row) for row in coverage.nearest]]
    assert np.array_equal(coverage.distances, own)
    assert (coverage.nearest[answered] == answered).all()


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


def test_undo_holds_where_float32_mistakes_the_nearest_answer():
    """Two far clusters: within one, float32 cannot tell the distances to two answers apart."""
    rng = np.random.default_rng(8)
    matrix = np.where(np.arange(80) % 2, 1000.0, -1000.0)[:, None] + 0.01 * rng.standard_normal((80, 3))
    answered = list(range(20))
    coverage = Coverage(matrix, answered)
    for gone in list(answered):
        for row in range(80):  # each row's exact distance comes to light, and tightens its bound
            picked(coverage, np.arange(80) == row, 1)
        coverage.remove([gone])
        answered.remove(gone)
        for mask in rng.random((10, 80)) < 0.1:
            assert picked(coverage, mask, 1) == max_min_picks(matrix, answered, mask, 1)


def test_rows_at_one_distance_tie_even_where_their_squares_differ():
    angles = np.random.default_rng(3).permutation(np.linspace(0, 6, 200))
    matrix = np.vstack([np.zeros(2), np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    squares = (matrix**2).sum(axis=1)
    assert len(set(squares)) > len(set(np.sqrt(squares)))
    assert picked(Coverage(matrix, [0]), None, 30) == max_min_picks(matrix, [0], np.ones(201, bool), 30)


def test_the_formula_gives_one_row_the_same_bits_however_many_rows_are_computed_with_it():
    rng = np.random.default_rng(0)
    for width in (1, 3, 8, 17, 64, 129, 512):
        rows, centres = rng.standard_normal((70, width)), rng.standard_normal((9, width))
        alone = np.array([[squared_distances(row, centre) for centre in centres] for row in rows])
        assert np.array_equal(nearest_centre(rows, centres)[0], alone.min(axis=1))
        assert np.array_equal(nearest_centre(rows, centres)[1], alone.argmin(axis=1))
