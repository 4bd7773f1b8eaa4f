"""One refit: from answers to the correction that they vouch for, and what it is expected to do.

Everything here is a function of the population, the seed and the answers alone, whatever their order and however
many refits came before: what is shown, chosen and saved comes from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.fairness.notions import Notion
from apod.heads.correction import (
    BiasScores,
    Correction,
    change_strengths,
    fit_bias_scores,
    pairwise_directions,
    polar_directions,
)
from apod.method.correction_choice import Chosen, Falls, Limits, choose, common_noise, falls
from apod.method.gap_interval import GapEstimate, estimate_gap
from apod.method.gibbs import KEPT
from apod.method.judgement import Costs, Judged, Paths, bands, costs, trace_paths
from apod.method.posterior import (
    DEFAULT_PRIOR,
    Block,
    Matrix,
    People,
    Posterior,
    Prior,
    Reader,
    answers_key,
    fit_reader,
    memberships,
    sample,
)
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STRENGTHS = np.geomspace(0.02, 1.5, 20)
"""Places on a direction's path, besides 0."""
NOISE = 256


@dataclass(frozen=True, eq=False)
class Population:
    """Everybody a correction is fitted and judged on: the training part, scored out of fold, then validation."""

    people: People
    eta: Floats  # (n,) calibrated P(y = 1)
    cut: float  # the probability at which the model's decision changes
    reader: Reader
    columns: npt.NDArray[np.float32]  # (n, p + 5) what f_a reads
    training: int  # so many rows come first; only these may be asked about
    notion: Notion
    n_groups: int
    prior: Prior = DEFAULT_PRIOR

    def __len__(self) -> int:
        return len(self.people)

    @property
    def judged(self) -> Judged:
        """Labels and decisions."""
        return Judged(self.people.labels, self.people.decisions)


def make_population(
    notion: Notion,
    people: People,
    eta: Floats,
    cut: float,
    training: int,
    n_groups: int,
    seed: int,
    prior: Prior = DEFAULT_PRIOR,
) -> Population:
    """The first `training` people say how f_a reads inputs; the others are read the same way."""
    reader = fit_reader(take(people, slice(0, training)), seed)
    columns = reader.columns(people).astype(np.float32)
    return Population(people, eta, cut, reader, columns, training, notion, n_groups, prior)


@dataclass(frozen=True, eq=False)
class FittedCorrection:
    """What the answers so far say: a chosen correction (or none), its path, and the gaps to expect."""

    population: Population
    posterior: Posterior
    weights: Floats  # (G - 1, p + 1) of the f_a that bias scores read
    scores: BiasScores
    directions: Floats  # (A, k, G)
    band: IntArray  # (A, n) where on each path a person's decision changes
    paths: Paths
    costs: Costs
    falls: Falls
    chosen: Chosen

    @property
    def correction(self) -> Correction:
        """The leading direction, applied or not."""
        return Correction(self.scores, self.directions[self.chosen.direction], self.population.cut)

    @property
    def strength(self) -> float:
        """The strength in use; 0 where the model stays as it is."""
        return float(STRENGTHS[self.chosen.strength]) if self.chosen.applied else 0.0

    def rates(self) -> Floats:
        """(D, k, G) rates of what is applied, by draws."""
        if not self.chosen.applied:
            return self.paths.base
        return np.asarray(self.paths.rates[self.chosen.direction, self.chosen.strength])

    def members(self, inputs: Matrix) -> Floats:
        """(n, G) P(group | x) by the f_a that bias scores read; needs no label."""
        return memberships(self.population.reader, self.weights, inputs)

    def estimates(self, part: int, seed: int) -> tuple[GapEstimate, GapEstimate]:
        """The gaps to expect, before and after, in a part of so many people drawn like the population."""
        of_part = self.paths.expected.mean(axis=0) * part / len(self.population)
        people = 1 / (1 / of_part + 1 / np.nanmean(self.paths.people, axis=0))
        key = (seed, "sampling of a part", part)
        notion = self.population.notion
        base = estimate_gap(notion, self.paths.base, people, generator(*key))
        return base, estimate_gap(notion, self.rates(), people, generator(*key))

    def changed(self) -> npt.NDArray[np.bool_]:
        """(n,) whose decision changes."""
        if not self.chosen.applied:
            return np.zeros(len(self.population), dtype=np.bool_)
        return np.asarray(self.band[self.chosen.direction] <= self.chosen.strength)


def fit_correction(
    population: Population, answers: Mapping[int, Floats], limits: Limits, seed: int, kept: int = KEPT
) -> FittedCorrection:
    """The correction chosen after these answers: row of the population -> likelihood (G,) of what was answered."""
    rows, likelihood, posterior = sample_population(population, answers, seed, kept)
    blocks = posterior.blocks(population.columns, rows, likelihood)
    noise = generator(seed, "sampling of the judged", answers_key(rows, likelihood))
    return judge(population, posterior, blocks, limits, noise)


def sample_population(
    population: Population, answers: Mapping[int, Floats], seed: int, kept: int = KEPT
) -> tuple[IntArray, Floats, Posterior]:
    """Answered rows in order, their likelihoods (n, G), and the posterior that they leave."""
    rows = np.array(sorted(answers), dtype=np.int64)
    likelihood = np.array([answers[row] for row in rows.tolist()])
    people = take(population.people, rows)
    return rows, likelihood, sample(population.reader, people, rows, likelihood, seed, kept, population.prior)


def judge(
    population: Population, posterior: Posterior, blocks: Iterable[Block], limits: Limits, rng: np.random.Generator
) -> FittedCorrection:
    """Bias scores at the posterior's mean, every direction and strength judged by these memberships, and the choice."""
    notion, eta, weights = population.notion, population.eta, posterior.score_weights()
    members = memberships(population.reader, weights, population.people.inputs)
    scores = fit_bias_scores(notion, eta, members)
    k, groups = scores.shares.shape
    directions = polar_directions(k) if groups == 2 else pairwise_directions(k, groups)
    own = scores.of(eta, members).reshape(len(eta), k * groups)
    push = directions.reshape(len(directions), -1) @ own.T  # (A, n)
    band = bands(change_strengths(2 * (eta - population.cut), push), STRENGTHS)
    paths = trace_paths(notion, population.judged, band, len(STRENGTHS), posterior.versions, blocks)
    lost = costs(population.judged, band, len(STRENGTHS))
    count = NOISE * -(-posterior.versions[0] // NOISE)
    found = falls(notion, paths, common_noise(count, k, groups, rng))
    chosen = choose(found, lost, limits)
    return FittedCorrection(population, posterior, weights, scores, directions, band, paths, lost, found, chosen)


def take(people: People, rows: IntArray | slice) -> People:
    """These people."""
    return People(people.inputs[rows], people.labels[rows], people.decisions[rows], people.margins[rows])
