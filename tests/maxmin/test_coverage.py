"""Distances and picks of a coverage: brute force's, whatever was added and taken back, saved and restored."""

import numpy as np
import pytest
from brute_force import distance_table, max_min_picks, picked, pools
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.errors import InputError
from apod.maxmin import Coverage, Pick, SharedCoverage, restore_coverage, save_coverage


def test_farthest_is_the_row_with_the_largest_distance_to_its_nearest_answer():
    coverage = Coverage(np.array([[0.0], [1.0], [5.0], [9.0]]), answered=[0, 3])
    assert coverage.farthest() == [Pick(2, 4.0)]
    assert coverage.distances.tolist() == [0, 1, 4, 0]
    assert coverage.nearest.tolist() == [0, 0, 3, 3]


def test_with_nothing_answered_the_lowest_candidate_comes_first_then_max_min():
    coverage = Coverage(np.array([[0.0], [1.0], [5.0], [9.0]]))
    mask = np.array([False, True, True, True])
    assert coverage.farthest(mask, k=9) == [Pick(1, np.inf), Pick(3, 8.0), Pick(2, 4.0)]


def test_an_undone_answer_leaves_no_trace():
    matrix = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    coverage, plain = Coverage(matrix, [1, 2, 3]), Coverage(matrix, [1, 3])
    coverage.remove([2])
    assert np.array_equal(coverage.distances, plain.distances)
    assert coverage.answered == (1, 3)
    with pytest.raises(InputError, match="Row 2 is not answered"):
        coverage.remove([2])


def test_rows_outside_the_matrix_are_refused():
    with pytest.raises(InputError, match="Row 4 is not in the matrix"):
        Coverage(np.zeros((4, 2)), [4])


def test_an_answer_is_one_pass_however_many_rows_it_names_and_a_known_one_is_none():
    coverage = Coverage(np.random.default_rng(0).standard_normal((500, 4)))
    assert coverage.passes == 1  # every row's norm
    coverage.add([3, 4, 5])
    assert coverage.passes == 2
    coverage.add([4])
    coverage.farthest()
    assert coverage.passes == 2


def test_undo_reads_only_rows_that_lost_their_nearest_answer():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((400, 3))
    coverage, truth = Coverage(matrix, [1, 2, 3]), Coverage(matrix.copy(), [1, 3]).distances
    orphans = coverage.nearest == 2
    matrix[~orphans] = np.nan  # whoever reads these would know no distance
    coverage.remove([2])
    matrix[~orphans] = 0.0
    assert np.array_equal(coverage.distances[orphans], truth[orphans])


@settings(max_examples=300, deadline=None)
@given(pools())
def test_picks_equal_brute_force(pool):
    matrix, answered, mask, k = pool
    everyone = np.ones(len(matrix), bool) if mask is None else mask
    coverage = Coverage(matrix, answered)
    assert picked(coverage, mask, 1) == max_min_picks(matrix, answered, everyone, 1)
    assert picked(coverage, mask, k) == max_min_picks(matrix, answered, everyone, k)


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


@pytest.fixture
def matrix():
    return np.random.default_rng(1).standard_normal((200, 6)).astype(np.float32)


def truth(matrix, answered):
    return max_min_picks(matrix, answered, np.ones(len(matrix), bool), 5)


def test_a_restored_state_reads_the_matrix_only_for_what_changed(matrix, tmp_path):
    coverage = Coverage(matrix, [5, 9, 17])
    coverage.remove([9])
    save_coverage(coverage, tmp_path / "state")
    same = restore_coverage(tmp_path / "state", matrix, [5, 17])
    assert same.passes == 0
    assert np.array_equal(same.nearest, coverage.nearest)
    assert picked(same, None, 5) == truth(matrix, [5, 17])
    moved = restore_coverage(tmp_path / "state", matrix, [5, 40, 41])
    assert moved.passes == 2  # one to add two answers, one to take one back
    assert sorted(moved.answered) == [5, 40, 41]
    assert picked(moved, None, 5) == truth(matrix, [5, 40, 41])


def test_saving_again_replaces_the_file_and_leaves_nothing_else(matrix, tmp_path):
    coverage = Coverage(matrix, [5])
    save_coverage(coverage, tmp_path / "state")
    coverage.add([6])
    save_coverage(coverage, tmp_path / "state")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert restore_coverage(tmp_path / "state", matrix, [5, 6]).passes == 0


def damage(how, path, matrix):
    content = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "one bit":
        content[-700] ^= 4
        path.write_bytes(content)
    elif how == "other matrix":
        save_coverage(Coverage(matrix + 1, [5]), path)
    elif how == "other storage":
        save_coverage(Coverage(matrix.astype(np.float64), [5]), path)
    elif how == "fewer rows":
        save_coverage(Coverage(matrix[:-1], [5]), path)
    elif how == "text":
        path.write_text("hello")


@pytest.mark.parametrize(
    "how", ["missing", "cut off", "empty", "one bit", "other matrix", "other storage", "fewer rows", "text"]
)
def test_an_unusable_state_is_computed_anew(how, matrix, tmp_path):
    path = tmp_path / "state"
    save_coverage(Coverage(matrix, [5]), path)
    damage(how, path, matrix)
    coverage = restore_coverage(path, matrix, [5])
    assert coverage.passes == 2  # norms, and the answer
    assert picked(coverage, None, 5) == truth(matrix, [5])


def test_ten_bytes_a_row_are_saved(tmp_path):
    matrix = np.zeros((10_000, 4), np.float32)
    save_coverage(Coverage(matrix, [5]), tmp_path / "state")
    assert (tmp_path / "state").stat().st_size == pytest.approx(10 * len(matrix), abs=2000)


@pytest.mark.parametrize("file", ["state", None])
def test_distances_are_to_exactly_the_answers_that_stand(tmp_path, file):
    path = None if file is None else tmp_path / file
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    kept = SharedCoverage(matrix, path)
    for rows in ([3, 4], [3, 4, 9], [4, 9], [], [100]):
        with kept.to(rows) as coverage:
            assert sorted(coverage.answered) == sorted(rows)
            np.testing.assert_array_equal(coverage.distances, Coverage(matrix, rows).distances)
    assert (tmp_path / "state").exists() == (file is not None)


def test_another_process_reads_no_matrix_for_what_is_on_file(tmp_path):
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    with SharedCoverage(matrix, tmp_path / "state").to([3, 4]):
        pass
    with SharedCoverage(matrix, tmp_path / "state").to([3, 4]) as coverage:
        assert coverage.passes == 0
    (tmp_path / "state").write_bytes(b"torn")
    with SharedCoverage(matrix, tmp_path / "state").to([3, 4]) as coverage:
        np.testing.assert_array_equal(coverage.distances, Coverage(matrix, [3, 4]).distances)


class Counted(int):
    """A row number that counts how often it is looked up."""

    lookups = 0

    def __hash__(self) -> int:
        type(self).lookups += 1
        return int.__hash__(self)

    __eq__ = int.__eq__


@pytest.mark.parametrize("file", ["state", None])
def test_the_work_for_the_answers_grows_with_their_number_not_with_its_square(tmp_path, file):
    path = None if file is None else tmp_path / file
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    for distances in (SharedCoverage(matrix, path), SharedCoverage(matrix, path)):
        for count in (400, 399):  # the second is opened from the file, where there is one
            Counted.lookups = 0
            with distances.to([Counted(row) for row in range(count)]):
                pass
            assert Counted.lookups < 20 * count
