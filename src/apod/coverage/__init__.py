"""Distances to the answered rows, and whom to ask about next: exact, incremental, in memory or from a file."""

from apod.coverage.coverage import Coverage, Pick
from apod.coverage.files import open_array
from apod.coverage.probcover import CoverPick, probability_cover
from apod.coverage.select import SelectResult, select
from apod.coverage.state import restore_coverage, save_coverage
from apod.coverage.typical import Rows, typical_rows

__all__ = [
    "CoverPick",
    "Coverage",
    "Pick",
    "Rows",
    "SelectResult",
    "open_array",
    "probability_cover",
    "restore_coverage",
    "save_coverage",
    "select",
    "typical_rows",
]
