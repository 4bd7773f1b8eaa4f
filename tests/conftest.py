"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


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
