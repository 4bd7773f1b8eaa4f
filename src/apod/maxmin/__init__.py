"""Distances to the answered rows, and whom to ask about next: exact, incremental, in memory, from files, on Ray."""

from apod.maxmin.coverage import Coverage, Pick, SharedCoverage, restore_coverage, save_coverage
from apod.maxmin.select import Rows, SelectResult, select, typical_rows

__all__ = [
    "Coverage",
    "Pick",
    "Rows",
    "SelectResult",
    "SharedCoverage",
    "restore_coverage",
    "save_coverage",
    "select",
    "typical_rows",
]
