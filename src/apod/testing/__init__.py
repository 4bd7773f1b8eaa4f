"""Published test suites: what every store and every engine of a campaign must do.

Inherit a contract in a test class and say where databases are and which engine to use:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def engine(self):
            return my_engine_factory

        @pytest.fixture
        def place(self, tmp_path):
            return Place(f"sqlite:///{tmp_path}/campaign.db", tmp_path / "files")

Needs pytest. `throwaway_postgres` starts a PostgreSQL server of one's own for as long as the tests run.
"""

from apod.testing.contract import Place
from apod.testing.engines import EngineContract
from apod.testing.postgres import PostgresMissing, ThrowawayPostgres, find_postgres, throwaway_postgres
from apod.testing.stores import StoreContract

__all__ = [
    "EngineContract",
    "Place",
    "PostgresMissing",
    "StoreContract",
    "ThrowawayPostgres",
    "find_postgres",
    "throwaway_postgres",
]
