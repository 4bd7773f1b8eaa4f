"""Distances to the answered rows, and who is farthest: exact, incremental."""

from apod.coverage.coverage import Coverage, Pick

__all__ = ["Coverage", "Pick"]
