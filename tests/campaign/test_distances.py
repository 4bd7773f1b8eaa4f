"""A campaign's distances from question to question: always those of a fresh look at exactly these answers."""

import numpy as np
import pytest

from apod.campaign.distances import Distances
from apod.data import blocks
from apod.maxmin import Coverage


@pytest.mark.parametrize("limit", [10, 10**6])
def test_distances_are_to_exactly_the_answers_that_stand(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(blocks, "LARGE", limit)
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    kept = Distances(matrix, tmp_path / "state")
    for rows in ([3, 4], [3, 4, 9], [4, 9], [], [100]):
        with kept.to(rows) as coverage:
            assert sorted(coverage.answered) == sorted(rows)
            np.testing.assert_array_equal(coverage.distances, Coverage(matrix, rows).distances)
    assert (tmp_path / "state").exists() == (limit == 10)


def test_another_process_reads_no_matrix_for_what_is_on_file(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "LARGE", 10)
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    with Distances(matrix, tmp_path / "state").to([3, 4]):
        pass
    with Distances(matrix, tmp_path / "state").to([3, 4]) as coverage:
        assert coverage.passes == 0
    (tmp_path / "state").write_bytes(b"torn")
    with Distances(matrix, tmp_path / "state").to([3, 4]) as coverage:
        np.testing.assert_array_equal(coverage.distances, Coverage(matrix, [3, 4]).distances)


class Counted(int):
    """A row number that counts how often it is looked up."""

    lookups = 0

    def __hash__(self) -> int:
        type(self).lookups += 1
        return int.__hash__(self)

    __eq__ = int.__eq__


@pytest.mark.parametrize("limit", [10, 10**6])
def test_the_work_for_the_answers_grows_with_their_number_not_with_its_square(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(blocks, "LARGE", limit)
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    for distances in (Distances(matrix, tmp_path / "state"), Distances(matrix, tmp_path / "state")):
        for count in (400, 399):  # the second is opened from the file, where there is one
            Counted.lookups = 0
            with distances.to([Counted(row) for row in range(count)]):
                pass
            assert Counted.lookups < 20 * count
