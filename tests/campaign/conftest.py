"""Databases and engines for the campaign's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import standin

from apod.campaign import EngineFactory
from apod.testing import Place
from apod.testing.engines import Workshop
from support.postgres import PostgresMissing, ThrowawayPostgres, throwaway_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[ThrowawayPostgres]:
    try:
        with throwaway_postgres() as server:
            yield server
    except PostgresMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def engine() -> EngineFactory:
    return standin.build


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "trial.db.files")
    return Place(request.getfixturevalue("postgres").fresh(), tmp_path / "files")


@pytest.fixture
def workshop(place: Place, engine: EngineFactory) -> Iterator[Workshop]:
    found = Workshop(place, engine)
    yield found
    for campaign in found.opened:
        campaign.close()


@pytest.fixture
def on_sqlite(tmp_path: Path, engine: EngineFactory) -> Iterator[Workshop]:
    found = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "trial.db.files"), engine)
    yield found
    for campaign in found.opened:
        campaign.close()
