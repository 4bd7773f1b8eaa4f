"""What every store must do: the whole contract."""

from __future__ import annotations

from apod.testing.asking import AskingContract
from apod.testing.safety import SafetyContract


class StoreContract(AskingContract, SafetyContract):
    """Ask and tell on one database behave the same whatever the database is."""
