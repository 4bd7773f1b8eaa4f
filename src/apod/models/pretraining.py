"""What every pre-training needs: losses with their gradients, fresh layers, mini-batches, progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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
