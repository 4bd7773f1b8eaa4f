"""Float16 rows widened to float32, several times faster than numpy's own cast."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

PIECE = 1 << 15  # numbers torch converts in the thread that asks; above, it would start threads of its own


def as_tensor(matrix: npt.NDArray[np.floating]) -> torch.Tensor | None:
    """A float16 matrix as a tensor over the same memory; None for others, and where torch cannot read it."""
    if matrix.dtype != np.float16:
        return None
    import torch  # only those who store float16 wait for it

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a mapped file is not writable; nobody writes
            return torch.from_numpy(matrix)
    except (TypeError, ValueError):  # another machine's byte order, negative strides
        return None


def widened(matrix: torch.Tensor, start: int, stop: int) -> npt.NDArray[np.float32]:
    """Rows start to stop in float32."""
    import torch

    result = torch.empty((stop - start, matrix.shape[1]), dtype=torch.float32)
    step = max(1, PIECE // matrix.shape[1])
    for first in range(0, stop - start, step):
        piece = slice(first, min(first + step, stop - start))
        result[piece].copy_(matrix[start + piece.start : start + piece.stop])
    return result.numpy()
