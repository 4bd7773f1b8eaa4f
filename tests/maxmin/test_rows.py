"""A matrix is read where it lies, never copied, and a row that cannot be measured is named."""

import tracemalloc

import numpy as np
import pytest

from apod.errors import InputError
from apod.maxmin import Coverage
from apod.maxmin.nearest import Sizes


def test_the_matrix_is_never_copied():
    matrix = np.random.default_rng(0).standard_normal((400_000, 64), dtype=np.float32)  # 102 MB
    tracemalloc.start()
    try:
        Coverage(matrix, [1, 2, 3]).farthest()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * len(matrix) + 20e6


def test_a_mapped_file_and_any_part_of_it_give_the_picks_of_the_array(tmp_path):
    sizes = Sizes(block=1, read_ahead=4096)
    array = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
    np.save(tmp_path / "m.npy", array)
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    for part in (slice(None), slice(700, 2900), slice(None, None, 2)):
        found = Coverage(mapped[part], [5], threads=2, sizes=sizes).farthest(k=20)
        assert found == Coverage(array[part], [5]).farthest(k=20)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", [np.float16, np.float32, np.float64])
def test_a_row_that_is_not_finite_is_named(value, storage):
    matrix = np.ones((300, 5), storage)
    matrix[217, 3] = value
    with pytest.raises(InputError, match="Row 217 of the embeddings holds a value that is not a finite number"):
        Coverage(matrix, [3])


@pytest.mark.parametrize("storage", [np.float32, np.float64])
def test_a_row_too_large_to_measure_is_named(storage):
    matrix = np.ones((300, 5), storage)
    matrix[217, 3] = 1e30
    with pytest.raises(InputError, match="Row 217 of the embeddings is too large"):
        Coverage(matrix, [3])
