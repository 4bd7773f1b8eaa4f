"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.tiers import NoProcess, is_long, starts_processes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only what takes milliseconds and starts no process")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        config.pluginmanager.register(NoProcess())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--fast") and is_long(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        fast = [item for item in items if not item.get_closest_marker("slow") and not starts_processes(item)]
        config.hook.pytest_deselected(items=list(set(items) - set(fast)))
        items[:] = fast


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
