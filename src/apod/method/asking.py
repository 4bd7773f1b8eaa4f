"""The next question, answer after answer: random ones keep estimates honest, the others tell most about the gap.

Between two samplings of the posterior, draws are reweighted by each answer: good enough to choose a question, never
used for anything that is shown or kept. When fewer than half of the draws are effective they are sampled anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from apod.fairness.notions import member_rates
from apod.method.correction_fit import Population, sample_population
from apod.method.gap_interval import signed_differences
from apod.method.questions import Informativeness, balanced_random, effective_draws, most_informative, reweighted

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

RANDOM_SHARE = 0.5
FIRST_RANDOM = 8
"""So many answers are random whatever the share: without any, draws say nothing about whom to ask."""
KEPT = 16
JUDGED_ROWS = 20_000
"""The gap by every draw is estimated on so many people at most."""


@dataclass(frozen=True)
class Question:
    """A row to ask about, and the probability with which it was drawn; None where it was chosen for what it tells."""

    row: int
    probability: float | None


@dataclass(eq=False)
class Asking:
    """Chooses questions for one population; forgets nothing but the draws, which it can make again."""

    population: Population
    strata: IntArray  # (training,) random questions are equally shared among these
    seed: int
    random_share: float = RANDOM_SHARE
    _answered: dict[int, Floats] = field(default_factory=dict)  # row -> likelihood (G,)
    _weights: Floats | None = None  # (D,) of the draws
    _members: npt.NDArray[np.float32] | None = None  # (D, training, G), or (D, training) of two groups
    _targets: Floats | None = None  # (D, t)

    def hear(self, row: int, likelihood: Floats) -> None:
        """Take in an answer: the draws that expected it count for more."""
        if row in self._answered:  # corrected: the draws know the earlier answer
            self._weights = None
        self._answered[row] = likelihood
        if self._weights is not None and self._members is not None:
            own = self._members[:, row].astype(np.float64)
            likely = likelihood[0] * own + likelihood[1] * (1 - own) if own.ndim == 1 else own @ likelihood
            self._weights = reweighted(self._weights, likely.clip(1e-12))

    def forget(self, row: int) -> None:
        """Take an answer back."""
        self._answered.pop(row, None)
        self._weights = None

    def next(self, drawn: Sequence[int], count: int, out: Sequence[int], rng: np.random.Generator) -> list[Question]:
        """The next questions. `out` are rows asked about and not answered yet, `drawn` all drawn at random so far."""
        askable = np.ones(self.population.training, dtype=np.bool_)
        taken, random = [*self._answered, *out], list(drawn)
        askable[taken] = False
        chosen: list[Question] = []
        for _ in range(min(count, int(askable.sum()))):
            total = len(taken) + 1
            if total <= FIRST_RANDOM or len(random) < self.random_share * total:
                row, probability = balanced_random(self.strata, np.array(random, dtype=np.int64), askable, rng)
                chosen.append(Question(row, probability))
                random.append(row)
            else:
                row = self._informative(askable, [*out, *(question.row for question in chosen)])
                chosen.append(Question(row, None))
            askable[row] = False
            taken.append(row)
        return chosen

    def _informative(self, askable: npt.NDArray[np.bool_], out: Sequence[int]) -> int:
        if self._weights is None or effective_draws(self._weights) < len(self._weights) / 2:
            self._sample()
        assert self._members is not None
        assert self._targets is not None
        assert self._weights is not None
        scored = Informativeness(self._members, self._targets, self._weights)
        return most_informative(scored, askable, 1, out)[0]

    def _sample(self) -> None:
        population = self.population
        rows, likelihood, posterior = sample_population(population, self._answered, self.seed, KEPT)
        step = max(1, len(population) // JUDGED_ROWS)
        members = np.concatenate(
            [own for _, own in posterior.blocks(population.columns, rows, likelihood)]
        )  # (n, D, G)
        self._targets = gap_targets(population, members[::step], step)
        pool = np.ascontiguousarray(members[: population.training].transpose(1, 0, 2))
        self._members = pool if pool.shape[2] > 2 else np.ascontiguousarray(pool[:, :, 0])
        self._weights = np.full(len(pool), 1 / len(pool))


def gap_targets(population: Population, members: npt.NDArray[np.float32], step: int = 1) -> Floats:
    """(D, k x (G - 1)) the model's signed gaps by every draw, from every `step`-th person."""
    judged = population.judged
    rates = member_rates(
        population.notion,
        judged.labels[::step],
        judged.decisions[None, ::step],
        members.transpose(1, 0, 2).astype(np.float64),
    )
    return signed_differences(rates[:, 0, :, 0])
