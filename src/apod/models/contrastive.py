"""The tools of pre-training: losses with their gradients, Adam, fresh layers, mini-batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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


class Adam:
    """Adam on several tensors at once, kept in one flat vector: a few operations a step in all."""

    def __init__(self, parameters: list[Tensor], lr: float) -> None:
        self._flat = torch.cat([p.reshape(-1) for p in parameters])
        pieces = torch.split(self._flat, [p.numel() for p in parameters])
        self.parameters = [piece.view(p.shape) for piece, p in zip(pieces, parameters, strict=True)]
        self._mean, self._square = torch.zeros_like(self._flat), torch.zeros_like(self._flat)
        self._lr, self._steps = lr, 0

    def step(self, gradients: list[Tensor]) -> None:
        """Move `parameters` in place, against the gradients."""
        self._steps += 1
        flat = torch.cat([g.reshape(-1) for g in gradients])
        self._mean.lerp_(flat, 0.1)
        self._square.mul_(0.999).addcmul_(flat, flat, value=0.001)
        scale = (self._square / (1 - 0.999**self._steps)).sqrt_().add_(1e-8)
        self._flat.addcdiv_(self._mean, scale, value=-self._lr / (1 - 0.9**self._steps))


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
