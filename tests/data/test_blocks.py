"""Matrices larger than memory: sweeps block by block give what one look at everything gives."""

import numpy as np
import pytest
import torch

from apod.data import TableEncoder, blocks
from apod.errors import InputError
from apod.method.pool import in_blocks, mapped_tensor

ROWS, WIDTH = 30_000, 6
SIZE = 8192  # rows of a block: four blocks, the last one shorter


@pytest.fixture(scope="module")
def matrix():
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32) * 3 + 1


@pytest.fixture
def mapped(matrix, tmp_path):
    np.save(tmp_path / "m.npy", matrix)
    return np.load(tmp_path / "m.npy", mmap_mode="r")


def test_blocks_are_all_rows_in_order(mapped, matrix):
    found = list(blocks.blocks(mapped, SIZE))
    assert [here.start for here, _ in found] == [0, SIZE, 2 * SIZE, 3 * SIZE]
    np.testing.assert_array_equal(np.concatenate([block for _, block in found]), matrix)


def test_a_tensor_over_a_mapped_file_is_the_file(mapped, matrix):
    assert mapped_tensor(mapped).data_ptr() == mapped.ctypes.data
    assert torch.equal(mapped_tensor(mapped), torch.from_numpy(matrix))


@pytest.mark.parametrize("in_memory", [0, 1 << 30])
def test_rows_taken_in_a_sweep_are_those_rows(mapped, matrix, in_memory):
    for rows in (np.array([0, ROWS - 1]), np.sort(np.random.default_rng(2).permutation(ROWS)[:999])):
        taken = blocks.take_rows(mapped, rows, size=SIZE, in_memory=in_memory)
        np.testing.assert_array_equal(taken, matrix[rows])


def test_moments_and_scaling_are_the_encoders(mapped, matrix):
    mean, spread = blocks.moments(mapped, SIZE)
    np.testing.assert_allclose(mean, matrix.astype(np.float64).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(spread, matrix.astype(np.float64).std(axis=0), rtol=1e-12)
    flat = np.hstack([matrix, np.full((ROWS, 1), 7, np.float32), np.zeros((ROWS, 1), np.float32)])
    scaled = blocks.encode_numbers(blocks.fit_numbers(flat, SIZE), flat, SIZE)
    np.testing.assert_allclose(scaled, TableEncoder().fit_transform(flat), atol=1e-6)


def test_a_row_that_is_not_finite_is_named(matrix):
    broken = matrix.copy()
    broken[20_002, 3] = np.inf
    with pytest.raises(InputError, match=r"^Row 20002 of the embeddings holds a value that is not a finite number"):
        blocks.fit_numbers(broken, SIZE)


def test_what_is_computed_block_by_block_is_put_together(matrix):
    tensor = torch.from_numpy(matrix)
    found = in_blocks(lambda rows: torch.stack([rows, 2 * rows]), tensor, SIZE)
    assert torch.equal(found, torch.stack([tensor, 2 * tensor]))
