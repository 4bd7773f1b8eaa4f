"""What a body promises, bodies that are there already, and what every pre-training needs."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.errors import InputError

Progress = Callable[[int, int, str], None]
"""Called with (done, total, text) after each epoch, or each step where steps are slow."""

TEMPERATURE = 1.0


def nt_xent(projections: Tensor, temperature: float = TEMPERATURE) -> tuple[Tensor, Tensor]:
    """The normalised temperature-scaled cross-entropy of 2B projections, and its gradient.

    projections (2B, M): rows i and i + B are the two views of one row. Each view must find its partner among
    the 2B - 1 others by cosine similarity. Returns the mean loss and the gradient (2B, M). The gradient is
    written out because similarities are symmetric: one exponential and one product serve both sides, which
    autograd does not know.
    """
    count, t = len(projections), temperature
    length = projections.norm(dim=1, keepdim=True).clamp_min(1e-12)  # (2B, 1)
    unit = projections / length  # (2B, M)
    partner = unit.roll(count // 2, dims=0)  # (2B, M)
    lift = projections.new_full((), -1 / t)  # cosines end at 1, so no exponential exceeds 1
    weight = torch.addmm(lift, unit, unit.T, alpha=1 / t).exp_()  # (2B, 2B)
    weight.fill_diagonal_(0)  # nobody is compared with themselves
    total = weight.sum(dim=1, keepdim=True)  # (2B, 1)
    agreement = (unit * partner).sum(dim=1, keepdim=True)  # (2B, 1)
    loss = (total.log() - (agreement - 1) / t).mean()

    # d loss / d similarity_ij = weight_ij / total_i - [j is i's partner], and each unit row is on both sides.
    pull = weight @ torch.cat([unit, unit / total], dim=1)  # (2B, 2M)
    d_unit = (pull[:, : unit.shape[1]] / total + pull[:, unit.shape[1] :] - 2 * partner) / (count * t)
    along = (d_unit * unit).sum(dim=1, keepdim=True)  # (2B, 1): the length of a projection changes nothing
    return loss, (d_unit - unit * along) / length


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy of logits (B, C) for class codes (B,), and its gradient (B, C)."""
    log_p = torch.log_softmax(logits, dim=1)  # (B, C)
    rows = torch.arange(len(labels))
    loss = -log_p[rows, labels].mean()
    gradient = log_p.exp_()
    gradient[rows, labels] -= 1
    return loss, gradient / len(labels)


def linear_start(rng: np.random.Generator, inputs: int, outputs: int) -> list[Tensor]:
    """Weight (outputs, inputs) and bias (outputs,) of a fresh linear layer, uniform in +-1/sqrt(inputs)."""
    reach = 1 / np.sqrt(inputs)
    shapes = ((outputs, inputs), (outputs,))
    return [torch.from_numpy(rng.uniform(-reach, reach, shape).astype(np.float32)) for shape in shapes]


def shuffled_batches(rng: np.random.Generator, n: int, size: int, least: int) -> Iterator[npt.NDArray[np.int64]]:
    """All n rows in random order, `size` at a time; a rest of fewer than `least` rows sits this epoch out."""
    order = rng.permutation(n)
    for start in range(0, n, size):
        if len(batch := order[start : start + size]) >= least:
            yield batch


class Clock:
    """Tells `progress` how far the training is and how long it will still take."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._started = time.monotonic()
        self._ticks = 0

    def tick(self, done: int, total: int, loss: float) -> None:
        """One more step of this process is over: `done` of `total` in all, with those before an interruption."""
        self._ticks += 1
        if self._progress is not None:
            left = (time.monotonic() - self._started) / self._ticks * (total - done)
            self._progress(done, total, f"picture body, loss {loss:.3f}, {spell_seconds(left)} left")


def spell_seconds(seconds: float) -> str:
    """A duration as a person says it: 45 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


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
