"""Distances to the answered rows, and whom to ask about next: exact, incremental, in memory or from a file."""

from apod.coverage.coverage import Coverage, Pick
from apod.coverage.probcover import CoverPick, probability_cover

__all__ = ["CoverPick", "Coverage", "Pick", "probability_cover"]
