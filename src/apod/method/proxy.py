"""f_a: who probably belongs to which group, learnt from the answers so far.

    theta_a* = argmin 1/|S| sum over S of l(h_i, a_i; theta_a)

Each trajectory (its own S) has its own f_a. A proxy sees answered groups only, never a recorded attribute.

What a few answers leave open about a logistic f_a is said by Laplace's approximation:

    w | answers ~ N(w*, H^-1),   H = sum_i t_i x_i x_i' (x) (diag(p_i) - p_i p_i') + I / C

w* is the fitted weights, t_i an answer's trust, p_i its fitted probabilities, C the inverse of the L2 penalty. With two
groups one weight vector says all; with more, every group has one. An answer adds to H what its person's x and p say,
whatever the answer is: so what more answers would leave open is known before they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from apod.data.blocks import is_large, moments
from apod.heads.bank import HeadBank, initial_parameters
from apod.method.algorithm1 import Answers
from apod.method.checks import check_posterior_size
from apod.method.penalty import cross_entropy_slope
from apod.method.pool import stack_answers
from apod.method.selection import Matrix
from apod.method.settings import ReadsName
from apod.processes import one_thread
from apod.randomness import generator

FloatArray = npt.NDArray[np.float64]
State = dict[str, FloatArray]

INTERCEPT_PRECISION = 0.01  # hardly any prior on how large the groups are
DRAWS = 64

LIKELY_ROWS = 1024
"""People of the pool who stand for those to be asked next, where an answer's worth is looked ahead at."""

MOST_WEIGHTS = 1024
"""Weights f_a may have to read the inputs: its posterior grows with their square, and 30 answers cannot tell more."""

MOST_CELLS = 1 << 26
"""Rows x columns up to which it does: they are held in memory, in double precision while f_a looks at them."""


class Proxy(Protocol):
    """f_a for T trajectories. `seen` (N, d) is what it reads of people: their embeddings or encoded columns.

    Invariants: `probabilities` rows sum to one; the result depends on what is seen, the answers fitted so far and
    the seed alone; a group nobody has answered yet may get any probability but never an error.
    """

    def fit(self, seen: Tensor, trajectories: Sequence[Answers]) -> None:
        """Learn from the answers of every trajectory; may continue from the last fit."""
        ...

    def probabilities(self, seen: Tensor) -> Tensor:
        """(T, N, G) membership probabilities."""
        ...

    def state(self) -> State:
        """What a checkpoint needs."""
        ...

    def restore(self, state: State) -> None:
        """Take over a saved state."""
        ...


class PerceptronProxy:
    """The paper's f_a: one linear layer, Adam, 10 epochs per round, continued from round to round.

    The first fit does the pre-training epochs besides. S is smaller than a mini-batch, so an epoch is one step.
    """

    def __init__(
        self,
        trajectories: int,
        width: int,
        n_groups: int,
        seed: int,
        dataset: str,
        dtype: torch.dtype = torch.float32,
        epochs: int = 10,
    ) -> None:
        initial = initial_parameters((width, n_groups), generator(seed, "proxy", dataset))
        self.bank = HeadBank.replicate(initial, trajectories, (width, n_groups), dtype)
        self.epochs, self.n_groups = epochs, n_groups

    def fit(self, seen: Tensor, trajectories: Sequence[Answers]) -> None:
        """10 more epochs on S (20 the first time); S of more than a mini-batch gets a step per 256 rows."""
        stacked = stack_answers(trajectories, self.n_groups, seen.dtype)
        own = seen[stacked.rows]  # (T, S, M)
        epochs = self.epochs * (2 if self.bank.adam.steps == 0 else 1)
        trust = stacked.membership.sum(dim=2)  # (T, S)

        def slope(logits: Tensor) -> Tensor:
            return cross_entropy_slope(logits, stacked.targets, trust)

        with one_thread():
            for _ in range(epochs * -(-own.shape[1] // 256)):
                self.bank.step(None, own, [], slope, scale=1.0)

    def probabilities(self, seen: Tensor) -> Tensor:
        """Softmax of the linear layer."""
        if self.n_groups == 2:  # the same, ten times as fast
            margin = self.bank.margins(seen)
            return torch.stack([(-margin).sigmoid(), margin.sigmoid()], dim=2)
        return self.bank.logits(seen).softmax(dim=2)

    def state(self) -> State:
        """Weights and Adam's memory."""
        return self.bank.state()

    def restore(self, state: State) -> None:
        """Resume from a checkpoint."""
        self.bank.restore(state)


class LogisticProxy:
    """The sturdier f_a: logistic regression with strong L2 on standardised columns, fitted to convergence."""

    def __init__(
        self,
        trajectories: int,
        width: int,
        n_groups: int,
        seed: int,
        dataset: str,
        dtype: torch.dtype = torch.float32,  # fitted in double precision whatever it reads
        regularisation: float = 0.01,
    ) -> None:
        self.n_groups, self.regularisation = n_groups, regularisation
        self._weights = np.zeros((trajectories, width + 1, n_groups))
        self._centre, self._scale = np.zeros(width), np.ones(width)

    def fit(self, seen: Tensor, trajectories: Sequence[Answers]) -> None:
        """Fit each trajectory's answers anew; with one group seen so far, its frequency is all there is."""
        self._centre, spread = _moments(seen)
        self._scale = np.where(spread > 1e-9, spread, 1.0)
        for number, answers in enumerate(trajectories):
            rows, groups = answers.known()
            inputs = (seen[torch.from_numpy(rows)].double().numpy() - self._centre) / self._scale
            self._weights[number] = self._fit_one(inputs, groups, answers.trust())

    def _fit_one(self, inputs: FloatArray, groups: npt.NDArray[np.int64], trust: FloatArray) -> FloatArray:
        from sklearn.linear_model import LogisticRegression

        counts = np.bincount(groups, minlength=self.n_groups)
        weights = np.zeros((inputs.shape[1] + 1, self.n_groups))
        if (counts > 0).sum() < 2:
            weights[-1] = np.log(counts + 1.0)
            return weights
        model = LogisticRegression(C=self.regularisation, max_iter=1000).fit(inputs, groups, trust)
        absent = counts == 0
        if len(model.classes_) == 2:  # sklearn keeps one row of coefficients for two classes
            weights[:-1, model.classes_[1]], weights[-1, model.classes_[1]] = (
                model.coef_[0],
                model.intercept_[0],
            )
        else:
            weights[:-1, model.classes_], weights[-1, model.classes_] = model.coef_.T, model.intercept_
        weights[-1, absent] = weights[-1, ~absent].min() - np.log(len(groups) + 1.0)
        return weights

    def probabilities(self, seen: Tensor) -> Tensor:
        """Softmax of the fitted linear scores."""
        inputs = (seen.double() - torch.from_numpy(self._centre)) / torch.from_numpy(self._scale)
        weights = torch.from_numpy(self._weights)
        scores = inputs.expand(len(weights), -1, -1) @ weights[:, :-1] + weights[:, -1:]  # (T, N, G)
        return scores.softmax(dim=2).to(seen.dtype)

    def state(self) -> State:
        """Weights and standardisation."""
        return {"weights": self._weights.copy(), "centre": self._centre, "scale": self._scale}

    def restore(self, state: State) -> None:
        """Resume from a checkpoint."""
        self._weights, self._centre, self._scale = state["weights"].copy(), state["centre"], state["scale"]


def _moments(seen: Tensor) -> tuple[FloatArray, FloatArray]:
    """(d,) mean and standard deviation of the columns; of a large pool two sweeps, the first time only."""
    if not is_large(len(seen)):
        pool = seen.double().numpy()
        return pool.mean(axis=0), pool.std(axis=0)
    if seen not in _LARGE_MOMENTS:
        _LARGE_MOMENTS[seen] = moments(seen.numpy())
    found: tuple[FloatArray, FloatArray] = _LARGE_MOMENTS[seen]
    return found


_LARGE_MOMENTS = WeakTensorKeyDictionary()  # by identity: the same pool is fitted to after every answer


class LaplaceProxy(LogisticProxy):
    """Logistic f_a with a posterior: what the answers leave open can be drawn, and shows in every estimate.

    The penalty of the fit is scaled by the width, so that it means the same for few and many columns.
    """

    covers = False
    """Whether 95 % intervals from `draws` contain the truth as often as they say. While they do not, they may choose
    and stop, but are shown to nobody (`apod.method.outlook.WITHHELD`)."""

    def __init__(
        self,
        trajectories: int,
        width: int,
        n_groups: int,
        seed: int,
        dataset: str,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_posterior_size(width, n_groups)
        super().__init__(trajectories, width, n_groups, seed, dataset, dtype, regularisation=3 / width)
        self._key = (seed, "posterior", dataset)
        size = (width + 1) * len(free_groups(n_groups))
        self._precision = np.stack([np.eye(size)] * trajectories)
        self._next: FloatArray | None = None  # what `next_information` found since the last fit

    def fit(self, seen: Tensor, trajectories: Sequence[Answers]) -> None:
        """The fitted weights of each trajectory, and the precision of their posterior."""
        super().fit(seen, trajectories)
        self._next = None
        for number, answers in enumerate(trajectories):
            rows, _ = answers.known()
            answered = self._seen_by(number, seen[torch.from_numpy(rows)])
            self._precision[number] = precision_matrix(*answered, answers.trust(), self.regularisation)

    def draws(self, seen: Tensor, to_come: FloatArray | float = 0.0) -> Tensor:
        """(draws, T, N, G) membership probabilities by weights drawn from the posterior; the same noise every time.

        `to_come` is the `information` of further answers: the posterior is then as narrow as these will make it, around
        the weights as they are.
        """
        inputs = (seen.double().numpy() - self._centre) / self._scale
        drawn = np.stack(
            [
                weight_draws(weights, certain, generator(*self._key))
                for weights, certain in zip(self._weights, self._precision + to_come, strict=True)
            ],
            axis=1,
        )  # (draws, T, M + 1, G)
        against = drawn[..., 1:] - drawn[..., :1]  # scores count against those of the first group
        flat = np.moveaxis(against, 2, 0).reshape(drawn.shape[2], -1)  # one product for all draws and trajectories
        shape = (*drawn.shape[:2], self.n_groups - 1, len(inputs))
        scores = torch.from_numpy((inputs @ flat[:-1] + flat[-1]).T.reshape(shape))
        scores = scores.transpose(2, 3).to(seen.dtype)  # (draws, T, N, G - 1)
        if self.n_groups == 2:
            return torch.cat([(-scores).sigmoid(), scores.sigmoid()], dim=3)  # faster than a softmax
        return torch.cat([torch.zeros_like(scores[..., :1]), scores], dim=3).softmax(dim=3)

    def information(self, people: Tensor) -> FloatArray:
        """(T, D, D) what an answer about one of these people, (n, M), adds to the precision, on average."""
        share = np.full(len(people), 1 / len(people))
        return np.stack([curvature(*self._seen_by(number, people), share) for number in range(len(self._weights))])

    def next_information(self, seen: Tensor) -> FloatArray:
        """(T, D, D) what the next answer adds, on average over people of the pool, evenly spaced; once per fit."""
        if self._next is None:
            self._next = self.information(seen[:: -(-len(seen) // LIKELY_ROWS)])
        return self._next

    def _seen_by(self, number: int, people: Tensor) -> tuple[FloatArray, FloatArray]:
        """Inputs with a one at the end, (n, M + 1), and fitted probabilities, (n, G)."""
        inputs = (people.double().numpy() - self._centre) / self._scale
        fitted = self.probabilities(people)[number].double().numpy()
        return np.concatenate([inputs, np.ones((len(people), 1))], axis=1), fitted

    def state(self) -> State:
        """Weights, standardisation and the posterior's precision."""
        return {**super().state(), "precision": self._precision.copy()}

    def restore(self, state: State) -> None:
        """Resume from a checkpoint."""
        super().restore(state)
        self._precision, self._next = state["precision"].copy(), None


PROXIES: dict[str, Callable[[int, int, int, int, str, torch.dtype], Proxy]] = {
    "perceptron": PerceptronProxy,
    "logistic": LogisticProxy,
    "laplace": LaplaceProxy,
}
"""Kinds of f_a, each made from (trajectories, width, n_groups, seed, dataset, dtype of what it reads)."""


def inputs_for(reads: ReadsName, encoded: Matrix, n_groups: int, most_cells: int = MOST_CELLS) -> Matrix | None:
    """The encoded rows where f_a is to read them; None where it reads the embeddings."""
    weights = (encoded.shape[1] + 1) * len(free_groups(n_groups))
    fits = weights <= MOST_WEIGHTS and encoded.size <= most_cells
    return encoded if reads == "inputs" and fits else None


def precision_matrix(inputs: FloatArray, probabilities: FloatArray, trust: FloatArray, C: float) -> FloatArray:
    """H, (D, D) with D = (M + 1) x free groups: inputs (S, M + 1) end in a one, probabilities (S, G), trust (S,)."""
    prior = np.full(inputs.shape[1], 1 / C)
    prior[-1] = INTERCEPT_PRECISION
    free = len(free_groups(probabilities.shape[1]))
    return curvature(inputs, probabilities, trust) + np.diag(np.repeat(prior, free))


def curvature(inputs: FloatArray, probabilities: FloatArray, trust: FloatArray) -> FloatArray:
    """(D, D) what answers about these people add to H."""
    p = probabilities[:, free_groups(probabilities.shape[1])]  # (S, J)
    own = -p[:, :, None] * p[:, None, :]
    own[:, np.arange(p.shape[1]), np.arange(p.shape[1])] += p
    people, width, free = len(inputs), inputs.shape[1], p.shape[1]
    weighed = (trust[:, None] * inputs)[:, :, None, None] * own[:, None]  # (S, M + 1, J, J)
    summed = (weighed.reshape(people, width * free**2).T @ inputs).reshape(width, free, free, width)
    return np.asarray(summed.transpose(0, 1, 3, 2).reshape(width * free, width * free))


def weight_draws(
    weights: FloatArray, precision: FloatArray, rng: np.random.Generator, count: int = DRAWS
) -> FloatArray:
    """(count, M + 1, G) draws from the posterior around the fitted weights (M + 1, G)."""
    free = free_groups(weights.shape[1])
    factor = np.linalg.cholesky(precision)  # H = L L', so L'^-1 times white noise has covariance H^-1
    noise = np.linalg.solve(factor.T, rng.standard_normal((len(precision), count)))
    drawn = np.repeat(weights[None], count, axis=0)
    drawn[:, :, free] += noise.T.reshape(count, weights.shape[0], len(free))
    return drawn


def free_groups(n_groups: int) -> list[int]:
    """The groups with weights of their own: of two, the second alone."""
    return [1] if n_groups == 2 else list(range(n_groups))
