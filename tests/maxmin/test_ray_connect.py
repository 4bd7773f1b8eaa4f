"""A cluster that cannot be reached is one clear line; one that can gives `apod bench` the tables of one machine."""

import socket
import sys
from dataclasses import replace

import pandas as pd
import pytest

from apod.bench.methods import METHODS
from apod.bench.runner import BenchPlan, run_bench
from apod.errors import ClusterError, InputError
from apod.maxmin.ray_connect import connect, joblib_backend
from apod.maxmin.ray_pool import ray_engine
from apod.method.settings import PRESETS


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_tables_as_one_process(cluster, tmp_path):
    settings = replace(PRESETS["paper"], epochs=1, body_epochs=1, batch_size=256, strengths=(0.2,))
    methods = tuple(replace(METHODS[name], values=METHODS[name].values[-1:]) for name in ("vanilla", "apod"))
    plan = BenchPlan(("example",), methods, (0, 1), settings=settings)
    one = run_bench(plan, tmp_path / "one", jobs=1)
    with joblib_backend(None) as (backend, processors):
        assert (backend, processors) == ("ray", 3)
        two = run_bench(plan, tmp_path / "two", jobs=2, backend=backend)
    for table in ("runs", "rounds", "answers"):
        frames = [store.read(table) for store in (one, two)]
        frames = [frame.drop(columns=[c for c in frame if "seconds" in c]) for frame in frames]
        pd.testing.assert_frame_equal(*frames, check_exact=True)
        assert len(frames[0])
