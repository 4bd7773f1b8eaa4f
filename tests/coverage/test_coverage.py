import tracemalloc

import numpy as np
import pytest

from apod.data import readahead
from apod.errors import InputError
from apod.maxmin import Coverage, Pick, batch, rows


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


def test_batches_from_clustered_rows_take_few_passes(monkeypatch):
    rng = np.random.default_rng(7)
    centres = 5 * rng.standard_normal((40, 16))
    matrix = (centres[rng.integers(40, size=60_000)] + rng.standard_normal((60_000, 16))).astype(np.float32)
    monkeypatch.setattr(batch, "sizes", lambda width, itemsize: (1200, 600))  # one row in fifty is watched
    coverage = Coverage(matrix, [0, 1, 2])
    before = coverage.passes
    picks = [pick.row for pick in coverage.farthest(k=100)]
    assert coverage.passes - before <= 10
    wide, expected = matrix.astype(np.float64), []
    gaps = np.min([np.sqrt(((wide - wide[row]) ** 2).sum(axis=1)) for row in (0, 1, 2)], axis=0)
    for _ in range(100):
        expected.append(int(gaps.argmax()))
        gaps = np.minimum(gaps, np.sqrt(((wide - wide[expected[-1]]) ** 2).sum(axis=1)))
    assert picks == expected


def test_the_matrix_is_never_copied():
    matrix = np.random.default_rng(0).standard_normal((400_000, 64), dtype=np.float32)  # 102 MB
    tracemalloc.start()
    try:
        Coverage(matrix, [1, 2, 3]).farthest()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(matrix) + 20e6


def test_a_mapped_file_and_any_part_of_it_give_the_picks_of_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 1)
    monkeypatch.setattr(readahead, "WINDOW", 4096)
    array = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
    np.save(tmp_path / "m.npy", array)
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    for part in (slice(None), slice(700, 2900), slice(None, None, 2)):
        assert Coverage(mapped[part], [5], threads=2).farthest(k=20) == Coverage(array[part], [5]).farthest(k=20)
