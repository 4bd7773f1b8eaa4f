"""POD's penalty on discrimination: *what* is equalised x *how* the step is relaxed x *over whom*.

    L = 1/N sum_i l(h_i, y_i) + strength * sum_y [ p~_0(y, 1) - p~_1(y, 1) ]^2          (the paper's POD loss)

    p~_a(y, 1) = mean over the rows of group a and label y of  relax( f^1(h) - f^0(h) )

Every rate of the penalty is a weighted mean of relaxed margins, so one matrix W of cell weights holds *what* and
*over whom*: a notion (`fairness.notions`) says which cells of people are compared, such as those of label 1, and the
rows are the annotated people (membership 0 or 1) or the pool (membership = the proxy's probability). For more than two
groups the penalty is the sum over pairs. A cell without anybody of a group contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from apod.fairness.notions import NOTIONS, Notion
from apod.method.settings import NotionName, OverName, RelaxationName


def _identity(margin: Tensor) -> tuple[Tensor, Tensor | float]:
    return margin, 1.0


def _sigmoid(margin: Tensor) -> tuple[Tensor, Tensor | float]:
    value = margin.sigmoid()
    return value, value * (1 - value)


def _sharp(margin: Tensor) -> tuple[Tensor, Tensor | float]:
    value = (4 * margin).sigmoid()
    return value, 4 * value * (1 - value)


def _tanh(margin: Tensor) -> tuple[Tensor, Tensor | float]:
    value = margin.tanh()
    return value, 1 - value * value


RELAXATIONS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor | float]]] = {
    "linear": _identity,
    "sigmoid": _sigmoid,
    "sharp": _sharp,
    "tanh": _tanh,
}
"""How the step function is relaxed: margin -> (value, slope). `sharp` is a sigmoid four times as steep: its means are
close to the rates of the decisions themselves, at the price of a slope that only people near the threshold have."""


@dataclass(frozen=True)
class Penalty:
    """One penalty: a choice on each of the three axes."""

    what: NotionName
    relaxation: RelaxationName
    over: OverName  # the answered rows, or the whole pool weighted by the proxy's probabilities

    @property
    def notion(self) -> Notion:
        """What is equalised."""
        return NOTIONS[self.what]


@dataclass(frozen=True)
class CellWeights:
    """Row weights of every cell and group; each filled cell's weights sum to one."""

    weight: Tensor  # (T, k * G, S): T = 1 when all heads share the rows, else K
    filled: Tensor  # (T, k, G) bool
    sign: Tensor | None = None  # (T, S) -1 where the decision 0 is the one that is counted; None: nowhere


def cell_weights(notion: Notion, labels: Tensor, membership: Tensor) -> CellWeights:
    """Weights that turn relaxed margins into each cell's mean.

    labels (T, S) · membership (T, S, G): 0/1 for answered rows, probabilities for proxies, all zero for padding.
    """
    member, inside = membership.transpose(1, 2), torch.from_numpy(notion.cells(labels.numpy()))  # (T, G, S), (T, S, k)
    mass = torch.stack([member * rows[:, None, :] for rows in inside.unbind(2)], dim=1)  # (T, k, G, S)
    total = mass.sum(dim=3, keepdim=True)
    weight = mass / torch.where(total > 0, total, torch.ones_like(total))
    counted = notion.events(labels.numpy())[..., 0]  # (T, S)
    sign = None if counted.all() else torch.from_numpy(2 * counted - 1).to(weight.dtype)
    return CellWeights(weight.flatten(1, 2), (total > 0).squeeze(3), sign)


def penalty_and_slope(margin: Tensor, cells: CellWeights, relaxation: str) -> tuple[Tensor, Tensor]:
    """The penalty of each head, (K,), and its gradient with respect to the margins, (K, S).

    margin (K, S): logit of label 1 minus logit of label 0 on the penalty's rows.
    """
    value, slope = RELAXATIONS[relaxation](margin if cells.sign is None else cells.sign * margin)
    heads = margin.shape[0]
    if cells.weight.shape[0] == 1:
        rates = value @ cells.weight[0].T  # (K, k * G)
    else:
        rates = torch.bmm(cells.weight, value[:, :, None]).squeeze(2)
    rates = rates.view(heads, *cells.filled.shape[1:])  # (K, k, G)
    filled = cells.filled.to(rates.dtype)
    # sum over pairs (a, b) of (r_a - r_b)^2 = n sum r_a^2 - (sum r_a)^2 over the n groups of a cell,
    # taken about their mean so that equal rates give exactly zero
    count = filled.sum(dim=2, keepdim=True)
    centred = (rates - (rates * filled).sum(dim=2, keepdim=True) / count.clamp(min=1)) * filled
    penalty = (count.squeeze(2) * centred.square().sum(dim=2)).sum(dim=1)  # (K,)
    by_rate = (2 * count * centred).flatten(1)  # (K, k * G)
    if cells.weight.shape[0] == 1:
        by_value = by_rate @ cells.weight[0]  # (K, S)
    else:
        by_value = torch.bmm(by_rate[:, None, :], cells.weight).squeeze(1)
    return penalty, by_value * slope if cells.sign is None else by_value * slope * cells.sign


def cross_entropy_slope(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Gradient of the mean cross-entropy with respect to the logits.

    logits (K, R, C) · targets (R,) shared or (K, R) of each head; a target of -1 leaves the row out of the mean ·
    weights (K, R): how much each row counts, all alike unless told.
    """
    targets = targets.expand(logits.shape[:2])  # (K, R)
    counted = targets >= 0
    slope = logits.softmax(dim=2)
    slope.scatter_add_(2, targets.clamp(min=0)[..., None], slope.new_full((), -1.0).expand(*targets.shape, 1))
    mass = counted.to(slope.dtype) if weights is None else counted * weights
    total = mass.sum(dim=1, keepdim=True)
    return slope.mul_((mass / torch.where(total > 0, total, 1.0))[..., None])
