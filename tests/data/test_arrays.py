"""Arrays in .npy files, matrices in parts, rows widened to float32: read as they are, or refused in one line."""

import numpy as np
import pytest

from apod.data.arrays import FloatRows, Part, open_array, open_parts
from apod.errors import InputError


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "m.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"not a \.npy file"):
        open_array(tmp_path / "m.npy", "embeddings")
    with pytest.raises(InputError, match="is a folder"):
        open_array(tmp_path, "embeddings")


def parts_in(folder, names, columns=4, dtype=np.float32):
    for name in names:
        np.save(folder / f"{name}.npy", np.ones((3, columns), dtype))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "holds no .npy file"),
        (["part-0", "part-1", "part-3"], r"lacks part 2 \(1 missing\)"),
        (["part-1", "part-2", "part-4"], "lacks part 3"),
        (["part-2", "part-3"], "lacks part 1"),
        (["m-0-of-4", "m-1-of-4"], r"lacks part 2 \(2 missing\)"),
        (["a-0", "b-1"], "parts of more than one table or matrix"),
    ],
)
def test_a_missing_part_is_named(tmp_path, names, message):
    parts_in(tmp_path, names)
    with pytest.raises(InputError, match=message):
        open_parts(tmp_path)


def test_parts_are_ordered_by_number_and_must_be_alike(tmp_path):
    parts_in(tmp_path, [f"part-{number}" for number in range(12)])
    opened = open_parts(tmp_path)
    assert [part.path.rpartition("-")[2] for part in opened.parts] == [f"{number}.npy" for number in range(12)]
    assert [part.start for part in opened.parts] == list(range(0, 36, 3))
    assert len(opened) == 36
    parts_in(tmp_path, ["part-5"], columns=3)
    with pytest.raises(InputError, match=r"part-5\.npy has 3 columns of float32 and the files before it 4"):
        open_parts(tmp_path)


def test_a_file_is_cut_into_pieces_that_cover_it(tmp_path):
    for rows, pieces in ((10, 3), (2, 5), (100_000, 3), (16_384, 2)):
        np.save(tmp_path / "m.npy", np.zeros((rows, 1), np.float16))
        parts = open_parts(tmp_path / "m.npy", pieces).parts
        assert len(parts) == min(pieces, rows)
        assert [row for part in parts for row in range(part.start, part.start + part.rows)] == list(range(rows))
        assert all(part.first == part.start for part in parts)
        assert all(part.start % 8192 == 0 for part in parts) or rows < pieces * 8192
    with pytest.raises(InputError, match="cannot be cut into -1 parts"):
        open_parts(tmp_path / "m.npy", -1)


def test_a_file_that_shrank_since_is_refused(tmp_path):
    np.save(tmp_path / "m.npy", np.ones((5, 2), np.float32))
    with pytest.raises(InputError, match="has 5 rows and 8 are needed: it has changed"):
        Part(str(tmp_path / "m.npy"), 4, 4, 4).open()


@pytest.mark.parametrize("storage", ["<f2", ">f2", "<f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F", "reversed"])
def test_rows_in_float32_are_numpys_cast(tmp_path, storage, order):
    rng = np.random.default_rng(0)
    matrix = (1000 * rng.standard_normal((700, 60))).astype(storage)
    matrix[3, :4] = [np.inf, -np.inf, np.nan, 1e-7]
    np.save(tmp_path / "m.npy", matrix if order == "C" else np.asfortranarray(matrix))
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    rows = FloatRows(mapped[::-1] if order == "reversed" else mapped)
    expected = (matrix[::-1] if order == "reversed" else matrix).astype(np.float32)
    for part in (slice(0, 700), slice(650, 700), slice(5, 5)):
        found = rows.block(part.start, part.stop)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected[part])
