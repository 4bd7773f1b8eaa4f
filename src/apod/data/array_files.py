"""Arrays in .npy files: mapped, not read, and refused in one line where they are damaged."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Stored = npt.NDArray[np.floating]
"""Of float16, float32 or float64, as the user keeps it."""


def open_array(path: str | os.PathLike[str], what: str) -> npt.NDArray[Any]:
    """The array in a .npy file, which may be larger than memory; `what` names it in an error."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            shape, dtype, start = _header(file)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}: pass the {what} as a .npy file.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: pass the {what} as one .npy file.") from None
    except (ValueError, EOFError):
        raise InputError(f"{path} is not a .npy file: write the {what} with numpy.save.") from None
    if dtype.hasobject:
        raise InputError(f"{path} holds Python objects: write the {what} as numbers or fixed-length text.")
    expected, found = start + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if found != expected:
        wrong = "is cut off" if found < expected else "is longer than its header says"
        raise InputError(f"{path} {wrong}: {shape} {dtype} takes {expected} bytes, it has {found}: write it again.")
    if not math.prod(shape):
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def require_matrix(matrix: Stored) -> None:
    """Refuse what is not a matrix of floating-point numbers with rows and columns."""
    if matrix.ndim != 2 or not matrix.shape[0] or not matrix.shape[1]:
        raise InputError(f"The embeddings have shape {matrix.shape}: pass a matrix with rows and columns.")
    if matrix.dtype.kind != "f" or matrix.dtype.itemsize > 8:
        raise InputError(f"The embeddings are {matrix.dtype}: store them as float32, float16 or float64.")


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type a file claims, and where its numbers start."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype, file.tell()
