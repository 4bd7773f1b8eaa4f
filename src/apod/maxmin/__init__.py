"""Distances to the answered rows, and whom to ask about next: exact, incremental, in memory or from a file."""

from apod.data.array_files import open_array
from apod.maxmin.coverage import Coverage, Pick
from apod.maxmin.select import SelectResult, select
from apod.maxmin.state import restore_coverage, save_coverage
from apod.maxmin.typical import Rows, typical_rows

__all__ = [
    "Coverage",
    "Pick",
    "Rows",
    "SelectResult",
    "open_array",
    "restore_coverage",
    "save_coverage",
    "select",
    "typical_rows",
]
