"""The body f_b: what turns a row into an embedding. Pre-trained once, frozen, then never touched again.

`pretrain_body` gives the paper's perceptron body for a table, trained without labels (two corrupted views of
a row attract each other, everyone else repels) or by cross-entropy. `ModuleBody` takes a user's own torch
module, `EmbeddingBody` a matrix of embeddings that is there already.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from apod.errors import CheckpointError, InputError
from apod.models.contrastive import Adam, cross_entropy, linear_start, nt_xent, shuffled_batches
from apod.randomness import generator
from apod.threads import one_thread

FloatArray = npt.NDArray[np.float32]
Progress = Callable[[int, int, str], None]
"""Called with (done, total, text) after each epoch."""
Pretraining = Literal["contrastive", "cross_entropy"]

CORRUPTION_RATE = 0.6
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


@dataclass(frozen=True, eq=False)
class PerceptronBody:
    """relu(X @ weight.T + bias): the paper's perceptron body."""

    weight: FloatArray  # (M, d)
    bias: FloatArray  # (M,)
    history: tuple[float, ...] = field(default=(), repr=False)  # mean loss of each epoch of pre-training

    def __post_init__(self) -> None:
        for name in ("weight", "bias"):
            own = np.array(getattr(self, name), dtype=np.float32)
            own.flags.writeable = False  # frozen: whoever passed the array may go on changing theirs
            object.__setattr__(self, name, own)

    @property
    def width(self) -> int:
        """M, the number of columns of an embedding."""
        return len(self.bias)

    def embed(self, X: npt.NDArray[Any]) -> FloatArray:
        """The embeddings (n, M) of the encoded rows X (n, d)."""
        rows = finite_rows(X, columns=self.weight.shape[1])
        weight, bias = torch.tensor(self.weight), torch.tensor(self.bias)
        return embed_in_batches(lambda x: functional.linear(x, weight, bias).relu(), rows, self.width)

    def state(self) -> dict[str, FloatArray]:
        """The weights by name, ready for safetensors."""
        return {"weight": self.weight.copy(), "bias": self.bias.copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]], history: tuple[float, ...] = ()) -> PerceptronBody:
        """The body whose `state()` this is."""
        if set(state) != {"weight", "bias"}:
            raise CheckpointError(f"A perceptron body is saved as weight and bias, not {sorted(state)}.")
        weight, bias = np.asarray(state["weight"]), np.asarray(state["bias"])
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise CheckpointError(f"Weight {weight.shape} and bias {bias.shape} do not fit together.")
        return cls(weight, bias, history)


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
    """Rows that are embeddings already: `embed` checks them and hands them back as float32."""

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


def corrupted_sources(
    rng: np.random.Generator, rows: npt.NDArray[np.int64], n: int, columns: int, rate: float = CORRUPTION_RATE
) -> npt.NDArray[np.int64]:
    """From which of n training rows a corrupted view of `rows` takes each raw column: (len(rows), columns).

    With probability `rate` a column comes from a random other row, otherwise from the row itself.
    """
    shape = (len(rows), columns)
    away = rng.integers(1, n, size=shape)  # 1 to n - 1 rows further on, so never the row itself
    return (rows[:, None] + np.where(rng.random(shape) < rate, away, 0)) % n


def pretrain_body(
    X: npt.NDArray[Any],
    *,
    width: int,
    blocks: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    method: Pretraining = "contrastive",
    epochs: int = 50,
    batch_size: int = 256,
    lr: float = 1e-3,
    seed: int,
    name: str,
    progress: Progress | None = None,
) -> PerceptronBody:
    """A perceptron body trained on the encoded training rows X (n, d), by seed and dataset name alone.

    blocks (d,) says which raw column each encoded column belongs to: a view swaps whole raw columns,
    so a one-hot block stays one-hot. `method="contrastive"` reads no label; `"cross_entropy"` needs `labels`.
    `history` of the result holds the mean loss of each epoch.
    """
    rows = finite_rows(X)
    _check_settings(rows, width=width, epochs=epochs, batch_size=batch_size, lr=lr)
    start = generator(seed, "body", name, method, "start")
    if method == "contrastive":
        steps, outputs = _contrastive_steps(rows, blocks, batch_size), width
    elif method == "cross_entropy":
        steps, outputs = _labelled_steps(rows, labels, batch_size)
    else:
        raise InputError(f"There is no pre-training {method!r}: contrastive or cross_entropy.")
    # The second layer (projection or classifier) only serves the training and is thrown away.
    layers = [*linear_start(start, rows.shape[1], width), *linear_start(start, width, outputs)]
    adam = Adam(layers, lr)
    history = []
    with torch.no_grad(), one_thread():
        for epoch in range(epochs):
            rng = generator(seed, "body", name, method, "epoch", epoch)
            losses = [_two_layer_step(adam, x, objective) for x, objective in steps(rng)]
            history.append(float(torch.stack(losses).mean()))
            if progress is not None:
                progress(epoch + 1, epochs, f"body, loss {history[-1]:.3f}")
    weight, bias = (p.numpy() for p in adam.parameters[:2])
    return PerceptronBody(weight, bias, tuple(history))


Objective = Callable[[Tensor], tuple[Tensor, Tensor]]
Steps = Callable[[np.random.Generator], Iterator[tuple[Tensor, Objective]]]


def _two_layer_step(adam: Adam, x: Tensor, objective: Objective) -> Tensor:
    """One Adam step on linear, relu, linear, objective; the loss before it."""
    weight, bias, weight2, bias2 = adam.parameters
    hidden = torch.addmm(bias, x, weight.T).relu_()  # (B, M)
    loss, d_out = objective(torch.addmm(bias2, hidden, weight2.T))  # (B, outputs)
    d_hidden = (d_out @ weight2).mul_(hidden > 0)  # (B, M)
    adam.step([d_hidden.T @ x, d_hidden.sum(dim=0), d_out.T @ hidden, d_out.sum(dim=0)])
    return loss


def _contrastive_steps(rows: FloatArray, blocks: npt.ArrayLike, batch_size: int) -> Steps:
    """An epoch's batches of two corrupted views each (2B, d), with the NT-Xent objective."""
    n, d = rows.shape
    block = np.asarray(blocks)
    if block.shape != (d,):
        raise InputError(f"blocks has shape {block.shape} and X has {d} columns: give one raw column per encoded one.")
    raw, column = np.unique(block, return_inverse=True)  # column (d,): 0 .. raw columns - 1
    flat, offset = torch.tensor(rows).reshape(-1), torch.arange(d)
    spread = torch.from_numpy(column.astype(np.int64))

    def steps(rng: np.random.Generator) -> Iterator[tuple[Tensor, Objective]]:
        for batch in shuffled_batches(rng, n, batch_size, least=2):
            source = corrupted_sources(rng, np.tile(batch, 2), n, len(raw))  # (2B, raw columns)
            where = torch.from_numpy(source * d).index_select(1, spread).add_(offset)  # (2B, d), into flat
            yield flat.take(where), nt_xent

    return steps


def _labelled_steps(rows: FloatArray, labels: npt.ArrayLike | None, batch_size: int) -> tuple[Steps, int]:
    """An epoch's batches of rows with the cross-entropy objective, and the number of classes."""
    if labels is None:
        raise InputError("Pre-training by cross-entropy needs labels: pass labels=, or method='contrastive'.")
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    if codes.shape != (len(rows),) or len(names) < 2:
        raise InputError(
            f"There are {codes.size} labels of {len(names)} kind(s) for {len(rows)} rows: pass one per row."
        )
    x, y = torch.tensor(rows), torch.from_numpy(codes.astype(np.int64))

    def steps(rng: np.random.Generator) -> Iterator[tuple[Tensor, Objective]]:
        for batch in map(torch.from_numpy, shuffled_batches(rng, len(rows), batch_size, least=2)):
            yield x[batch], partial(cross_entropy, labels=y[batch])

    return steps, len(names)


def _check_settings(rows: FloatArray, **settings: float) -> None:
    for key, value in settings.items():
        if not value > 0:
            raise InputError(f"{key} is {value}: pass a number above 0.")
    if len(rows) < 2 or settings["batch_size"] < 2:
        raise InputError(f"{len(rows)} rows in batches of {settings['batch_size']}: pass at least two of each.")
