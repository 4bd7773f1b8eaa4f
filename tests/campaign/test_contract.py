"""The published contracts, on SQLite, on a real PostgreSQL, and for the stand-in engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import standin

from apod.campaign import EngineFactory
from apod.testing import EngineContract, Place
from support.postgres import ThrowawayPostgres
from support.store_contract import StoreContract


class TestSQLite(StoreContract):
    @pytest.fixture
    def engine(self) -> EngineFactory:
        return standin.build

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "files")


class TestPostgreSQL(StoreContract):
    @pytest.fixture
    def engine(self) -> EngineFactory:
        return standin.build

    @pytest.fixture
    def place(self, tmp_path: Path, postgres: ThrowawayPostgres) -> Place:
        return Place(postgres.fresh(), tmp_path / "files")


class TestStandIn(EngineContract):
    @pytest.fixture
    def engine(self) -> EngineFactory:
        return standin.build
