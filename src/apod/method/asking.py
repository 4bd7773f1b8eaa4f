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
from apod.method.questions import Informativeness, effective_draws, most_informative, random_of_stratum, reweighted
from apod.method.selection import Choice

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

RANDOM_SHARE = 0.5
FIRST_RANDOM = 8
"""So many answers are random whatever the share: without any, draws say nothing about whom to ask."""
KEPT = 16
JUDGED_ROWS = 20_000
"""The gap by every draw is estimated on so many people at most."""

RANDOM_RULE = "random person of a label"
INFORMATIVE_RULE = "person whose answer is expected to tell most about the gap"


def random_turn(number: int, share: float) -> tuple[bool, int]:
    """Whether the question after so many others is a random one, and how many random ones there were before."""
    drawn = 0
    for turn in range(number + 1):
        random = turn < FIRST_RANDOM or drawn < share * (turn + 1)
        if turn < number:
            drawn += random
    return random, drawn


@dataclass(eq=False)
class Asking:
    """Chooses questions for one population by what is answered so far; nobody is asked about twice.

    Which turn is a random one depends on how many questions there were before, and on nothing else.
    """

    population: Population
    strata: IntArray  # (training,) random questions are equally shared among these
    seed: int
    random_share: float = RANDOM_SHARE
    _answered: dict[int, Floats] = field(default_factory=dict)  # row -> likelihood (G,)
    _refused: set[int] = field(default_factory=set)  # asked about in vain
    _weights: Floats | None = None  # (D,) of the draws
    _members: npt.NDArray[np.float32] | None = None  # (D, training, G), or (D, training) of two groups
    _targets: Floats | None = None  # (D, t)

    def add_answer(self, row: int, likelihood: Floats | None) -> None:
        """Take in an answer, None where it could not be given: the draws that expected it count for more."""
        if likelihood is None:
            self._refused.add(row)
            return
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
        self._refused.discard(row)
        self._weights = None

    def choose(self, count: int, out: Sequence[int], rng: np.random.Generator) -> list[Choice]:
        """The next questions; `out` are rows asked about and not answered yet."""
        askable = np.ones(self.population.training, dtype=np.bool_)
        taken = [*self._answered, *self._refused, *out]
        askable[taken] = False
        chosen: list[Choice] = []
        for number in range(len(taken), len(taken) + min(count, int(askable.sum()))):
            random, before = random_turn(number, self.random_share)
            if random:
                row, probability = random_of_stratum(self.strata, before, askable, rng)
                chosen.append(Choice(row, {"rule": RANDOM_RULE, "label": self._label(row)}, probability))
            else:
                row = self._informative(askable, [*out, *(choice.row for choice in chosen)])
                chosen.append(Choice(row, {"rule": INFORMATIVE_RULE, "label": self._label(row)}))
            askable[row] = False
        return chosen

    def _label(self, row: int) -> int:
        return int(self.population.people.labels[row])

    def _informative(self, askable: npt.NDArray[np.bool_], out: Sequence[int]) -> int:
        if not self._answered:  # whoever was asked could not be told: draws of the prior say nothing about whom to ask
            return int(np.flatnonzero(askable)[0])
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
