"""Whom to ask about next: random people keep estimates honest, the others tell most about the gap.

For any draws of f_a and any quantity G they imply, asking person i lowers the variance of G on average by exactly

    sum over groups a of  Cov(G, p_ia)^2 / p_ia        (two groups: Cov(G, p_i)^2 / (p_i (1 - p_i)))

because E[G | answer] is linear in the answer. One matrix product scores the whole pool. Questions that are already
out count as answered in expectation: they leave

    Cov(f, g | answer of i)  =  Cov(f, g) - sum over a of Cov(f, p_ia) Cov(g, p_ia) / p_ia

on average, so that k questions are not k copies of one.

Between two samplings of the posterior, draws are reweighted by each answer: good enough to choose a question, never
used for anything that is shown or kept. When fewer than half of the draws are effective they are sampled anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from apod.fairness.many_labels import pair_events
from apod.method.correction_fit import Population, sample_population
from apod.method.gap_interval import signed_differences
from apod.method.posterior import Posterior, answers_key
from apod.method.selection import Choice
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LEAST_PROBABILITY = 1e-3
"""Of a group, for a question to count as informative: below it, a few draws would decide what an answer tells."""


class Informativeness:
    """How much the variance of G falls by each possible question, given those already out.

    members (D, n, G) probabilities by draws; for two groups (D, n), those of either, suffice · targets (D, t) what is
    to be known · weights (D,) of the draws, summing to 1.
    """

    def __init__(self, members: npt.NDArray[np.floating], targets: Floats, weights: Floats) -> None:
        self._members = members if members.ndim == 3 else members[:, :, None]  # (D, n, a)
        self._weights = weights
        self.mean = self._product(weights[None])[0]  # (n, a)
        centred = (targets - weights @ targets) * weights[:, None]  # (D, t)
        self._covariance = np.moveaxis(self._product(centred.T), 0, 2)  # (n, a, t)
        self._past: list[tuple[Floats, Floats]] = []

    def _product(self, rows: Floats) -> Floats:
        """(r, n, a) these rows (r, D) times the members: one matrix product over the pool."""
        flat = self._members.reshape(len(self._members), -1)
        product = (rows.astype(flat.dtype) @ flat).astype(np.float64)
        return np.asarray(product.reshape(len(rows), *self._members.shape[1:]))

    @property
    def expected(self) -> int:
        """How many questions count as answered."""
        return len(self._past)

    def gains(self) -> Floats:
        """(n,) expected fall of the variance of G, summed over the targets."""
        squares = (self._covariance**2).sum(axis=2)  # (n, a)
        if squares.shape[1] == 1:
            p = self.mean[:, 0].clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
            return np.asarray(squares[:, 0] / (p * (1 - p)))
        return np.asarray((squares / self.mean.clip(LEAST_PROBABILITY)).sum(axis=1))

    def expect_answer(self, person: int) -> None:
        """Count this person's question as answered in expectation."""
        own = self._members[:, person].astype(np.float64)  # (D, a)
        mean = self.mean[person]
        centred = (own - mean) * self._weights[:, None]
        between = np.moveaxis(self._product(centred.T), 0, 2)  # (n, a, b)
        for scale, before in self._past:
            between -= np.einsum("nac,c,bc->nab", before, scale, before[person])
        p = mean.clip(LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        scale = 1 / (p * (1 - p)) if len(p) == 1 else 1 / p
        self._covariance = self._covariance - np.einsum("nab,b,bt->nat", between, scale, self._covariance[person])
        self._past.append((scale, between))


class Together:
    """How much the variances of several attributes' gaps fall by each question, which asks about all of them."""

    def __init__(self, parts: Sequence[Informativeness]) -> None:
        self._parts = parts

    @property
    def expected(self) -> int:
        """How many questions count as answered."""
        return self._parts[0].expected

    def gains(self) -> Floats:
        """(n,) the expected falls, summed over the attributes."""
        return np.asarray(sum(part.gains() for part in self._parts))

    def expect_answer(self, person: int) -> None:
        """Count this person's question as answered in expectation."""
        for part in self._parts:
            part.expect_answer(person)


def most_informative(
    informativeness: Informativeness | Together, askable: BoolArray, count: int, out: Sequence[int] = ()
) -> list[int]:
    """The next `count` people to ask about, each given those before it and those already out."""
    for person in out:
        informativeness.expect_answer(person)
    left, chosen = askable.copy(), []
    for _ in range(min(count, int(askable.sum()))):
        gains = np.where(left, informativeness.gains(), -np.inf)
        person = int(gains.argmax())
        left[person] = False
        chosen.append(person)
        if len(chosen) < count:
            informativeness.expect_answer(person)
    return chosen


def random_of_stratum(strata: IntArray, turn: int, askable: BoolArray, rng: np.random.Generator) -> tuple[int, float]:
    """A person drawn at random from the stratum whose turn it is, and the probability of that draw.

    strata (n,) labels or cells, asked about in turn; one with nobody left is passed over.
    """
    present = np.unique(strata[askable])
    people = np.flatnonzero(askable & (strata == present[turn % len(present)]))
    return int(people[rng.integers(len(people))]), 1 / len(people)


def reweighted(weights: Floats, likelihood: Floats) -> Floats:
    """(D,) weights of the draws after one more answer that has this likelihood under each."""
    new = weights * likelihood
    return np.asarray(new / new.sum())


def effective_draws(weights: Floats) -> float:
    """How many equally weighted draws tell as much."""
    return float(1 / (weights**2).sum())


RANDOM_SHARE = 0.5
FIRST_RANDOM = 8
"""So many answers are random whatever the share: without any, draws say nothing about whom to ask."""
KEPT, QUICK_KEPT = 16, 8
MOST_EXPECTED = 48
"""So many questions that are out, or chosen in one go, count as answered in expectation; each costs a sweep."""
JUDGED_ROWS = 20_000
"""The gap by every draw is estimated on so many people at most."""
CANDIDATES = 100_000
"""Of more people so many are drawn at random whenever the posterior is sampled; the question is the best of these."""

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


@dataclass(frozen=True, eq=False)
class Scored:
    """Candidates for a question and how much their answers are expected to tell."""

    rows: IntArray  # (c,)
    informativeness: Informativeness | Together

    def best(self, askable: npt.NDArray[np.bool_]) -> int:
        """The candidate who tells most among those who may be asked about."""
        return int(self.rows[most_informative(self.informativeness, askable[self.rows], 1)[0]])

    def expect(self, row: int) -> None:
        """Count this row's question as answered in expectation, where it is a candidate."""
        place = np.flatnonzero(self.rows == row)
        if len(place) and self.informativeness.expected < MOST_EXPECTED:
            self.informativeness.expect_answer(int(place[0]))


@dataclass(eq=False)
class Asking:
    """Chooses questions for one population by what is answered so far; nobody is asked about twice.

    Which turn is a random one depends on how many questions there were before, and on nothing else; before the first
    answer all are.
    """

    population: Population
    strata: IntArray  # (training,) random questions are equally shared among these
    seed: int
    random_share: float = RANDOM_SHARE
    handed_in: int = 0  # so many answers are to no question
    alone: bool = True  # the only attribute
    _answered: dict[int, Floats] = field(default_factory=dict)  # row -> likelihood (G,)
    _refused: set[int] = field(default_factory=set)  # asked about in vain
    _weights: Floats | None = None  # (D,) of the draws
    _posterior: Posterior | None = None
    _candidates: IntArray | None = None  # (c,) rows, ascending
    _members: npt.NDArray[np.float32] | None = None  # (D, c, G), or (D, c) of two groups
    _targets: Floats | None = None  # (D, t)

    def add_answer(self, row: int, likelihood: Floats | None) -> None:
        """Take in an answer, None where it could not be given: the draws that expected it count for more."""
        if likelihood is None:
            self._refused.add(row)
            return
        if row in self._answered:  # corrected: the draws know the earlier answer
            self._weights = None
        self._answered[row] = likelihood
        if self._weights is not None and self._posterior is not None:
            own = self._by_draw(self._posterior, np.array([row]))[:, 0].astype(np.float64)
            likely = likelihood[0] * own + likelihood[1] * (1 - own) if own.ndim == 1 else own @ likelihood
            self._weights = reweighted(self._weights, likely.clip(1e-12))

    def forget(self, row: int) -> None:
        """Take an answer back."""
        self._answered.pop(row, None)
        self._refused.discard(row)
        self._weights = None

    def choose(
        self, count: int, out: Sequence[int], rng: np.random.Generator, barred: Sequence[int] = ()
    ) -> list[Choice]:
        """The next questions; `out` are rows asked about and not answered yet, `barred` those never to be asked."""
        askable = np.ones(self.population.training, dtype=np.bool_)
        taken = [*self._taken(), *out]
        askable[[*taken, *barred]] = False
        chosen: list[Choice] = []
        scored: Scored | None = None
        asked = len(taken) - self.handed_in
        for number in range(asked, asked + min(count, int(askable.sum()))):
            random, before = random_turn(number, self.random_share) if self._told() else (True, number)
            if random:
                row, probability = random_of_stratum(self.strata, before, askable, rng)
                chosen.append(Choice(row, {"rule": RANDOM_RULE, "label": self._label(row)}, probability))
            else:
                if scored is None or not askable[scored.rows].any():
                    scored = self._scored(askable, [*out, *(choice.row for choice in chosen)])
                row = scored.best(askable)
                chosen.append(Choice(row, {"rule": INFORMATIVE_RULE, "label": self._label(row)}))
            askable[row] = False
            if scored is not None:
                scored.expect(row)
        return chosen

    def _taken(self) -> list[int]:
        """Whom nobody is asked about again."""
        return [*self._answered, *self._refused]

    def _told(self) -> bool:
        """Whether anybody's group is known."""
        return bool(self._answered)

    def _label(self, row: int) -> int:
        return int(self.population.people.labels[row])

    def _scored(self, askable: npt.NDArray[np.bool_], out: Sequence[int]) -> Scored:
        rows, informativeness = self.informative(askable, out)
        scored = Scored(rows, informativeness)
        for row in out[-MOST_EXPECTED:]:
            scored.expect(row)
        return scored

    def informative(self, askable: npt.NDArray[np.bool_], out: Sequence[int]) -> tuple[IntArray, Informativeness]:
        """Candidates for a question, and how much their answers are expected to tell of the gap."""
        if self._weights is None or effective_draws(self._weights) < len(self._weights) / 2:
            self._sample()
        assert self._members is not None
        assert self._targets is not None
        assert self._weights is not None
        assert self._candidates is not None
        assert self._posterior is not None
        rows, members = self._candidates, self._members
        added = np.setdiff1d(np.array(out[-MOST_EXPECTED:], dtype=np.int64), rows)
        if not askable[rows].any():
            added = np.union1d(added, np.flatnonzero(askable)[:CANDIDATES])
        if len(added):
            rows = np.concatenate([rows, added])
            members = np.concatenate([members, self._by_draw(self._posterior, added)], axis=1)
        return rows, Informativeness(members, self._targets, self._weights)

    def _sample(self) -> None:
        population = self.population
        rows, likelihood, posterior = sample_population(
            population, self._answered, self.seed, KEPT if self.alone else QUICK_KEPT, quick=not self.alone
        )
        self._posterior = posterior
        self._candidates = np.arange(population.training)
        if population.training > CANDIDATES:
            key = answers_key(rows, likelihood) if self.alone else "several attributes"  # which have them in common
            rng = generator(self.seed, "candidates for a question", key)
            self._candidates = np.sort(rng.choice(population.training, CANDIDATES, replace=False))
        self._members = self._by_draw(posterior, self._candidates)
        step = max(1, len(population) // JUDGED_ROWS)
        judged = np.arange(0, len(population), step)
        members = self._by_draw(posterior, judged)
        certain = (likelihood > 0).sum(axis=1) == 1
        for row, own in zip(rows[certain], likelihood[certain] > 0, strict=True):  # answers overwrite guesses
            if row % step == 0:
                members[:, row // step] = own[0] if members.ndim == 2 else own
        self._targets = gap_targets(population, members, judged)
        self._weights = np.full(len(members), 1 / len(members))

    def _by_draw(self, posterior: Posterior, rows: IntArray) -> npt.NDArray[np.float32]:
        """(D, n, G) memberships of these rows, of two groups (D, n) those of the first."""
        columns, groups = self.population.columns[rows], posterior.versions[1]
        if groups == 2:
            return np.asarray(expit(posterior.weights[:, 0].astype(np.float32) @ columns.T))
        return np.ascontiguousarray(posterior.members(columns).transpose(1, 0, 2))


@dataclass(eq=False, kw_only=True)
class AskingAttributes(Asking):
    """The same for several attributes: a question asks about all of them, and tells something of each gap.

    What is inherited is the first attribute's; `handed_in` counts people of whom all attributes were handed in.
    """

    further: tuple[Asking, ...]
    _asked: set[int] = field(default_factory=set)

    def add_answers(self, row: int, likelihoods: Sequence[Floats | None], asked: bool = True) -> None:
        """Take in what was answered about a person in every attribute, None where that could not be told."""
        for part, likelihood in zip((self, *self.further), likelihoods, strict=True):
            if likelihood is not None:
                part.add_answer(row, likelihood)
        if asked:
            self._asked.add(row)

    def forget(self, row: int) -> None:
        """Take an answer back, in all attributes."""
        super().forget(row)
        for part in self.further:
            part.forget(row)
        self._asked.discard(row)

    def _taken(self) -> list[int]:
        return sorted(self._asked)

    def _told(self) -> bool:
        return any(part._answered for part in (self, *self.further))

    def _scored(self, askable: npt.NDArray[np.bool_], out: Sequence[int]) -> Scored:
        found = [part.informative(askable, out) for part in (self, *self.further)]
        scored = Scored(found[0][0], Together([informativeness for _, informativeness in found]))
        for row in out[-MOST_EXPECTED:]:
            scored.expect(row)
        return scored


def gap_targets(population: Population, members: npt.NDArray[np.float32], rows: IntArray | slice) -> Floats:
    """(D, k x (G - 1)) the model's signed gaps by every draw, from these people's members (D, n, G) or (D, n)."""
    labels, decisions = population.people.labels[rows], population.people.decisions[rows]
    if population.notion.classes > 2:
        cells, happened = (own.astype(np.float32) for own in pair_events(population.notion, labels, decisions))
    else:
        cells = np.asarray(population.notion.cells(labels)).astype(np.float32)  # (n, k)
        happened = cells * decisions[:, None].astype(np.float32)
    both = np.concatenate([cells, happened], axis=1)
    groups = [members] if members.ndim == 2 else [members[:, :, group] for group in range(members.shape[2])]
    sums = [(own @ both).astype(np.float64) for own in groups]  # (D, 2k) each
    if members.ndim == 2:
        sums.append(both.sum(axis=0, dtype=np.float64) - sums[0])
    k = cells.shape[1]
    rates = np.stack([own[:, k:] / own[:, :k].clip(1e-9) for own in sums], axis=2)  # (D, k, G)
    return signed_differences(rates)
