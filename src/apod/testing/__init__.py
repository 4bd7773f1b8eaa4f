"""A published test suite: what every engine of a campaign must do.

Inherit the contract in a test class and say where databases are and which engine to use:

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def engine(self):
            return my_engine_factory

        @pytest.fixture
        def place(self, tmp_path):
            return Place(f"sqlite:///{tmp_path}/campaign.db", tmp_path / "files")

Needs pytest.
"""

from apod.testing.engines import EngineContract, Place

__all__ = ["EngineContract", "Place"]
