"""Candidates by name instead of by mask: a part knows who they are, and a byte a row stays off the wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.maxmin.bounds import Mask


@dataclass(frozen=True)
class Inside:
    """Candidates that the parts know themselves: the rows of one cell, as last scored."""

    cell: int

    def of(self, cells: npt.NDArray[np.uint8]) -> Mask:
        """(n,) bool."""
        return np.asarray(cells == self.cell)
