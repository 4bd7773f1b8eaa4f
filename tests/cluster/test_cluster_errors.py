"""What can be wrong before a cluster does anything: one clear line each."""

import socket
import sys

import numpy as np
import pytest

from apod.data.parts import Part, open_parts
from apod.errors import ClusterError, InputError
from apod.maxmin import select
from apod.maxmin.ray import connect, ray_engine


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_ray_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"^Ray is not installed: pip install 'apod-fairness\[ray\]'"):
        connect("auto")


def test_a_cluster_nobody_runs_is_refused_at_once():
    pytest.importorskip("ray")
    with pytest.raises(ClusterError, match=r"^No Ray cluster answers at 127\.0\.0\.1:\d+ \(Connection refused\)"):
        connect(f"127.0.0.1:{free_port()}")


@pytest.mark.parametrize("address", ["nowhere", "ray://host:1", ":6379", "host:", "host:port"])
def test_an_address_that_is_none_is_refused(address):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="is no address of a Ray cluster: pass HOST:PORT"):
        connect(address)


def test_an_address_is_needed(monkeypatch):
    monkeypatch.setattr(pytest.importorskip("ray"), "is_initialized", lambda: False)
    with pytest.raises(InputError, match="needs an address"), ray_engine(None):
        pass


def test_an_array_in_memory_is_no_storage():
    with pytest.raises(InputError, match="reads embeddings from storage"):
        select(np.eye(3), engine=lambda path: None)


def test_an_engine_that_sees_another_pool_is_refused(tmp_path):
    from apod.maxmin import Coverage

    np.save(tmp_path / "m.npy", np.eye(5))
    with pytest.raises(InputError, match="The engine sees 3 rows and this machine 5"):
        select(tmp_path / "m.npy", engine=lambda path: Coverage(np.eye(3)))


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
