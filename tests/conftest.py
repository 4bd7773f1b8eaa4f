"""Fixtures every test may use."""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from support.tiers import NoProcess, is_long, starts_processes

# One run is like another, and no example fails for being slow; `--hypothesis-profile explore` tries new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only what takes milliseconds and starts no process")


MEMORY = Path("/dev/shm")
"""A folder in memory: campaigns wait for the disk at every answer, and their tests give thousands."""


def pytest_configure(config: pytest.Config) -> None:
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4e9:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # where pytest makes `tmp_path`
    if config.getoption("--fast"):
        config.pluginmanager.register(NoProcess())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--fast") and is_long(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        fast = [item for item in items if not item.get_closest_marker("slow") and not starts_processes(item)]
        config.hook.pytest_deselected(items=list(set(items) - set(fast)))
        items[:] = fast


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What draws from a global state draws the same in every run, whichever tests ran before."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def find_shared() -> Path | None:
    """The folder with the real data and formula vectors, where it lies beside the project."""
    folder = Path(os.environ.get("APOD_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    return folder if (folder / "data").is_dir() else None


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    folder = find_shared()
    if folder is None:
        pytest.skip("needs the real data beside the project (../shared), which is not here")
    return folder
