"""The test oracle: the paper written plainly, one head at a time, with torch.nn, autograd and torch.optim.Adam.

Nothing here shares gradient, penalty or selection code with the package; the mini-batches and dropout masks (the
common random numbers) are the only thing taken from it. Slow on purpose: loops, one person or one head at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import torch
from torch import Tensor, nn

from apod.heads.schedule import Schedule, Step

STEP_RELAXED: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda margin: margin,
    "sigmoid": torch.sigmoid,
    "sharp": lambda margin: torch.sigmoid(4 * margin),
    "tanh": torch.tanh,
}
COMPARED_WITHIN: dict[str, list[int | None]] = {
    "equalized_odds": [0, 1],
    "true_positive_rate_parity": [1],
    "false_positive_rate_parity": [0],
    "demographic_parity": [None],
}


class Head(nn.Module):
    """One MLP head: linear, ReLU, dropout by given masks, ..., linear."""

    def __init__(self, flat: Tensor, sizes: Sequence[int]) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(i, o, dtype=flat.dtype) for i, o in pairwise(sizes))
        start = 0
        for linear in self.linears:
            count = linear.weight.numel()
            weight = flat[start : start + count].reshape(linear.in_features, linear.out_features)
            linear.weight.data = weight.T.clone()
            linear.bias.data = flat[start + count : start + count + linear.out_features].clone()
            start += count + linear.out_features

    def forward(self, inputs: Tensor, masks: Sequence[Tensor] | None = None) -> Tensor:
        *hidden, last = self.linears
        for depth, linear in enumerate(hidden):
            inputs = torch.relu(linear(inputs))
            if masks is not None:
                inputs = inputs * masks[depth]
        return last(inputs)

    def flat(self) -> Tensor:
        """The parameters in the order of a bank's buffer: weight (in, out), bias, next layer."""
        parts = [part for linear in self.linears for part in (linear.weight.T.reshape(-1), linear.bias)]
        return torch.cat(parts).detach().clone()


def rate(values: Tensor, labels: Tensor, member: Tensor, label: int | None) -> Tensor | None:
    """p~_a(y, 1): the mean of relaxed margins over one group's rows with this label; None where there are none."""
    weight = member if label is None else member * (labels == label)
    total = float(weight.sum())
    return (values * weight).sum() / total if total > 0 else None


def penalty(margin: Tensor, labels: Tensor, membership: Tensor, what: str, relaxation: str) -> Tensor:
    """Sum over labels and pairs of groups of the squared difference of rates; margin (S,), membership (S, G)."""
    values, total = STEP_RELAXED[relaxation](margin), margin.new_zeros(())
    for label in COMPARED_WITHIN[what]:
        rates = [rate(values, labels, membership[:, a], label) for a in range(membership.shape[1])]
        for one, other in combinations(rates, 2):
            if one is not None and other is not None:
                total = total + (one - other) ** 2
    return total


def one_hot(groups: Sequence[int], n_groups: int, dtype: torch.dtype) -> Tensor:
    """Membership (S, G) of people whose group is known."""
    membership = torch.zeros((len(groups), n_groups), dtype=dtype)
    for place, group in enumerate(groups):
        membership[place, group] = 1
    return membership


@dataclass
class Penalised:
    """The rows a penalty looks at, for one head."""

    embeddings: Tensor  # (S, M)
    labels: Tensor  # (S,)
    membership: Tensor  # (S, G)
    what: str = "equalized_odds"
    relaxation: str = "linear"


class Trainer:
    """One head with torch's Adam."""

    def __init__(self, flat: Tensor, sizes: Sequence[int], strength: float = 0.0) -> None:
        self.head, self.strength = Head(flat, sizes), strength
        self.optimiser = torch.optim.Adam(self.head.parameters(), lr=1e-3)

    def step(self, inputs: Tensor, labels: Tensor, masks: Sequence[Tensor], behind: Penalised | None) -> None:
        """Cross-entropy on the mini-batch plus strength x penalty on the rows behind it."""
        everything = inputs if behind is None else torch.cat([inputs, behind.embeddings])
        logits = self.head(everything, masks)
        loss = nn.functional.cross_entropy(logits[: len(labels)], labels)
        if behind is not None:
            margin = logits[len(labels) :, 1] - logits[len(labels) :, 0]
            loss = loss + self.strength * penalty(
                margin, behind.labels, behind.membership, behind.what, behind.relaxation
            )
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def fit(self, embeddings: Tensor, labels: Tensor, steps: Iterable[Step], behind: Penalised | None) -> None:
        """All steps of a schedule; `behind` is cut out of each step's masks as the rows after the mini-batch."""
        for step in steps:
            size = len(step.rows) + (0 if behind is None else len(behind.labels))
            masks = [mask[:size] for mask in step.masks]
            self.step(embeddings[step.rows], labels[step.rows], masks, behind)

    def margins(self, embeddings: Tensor) -> Tensor:
        """(N,) logit of label 1 minus logit of label 0, without dropout."""
        with torch.no_grad():
            logits = self.head(embeddings)
        return logits[:, 1] - logits[:, 0]


class LinearProxy:
    """f_a: one linear layer trained on S by cross-entropy; twice as many steps the first time."""

    def __init__(self, flat: Tensor, width: int, n_groups: int) -> None:
        self.head = Head(flat, (width, n_groups))
        self.optimiser = torch.optim.Adam(self.head.parameters(), lr=1e-3)
        self.fresh = True

    def fit(self, inputs: Tensor, groups: Tensor, epochs: int = 10) -> None:
        for _ in range(2 * epochs if self.fresh else epochs):
            self.optimiser.zero_grad()
            nn.functional.cross_entropy(self.head(inputs), groups).backward()
            self.optimiser.step()
        self.fresh = False

    def probabilities(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.softmax(self.head(inputs), dim=1)


def centred(
    labels: Sequence[int], predicted: Sequence[int], proxy: Sequence[int], askable: Sequence[bool], n_groups: int
) -> dict[tuple[int, int], Fraction]:
    """p*_a(c, c) in exact fractions, for the subgroups that have askable members."""
    result: dict[tuple[int, int], Fraction] = {}
    for label in (0, 1):
        accuracy = {}
        for group in range(n_groups):
            inside = [i for i, ok in enumerate(askable) if ok and proxy[i] == group and labels[i] == label]
            if inside:
                accuracy[group] = Fraction(sum(int(predicted[i]) == label for i in inside), len(inside))
        for group, value in accuracy.items():
            result[group, label] = value - sum(accuracy.values(), Fraction(0)) / len(accuracy)
    return result


def nearest_distance(embeddings: np.ndarray, row: int, answered: Sequence[int]) -> float:
    """Distance of one row to the nearest answered one; infinite while nobody is answered."""
    return min((math.dist(embeddings[row], embeddings[j]) for j in answered), default=math.inf)


def farthest(embeddings: np.ndarray, candidates: Sequence[int], answered: Sequence[int]) -> tuple[int, float]:
    """argmax over candidates of min over answered of the distance; ties to the lowest row."""
    best, best_distance = -1, -math.inf
    for row in sorted(candidates):
        distance = nearest_distance(embeddings, row, answered)
        if distance > best_distance:
            best, best_distance = row, distance
    return best, best_distance


@dataclass
class Trajectory:
    """One S with the heads trained on it; questions come from `asking`."""

    asking: Trainer
    heads: list[Trainer]
    proxy: LinearProxy | None = None
    rows: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)


@dataclass
class Problem:
    """Everything Algorithm 1 needs but the answers."""

    embeddings: Tensor
    labels: Tensor
    n_groups: int
    seed: int
    dataset: str
    hidden: tuple[int, ...]
    epochs: int
    batch_size: int
    probabilities: Callable[[Trajectory], Tensor]  # fits f_a on the trajectory's S and applies it to the pool


def run_round(problem: Problem, trajectory: Trajectory, number: int) -> tuple[int, tuple[int, int]]:
    """f_a on S, POD on S, AIS: the row to ask about and its subgroup."""
    membership = problem.probabilities(trajectory)
    labels, rows = problem.labels, trajectory.rows
    behind = Penalised(
        problem.embeddings[rows],
        labels[rows],
        one_hot(trajectory.groups, problem.n_groups, problem.embeddings.dtype),
    )
    for head in trajectory.heads:
        head.fit(problem.embeddings, labels, _schedule(problem, number, len(rows)), behind)
    proxy = [int(row.argmax()) for row in membership]
    predicted = [int(m > 0) for m in trajectory.asking.margins(problem.embeddings)]
    askable = [i not in rows for i in range(len(labels))]
    scores = centred(labels.tolist(), predicted, proxy, askable, problem.n_groups)
    worst = min(scores, key=lambda cell: (scores[cell], cell))
    inside = [i for i, ok in enumerate(askable) if ok and (proxy[i], int(labels[i])) == worst]
    return farthest(problem.embeddings.numpy(), inside, rows)[0], worst


def _schedule(problem: Problem, number: int | str, own: int) -> Schedule:
    return Schedule(
        n=len(problem.labels),
        hidden=problem.hidden,
        seed=problem.seed,
        dataset=problem.dataset,
        round=number,
        epochs=problem.epochs,
        batch_size=problem.batch_size,
        own=own,
        dtype=problem.embeddings.dtype,
    )


def pretrained(problem: Problem, initial: Tensor, sizes: Sequence[int]) -> Tensor:
    """A head after its epochs of cross-entropy, where every strength starts."""
    trainer = Trainer(initial, sizes)
    trainer.fit(problem.embeddings, problem.labels, _schedule(problem, "pre-training", 0), None)
    return trainer.head.flat()
