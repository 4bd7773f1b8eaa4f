"""A bench is killed with SIGKILL again and again: the tables are those of an undisturbed one, to the bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pytest
from bench_units import same_but_for_time

from support import SUPPORT

TABLES = ("runs", "rounds", "answers")


def killed(tmp_path: Path, kills: int, seed: int, seeds: int = 4) -> None:
    job = {"folder": str(tmp_path), "kills": kills, "seed": seed, "seeds": seeds}
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "bench_nursery.py"), json.dumps(job)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["hits"] == kills
    assert report["repeated"] == 0  # what was finished before a kill was not computed again
    for name in report["survived"]:
        same_tables(tmp_path / "calm", tmp_path / name)


def same_tables(calm: Path, disturbed: Path) -> None:
    for table in TABLES:
        one, other = (pd.read_parquet(folder / f"{table}.parquet") for folder in (calm, disturbed))
        assert len(one)
        same_but_for_time(one, other)
    assert not list(disturbed.glob("parts/*.partial"))
    assert not list(disturbed.glob("*.partial"))  # hidden ones too


@pytest.mark.slow
def test_three_kills_leave_the_tables_of_an_undisturbed_bench(tmp_path: Path) -> None:
    killed(tmp_path, kills=3, seed=1, seeds=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_ten_kills_leave_the_tables_of_an_undisturbed_bench(tmp_path: Path, seed: int) -> None:
    killed(tmp_path, kills=10, seed=seed)


@pytest.mark.slow
def test_ten_kills_of_the_command_leave_the_same_tables_though_its_workers_outlive_it(tmp_path: Path) -> None:
    """Only the command is killed; its two workers end soon after, and may write until then beside the next command."""
    bench = [sys.executable, "-m", "apod", "bench", "--datasets", "example", "--methods", "vanilla,group-dro,lff,apod"]
    bench += ["--strengths", "0.1,1", "--seeds", "3", "--jobs", "2", "--out"]
    chance, orphans = random.Random(5), []
    start = time.monotonic()
    subprocess.run([*bench, str(tmp_path / "calm")], check=True, capture_output=True)
    longest = time.monotonic() - start
    hits, number = 0, 0
    while hits < 10:
        process = subprocess.Popen([*bench, str(tmp_path / str(number))], stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, longest))
        if process.poll() is None:
            orphans += psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            hits += 1
        elif process.returncode == 0:
            same_tables(tmp_path / "calm", tmp_path / str(number))
            number += 1
        assert process.wait() in (0, -signal.SIGKILL)
    subprocess.run([*bench, str(tmp_path / str(number))], check=True, capture_output=True)
    same_tables(tmp_path / "calm", tmp_path / str(number))
    for orphan in orphans:  # those that had not been given any work yet end after five idle minutes
        with suppress(psutil.NoSuchProcess):
            orphan.kill()
