"""Data tests know no folder and no cache but their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("APOD_CACHE", str(folder))
    monkeypatch.delenv("APOD_DATA", raising=False)
    return folder


@pytest.fixture
def data_dir(shared_dir: Path) -> Path:
    return shared_dir / "data"
