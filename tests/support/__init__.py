"""Helpers that tests share; some are programs that a test starts."""

from pathlib import Path

SUPPORT = Path(__file__).parent
