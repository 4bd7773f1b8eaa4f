"""`apod bench` on a cluster gives the tables of one machine."""

from dataclasses import replace

import pandas as pd
import pytest

from apod.bench.methods import METHODS
from apod.bench.runner import BenchPlan, run_bench
from apod.maxmin.ray import joblib_backend
from apod.method.settings import PRESETS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


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
