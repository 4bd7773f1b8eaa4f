"""A pool on three nodes gives the picks of one machine, id for id, whatever is lost on the way."""

import json
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from apod.data.arrays import open_parts
from apod.errors import ApodError, ClusterError, InputError
from apod.maxmin import Coverage, Pick, select
from apod.maxmin.ray_connect import connect
from apod.maxmin.ray_pool import RayShards, ray_engine

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROWS, WIDTH = 30_000, 8


def rows_with_ties(rng) -> np.ndarray:
    """Half of them on a grid, so that many distances tie, and some rows twice, in different parts."""
    matrix = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    matrix[::2] = rng.integers(-1, 2, (len(matrix[::2]), WIDTH))
    matrix[-500:] = matrix[:500]
    return matrix


@pytest.fixture(scope="module")
def matrix():
    return rows_with_ties(np.random.default_rng(0))


@pytest.fixture(scope="module")
def file(matrix, tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "embeddings.npy"
    np.save(path, matrix)
    return path


@pytest.fixture
def pool(cluster, file):
    with RayShards(open_parts(file, 3)) as pool:
        yield pool


def campaign(coverage: Coverage, rounds: int, after=lambda number: None) -> list[Pick]:
    """Ask about the farthest person of a subgroup, hear, sometimes take an answer back, now and then pick many."""
    picks, subgroup = [], np.random.default_rng(1).random(ROWS) < 0.3
    for number in range(rounds):
        found = coverage.farthest(subgroup if number % 2 else None, k=12 if number % 3 == 2 else 1)
        picks += found
        coverage.add([found[0].row])
        if number % 4 == 3:
            coverage.remove([coverage.answered[1]])
        after(number)
    return picks


def test_three_nodes_give_the_picks_of_one_machine(pool, matrix):
    assert len(set(pool.nodes())) == 3
    here, there = Coverage(matrix), pool.coverage()
    assert campaign(there, 10) == campaign(here, 10)
    assert there.answered == here.answered
    np.testing.assert_array_equal(there.distances, here.distances)
    assert pool.rebuilt == 0


def test_a_node_lost_in_the_middle_of_a_campaign_changes_no_pick_and_no_answer(pool, matrix, cluster):
    here, there = Coverage(matrix), pool.coverage()

    def lose(number):
        if number == 4:
            cluster.lose(cluster.may_lose(pool.nodes()))

    try:
        assert campaign(there, 10, lose) == campaign(here, 10)
        assert there.answered == here.answered
        np.testing.assert_array_equal(there.distances, here.distances)
        assert pool.rebuilt >= 1
    finally:
        cluster.grow()


@pytest.mark.parametrize("moment", ["begin", "sample", "watch", "vectors_here", "end", "add"])
def test_a_part_lost_at_any_moment_of_a_batch_changes_no_pick(pool, matrix, moment, monkeypatch):
    import ray

    here, there = Coverage(matrix, [4, 20_000]), pool.coverage()
    there.add([4, 20_000])
    handle, left = pool.remote[1], [1]
    call = handle.call

    def call_and_die(path, *given):
        promise = call(path, *given)
        if path.endswith(moment) and left:
            left.pop()
            ray.kill(handle.actor)  # it dies at this moment or a little later
        return promise

    monkeypatch.setattr(handle, "call", call_and_die)
    assert there.farthest(k=20) == here.farthest(k=20)
    there.add([7]), here.add([7])
    assert there.farthest(k=3) == here.farthest(k=3)
    assert pool.rebuilt >= 1
    assert not left


def test_a_folder_of_parts_is_one_pool(cluster, matrix, tmp_path):
    for number, start in enumerate(range(0, ROWS, 13_000)):
        np.save(tmp_path / f"part-{number}-of-3.npy", matrix[start : start + 13_000].astype(np.float16))
    there = [pick.row for pick in select(matrix.astype(np.float16), [3], 9).picks]
    assert [pick.row for pick in select(tmp_path, [3], 9).picks] == there
    with ray_engine(None) as engine:
        assert [pick.row for pick in select(tmp_path, [3], 9, engine=engine).picks] == there


def test_the_command_gives_the_same_rows_on_a_cluster(cluster, file, tmp_path):
    np.save(tmp_path / "answered.npy", [5, 17_000])
    command = [sys.executable, "-m", "apod", "select", str(file), "--answered", str(tmp_path / "answered.npy")]
    command += ["-k", "5", "--json"]
    found = []
    for more in ([], ["--engine", "ray", "--address", cluster.address]):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["picks"])
    assert found[0] == found[1]


def test_one_process_is_in_one_cluster(cluster):
    host, _, port = cluster.address.partition(":")
    other = f"localhost:{port}" if host != "localhost" else f"127.0.0.1:{port}"
    with ray_engine(cluster.address):
        pass  # the one there is
    with pytest.raises(ClusterError, match=r"^This process is connected to the cluster at .*: leave it before"):
        connect(other)


def test_a_bad_row_is_named_from_whatever_node_it_is_on(cluster, matrix, tmp_path):
    matrix = matrix.copy()
    matrix[25_001, 3] = np.nan
    np.save(tmp_path / "m.npy", matrix)
    with pytest.raises(InputError, match=r"^Row 25001 of the embeddings holds a value that is not a finite number"):
        RayShards(open_parts(tmp_path / "m.npy", 3))


def test_storage_that_is_gone_when_a_part_must_be_built_again_is_named_and_no_answer_lost(cluster, matrix, tmp_path):
    import ray

    path = tmp_path / "m.npy"
    np.save(path, matrix)
    with RayShards(open_parts(path, 3)) as pool:
        there = pool.coverage()
        there.add([1, 2, 3])
        path.rename(tmp_path / "elsewhere.npy")
        ray.kill(pool.remote[2].actor)
        with suppress(ray.exceptions.RayActorError):
            while True:  # a killed actor answers on for a moment
                ray.get(pool.remote[2].actor.node.remote())
        with pytest.raises(ApodError, match=r"^There is no file .*m\.npy"):
            there.farthest()
        assert there.answered == (1, 2, 3)
        (tmp_path / "elsewhere.npy").rename(path)
        assert there.farthest() == Coverage(matrix, [1, 2, 3]).farthest()
