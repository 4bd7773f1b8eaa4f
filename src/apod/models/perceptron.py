"""The paper's perceptron body for a table, pre-trained once and frozen.

`pretrain_body` trains it without labels (two corrupted views of a row attract each other, everyone else repels) or by
cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from apod.errors import CheckpointError, InputError
from apod.heads.bank import Adam
from apod.models.body import (
    FloatArray,
    Progress,
    cross_entropy,
    embed_in_batches,
    finite_rows,
    linear_start,
    nt_xent,
    shuffled_batches,
)
from apod.processes import one_thread
from apod.randomness import generator

Pretraining = Literal["contrastive", "cross_entropy"]

CORRUPTION_RATE = 0.6


@dataclass(frozen=True, eq=False)
class PerceptronBody:
    """relu(X @ weight.T + bias): the paper's perceptron body."""

    weight: FloatArray  # (M, d)
    bias: FloatArray  # (M,)
    history: tuple[float, ...] = field(default=(), repr=False)  # mean loss of each epoch of pre-training

    def __post_init__(self) -> None:
        for name in ("weight", "bias"):
            own = np.array(getattr(self, name), dtype=np.float32)
            own.flags.writeable = False  # frozen: whoever passed the array may change theirs
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


def corrupted_sources(
    rng: np.random.Generator, rows: npt.NDArray[np.int64], n: int, columns: int, rate: float = CORRUPTION_RATE
) -> npt.NDArray[np.int64]:
    """From which of n training rows a corrupted view of `rows` takes each raw column: (len(rows), columns).

    With probability `rate` a column comes from a random other row, otherwise from the row itself.
    """
    shape = (len(rows), columns)
    away = rng.integers(1, n, size=shape)  # 1 to n - 1 rows further on, so never the row itself
    return (rows[:, None] + np.where(rng.random(shape) < rate, away, 0)) % n


class CorruptedViews:
    """Views of table rows in which raw columns were swapped for those of other rows; a one-hot block moves as one."""

    def __init__(self, rows: FloatArray, blocks: npt.ArrayLike) -> None:
        """rows (n, d) · blocks (d,) the raw column of each encoded one."""
        self._rows, self._width = rows.shape
        block = np.asarray(blocks)
        if block.shape != (self._width,):
            raise InputError(
                f"blocks has shape {block.shape} and X has {self._width} columns: give one raw column per encoded one."
            )
        raw, column = np.unique(block, return_inverse=True)  # column (d,): 0 .. raw columns - 1
        self._raw = len(raw)
        self._flat, self._offset = torch.tensor(rows).reshape(-1), torch.arange(self._width)
        self._spread = torch.from_numpy(column.astype(np.int64))

    def pair(self, rng: np.random.Generator, batch: npt.NDArray[np.int64]) -> Tensor:
        """(2B, d): a view of each row of the batch, then a second one of each."""
        source = corrupted_sources(rng, np.tile(batch, 2), self._rows, self._raw)  # (2B, raw columns)
        where = torch.from_numpy(source * self._width).index_select(1, self._spread).add_(self._offset)  # into flat
        return self._flat.take(where)


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
    network = _TwoLayers([*linear_start(start, rows.shape[1], width), *linear_start(start, width, outputs)], lr)
    history = []
    with torch.no_grad(), one_thread():
        for epoch in range(epochs):
            rng = generator(seed, "body", name, method, "epoch", epoch)
            losses = [network.step(x, objective) for x, objective in steps(rng)]
            history.append(float(torch.stack(losses).mean()))
            if progress is not None:
                progress(epoch + 1, epochs, f"body, loss {history[-1]:.3f}")
    weight, bias = (p.numpy() for p in network.parameters[:2])
    return PerceptronBody(weight, bias, tuple(history))


Objective = Callable[[Tensor], tuple[Tensor, Tensor]]
Steps = Callable[[np.random.Generator], Iterator[tuple[Tensor, Objective]]]


class _TwoLayers:
    """Linear, relu, linear, in one flat buffer that Adam moves."""

    def __init__(self, parameters: list[Tensor], lr: float) -> None:
        self._flat = torch.cat([p.reshape(-1) for p in parameters])
        pieces = torch.split(self._flat, [p.numel() for p in parameters])
        self.parameters = [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]
        self._adam = Adam(self._flat, lr, correct_square_first=True)

    def step(self, x: Tensor, objective: Objective) -> Tensor:
        """One Adam step; the loss before it."""
        weight, bias, weight2, bias2 = self.parameters
        hidden = torch.addmm(bias, x, weight.T).relu_()  # (B, M)
        loss, d_out = objective(torch.addmm(bias2, hidden, weight2.T))  # (B, outputs)
        d_hidden = (d_out @ weight2).mul_(hidden > 0)  # (B, M)
        gradients = (d_hidden.T @ x, d_hidden.sum(dim=0), d_out.T @ hidden, d_out.sum(dim=0))
        self._adam.step(self._flat, torch.cat([gradient.reshape(-1) for gradient in gradients]))
        return loss


def _contrastive_steps(rows: FloatArray, blocks: npt.ArrayLike, batch_size: int) -> Steps:
    """An epoch's batches of two corrupted views each (2B, d), with the NT-Xent objective."""
    views = CorruptedViews(rows, blocks)

    def steps(rng: np.random.Generator) -> Iterator[tuple[Tensor, Objective]]:
        for batch in shuffled_batches(rng, len(rows), batch_size, least=2):
            yield views.pair(rng, batch), nt_xent

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
