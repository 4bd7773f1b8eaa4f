import numpy as np
import pytest

from apod.coverage import Coverage, Pick
from apod.errors import InputError


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
