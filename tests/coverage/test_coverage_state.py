"""A saved state is a cache: it saves passes, and never changes a pick."""

import numpy as np
import pytest
from coverage_oracle import max_min_picks

from apod.maxmin import Coverage, restore_coverage, save_coverage


@pytest.fixture
def matrix():
    return np.random.default_rng(1).standard_normal((200, 6)).astype(np.float32)


def picked(coverage, k=5):
    return [(pick.row, pick.distance) for pick in coverage.farthest(k=k)]


def truth(matrix, answered):
    return max_min_picks(matrix, answered, np.ones(len(matrix), bool), 5)


def test_a_restored_state_reads_the_matrix_only_for_what_changed(matrix, tmp_path):
    coverage = Coverage(matrix, [5, 9, 17])
    coverage.remove([9])
    save_coverage(coverage, tmp_path / "state")
    same = restore_coverage(tmp_path / "state", matrix, [5, 17])
    assert same.passes == 0
    assert np.array_equal(same.nearest, coverage.nearest)
    assert picked(same) == truth(matrix, [5, 17])
    moved = restore_coverage(tmp_path / "state", matrix, [5, 40, 41])
    assert moved.passes == 2  # one to add two answers, one to take one back
    assert sorted(moved.answered) == [5, 40, 41]
    assert picked(moved) == truth(matrix, [5, 40, 41])


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
    assert picked(coverage) == truth(matrix, [5])


def test_ten_bytes_a_row_are_saved(tmp_path):
    matrix = np.zeros((10_000, 4), np.float32)
    save_coverage(Coverage(matrix, [5]), tmp_path / "state")
    assert (tmp_path / "state").stat().st_size == pytest.approx(10 * len(matrix), abs=2000)
