"""What a body promises, and bodies that are there already: a user's torch module, or ready embeddings."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.errors import InputError

FloatArray = npt.NDArray[np.float32]

_EMBED_ROWS = 1024  # rows per forward pass; fixed, so that a row's result does not hang on how many others came along


@runtime_checkable
class Body(Protocol):
    """What every body promises.

    - frozen: nothing that happens after it was made changes an embedding;
    - evaluation mode and deterministic: the same row gives the same embedding, every time;
    - row-wise: a row's embedding does not depend on the rows beside it (to rounding, 1e-6);
    - `embed` takes float32 (n, d) and returns finite float32 (n, width), also for n = 0.
    """

    @property
    def width(self) -> int:
        """M, the number of columns of an embedding."""
        ...

    def embed(self, X: npt.NDArray[Any]) -> FloatArray:
        """The embeddings (n, width) of the rows of X (n, d)."""
        ...


class ModuleBody:
    """A user's own torch module as the body: copied, frozen, in evaluation mode.

    The module is copied, so training it further leaves this body as it is. Its output must be (n, M) and
    finite.
    """

    def __init__(self, module: torch.nn.Module, width: int | None = None) -> None:
        self._module = copy.deepcopy(module).eval().requires_grad_(False)
        self._width = width

    @property
    def width(self) -> int:
        """M; as given, otherwise known from the first rows embedded."""
        if self._width is None:
            raise InputError("The width of the module's output is not known yet: embed first, or pass width=.")
        return self._width

    def embed(self, X: npt.NDArray[Any]) -> FloatArray:
        """The module's output (n, M) for the rows of X, in evaluation mode."""
        rows = finite_rows(X)
        if self._width is None:
            self._width = self._forward(torch.tensor(rows[:1])).shape[1]
        return embed_in_batches(self._forward, rows, self._width)

    def _forward(self, x: Tensor) -> Tensor:
        parameter = next(self._module.parameters(), None)
        with torch.no_grad():
            out = self._module(x if parameter is None else x.to(parameter.device))
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(x):
            raise InputError(f"The body module returned {shape} for {len(x)} rows: return one embedding per row.")
        if self._width is not None and out.shape[1] != self._width:
            raise InputError(f"The body module returned {out.shape[1]} columns, not the {self._width} announced.")
        if not torch.isfinite(out).all():
            raise InputError("The body module returned NaN or infinity: check its weights and the scale of X.")
        return out.detach().float().cpu()


@dataclass(frozen=True)
class EmbeddingBody:
    """Rows that are embeddings already: `embed` checks them and returns them as float32."""

    width: int

    def embed(self, X: npt.NDArray[Any]) -> FloatArray:
        """X itself, (n, width), as float32."""
        return finite_rows(X, columns=self.width)


def finite_rows(X: npt.NDArray[Any], columns: int | None = None) -> FloatArray:
    """X as a finite float32 matrix of the expected width, or an error that says what is wrong."""
    try:
        with np.errstate(over="ignore"):  # too large for float32 becomes infinity, which is refused below
            rows = np.ascontiguousarray(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"X holds something that is not a number: encode it first ({error}).") from error
    if rows.ndim != 2:
        raise InputError(f"X has {rows.ndim} dimension(s): pass a matrix with one row per person.")
    if columns is not None and rows.shape[1] != columns:
        raise InputError(
            f"X has {rows.shape[1]} columns and the body takes {columns}: pass the columns it was made for."
        )
    if not np.isfinite(rows).all():
        raise InputError("X holds NaN, infinity, or values beyond float32: fill or drop them first.")
    return rows


def embed_in_batches(
    forward: Callable[[Tensor], Tensor], rows: npt.NDArray[Any], width: int, size: int = _EMBED_ROWS
) -> FloatArray:
    """`forward` applied to slices of `size` rows, without gradients."""
    out = np.empty((len(rows), width), dtype=np.float32)
    with torch.no_grad():
        for start in range(0, len(rows), size):
            out[start : start + size] = forward(torch.tensor(rows[start : start + size])).numpy()
    return out
