"""One refit: from answers to the correction that they support, and what it is expected to do.

Everything here is a function of the population, the seed and the answers alone, whatever their order and however
many refits came before: what is shown, chosen and saved comes from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from apod.data.encode import EmbeddedBlock
from apod.fairness.counts import effective_number
from apod.fairness.many_labels import counted_decisions
from apod.fairness.notions import Notion
from apod.heads.correction import (
    AnyCorrection,
    BiasScores,
    ClassCorrection,
    Correction,
    change_strengths,
    fit_bias_scores,
    fit_grid,
)
from apod.method.class_paths import class_costs, class_directions, guessed, make_moves, trace_class_paths
from apod.method.correction_choice import (
    Chosen,
    Falls,
    Limits,
    Looked,
    Paths,
    bands,
    choose,
    common_noise,
    falls,
    keep,
    look,
    samplings,
)
from apod.method.correction_costs import Costs, Judged, local_probabilities
from apod.method.gap_interval import GapEstimate, estimate_gap, part_rates, signed_differences
from apod.method.group_knowledge import PlacedKnowledge, ToldShares, told_shares
from apod.method.posterior import (
    DEFAULT_PRIOR,
    Block,
    Blocks,
    Matrix,
    People,
    Posterior,
    Prior,
    Reader,
    answers_key,
    fit_reader,
    memberships,
    ordinary_memberships,
    sample,
)
from apod.method.sampler import KEPT
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STRENGTHS = np.geomspace(0.01, 1, 20)
"""Places on a direction's path, besides 0; at 1 margins near the threshold move by 1, in the root mean square."""
KEPT_CELLS = 1 << 23
"""Columns of so many cells are remembered between refits; of more they are computed again."""
STEADINESS_ROWS = 2000  # so many people say what a draw's bias scores are relative to


@dataclass(frozen=True, eq=False)
class Population:
    """Everybody a correction is fitted and judged on: the training part, scored out of fold, then validation."""

    people: People
    eta: Floats  # (n,) calibrated P(y = 1); (n, K) of more than two labels
    cut: float  # the probability at which the model's decision changes; NaN of more than two labels
    reader: Reader
    columns: npt.NDArray[np.float32]  # (n, p + 5) what f_a reads
    training: int  # so many rows come first; only these may be asked about
    notion: Notion
    n_groups: int
    prior: Prior = DEFAULT_PRIOR
    means: Floats | None = None  # (G - 1, p + 5) of the prior, where probabilities of the groups were told
    told: ToldShares | None = None
    weights: Floats | None = None  # (n,) how many people each stands for, 1 on average; None: all alike

    def __len__(self) -> int:
        return len(self.people)

    def members(self, weights: Floats) -> Floats:
        """(n, G) everybody's P(group | x) by `Posterior.score_weights`."""
        if len(self) * self.reader.ordinary_count > KEPT_CELLS:
            return memberships(self.reader, weights, self.people.inputs)
        return ordinary_memberships(self._ordinary, weights)

    @cached_property
    def _ordinary(self) -> Floats:
        return self.reader.ordinary(self.people.inputs)

    @cached_property
    def judged(self) -> Judged:
        """Labels, decisions, weights, and how probable the labels are near the threshold."""
        labels, two = self.people.labels, self.notion.classes == 2
        likely = local_probabilities(self.eta, self.cut, labels, self.weights) if two else None
        return Judged(labels, self.people.decisions, self.weights, likely)

    def weighted(self, blocks: Iterable[Block]) -> Iterable[Block]:
        """Blocks of memberships in which everybody counts as often as they stand for people."""
        own = self.weights
        if own is None:
            return blocks
        return ((rows, members * own[rows, None, None].astype(members.dtype)) for rows, members in blocks)


def make_population(
    notion: Notion,
    people: People,
    eta: Floats,
    cut: float,
    training: int,
    n_groups: int,
    seed: int,
    prior: Prior = DEFAULT_PRIOR,
    knowledge: PlacedKnowledge | None = None,
    blocks: Sequence[EmbeddedBlock] = (),
    reading: int | None = None,
) -> Population:
    """The first `training` people, or `reading` of them, say how f_a reads; the others are read the same way.

    blocks: the columns of the inputs that are an embedding, for each.
    """
    told = None if knowledge is None else knowledge.factors
    reader = fit_reader(take(people, slice(0, reading or training)), seed, told, blocks, notion.classes)
    columns = reader.columns(people).astype(np.float32)
    means = None if knowledge is None else knowledge.means(reader.centre, reader.ordinary_count, columns.shape[1])
    shares = None if knowledge is None else told_shares(knowledge, columns, people.labels)
    return Population(people, eta, cut, reader, columns, training, notion, n_groups, prior, means, shares)


@dataclass(frozen=True, eq=False)
class Frozen:
    """A correction that further answers judge but no longer change."""

    weights: Floats  # (G - 1, p + 1) of the f_a that bias scores read
    scores: BiasScores
    direction: Floats  # (k, G), of more than two labels (k x e, G)
    place: int  # on the grid of strengths

    @property
    def strength(self) -> float:
        """How far along its direction."""
        return float(STRENGTHS[self.place])


@dataclass(frozen=True, eq=False)
class FittedCorrection:
    """What the answers so far say: a chosen correction (or none), its path, and the gaps to expect."""

    population: Population
    posterior: Posterior
    weights: Floats  # (G - 1, p + 1) of the f_a that bias scores read
    scores: BiasScores
    directions: Floats  # (A, k, G), of more than two labels (A, k x e, G)
    band: IntArray  # (A, n) where on each path a person's decision changes
    paths: Paths
    costs: Costs
    falls: Falls
    chosen: Chosen

    @property
    def correction(self) -> AnyCorrection:
        """The leading direction, applied or not."""
        return self._correction(self.scores)

    def _correction(self, scores: BiasScores) -> AnyCorrection:
        direction, notion = self.directions[self.chosen.direction], self.population.notion
        if notion.classes > 2:
            return ClassCorrection(scores, direction, counted_decisions(notion))
        return Correction(scores, direction, self.population.cut)

    def decided(self) -> IntArray:
        """(n,) decisions of the leading correction at its strength, applied or not."""
        population, strength = self.population, float(STRENGTHS[self.chosen.strength])
        own = population.people.decisions, population.eta, population.members(self.weights)
        return np.asarray(self.correction.decisions(*own, strength)[0], dtype=np.int64)

    @property
    def what(self) -> str:
        """What is to fall."""
        return "the gap"

    @property
    def verified_by(self) -> FittedCorrection:
        """Whose groups say whom a change is for: of several attributes, the one that it does most for."""
        return self

    @property
    def strength(self) -> float:
        """The strength in use; 0 where the base model is kept."""
        return float(STRENGTHS[self.chosen.strength]) if self.chosen.applied else 0.0

    def reached(self, rows: IntArray) -> IntArray:
        """(m,) of these people, the place on the path from which on the leading correction decides as at its end."""
        population, end = self.population, self.chosen.strength + 1
        members = population.members(self.weights)[rows]
        own = population.people.decisions[rows], population.eta[rows], members
        along = np.asarray(self.correction.decisions(*own, STRENGTHS[:end]))
        return np.asarray(end - (along[::-1] == along[-1]).cumprod(axis=0).sum(axis=0))

    def rates(self) -> Floats:
        """(D, k, G) rates of what is applied, by draws."""
        if not self.chosen.applied:
            return self.paths.base
        return np.asarray(self.paths.rates[self.chosen.direction, self.chosen.strength])

    def members(self, inputs: Matrix) -> Floats:
        """(n, G) P(group | x) by the f_a that bias scores read; needs no label."""
        return memberships(self.population.reader, self.weights, inputs)

    def drawn_members(self, inputs: Matrix, draw: int) -> Floats:
        """(n, G) the same by one draw of f_a, as the correction reads them."""
        reader = self.population.reader
        return memberships(reader, self.posterior.weights[draw, :, : reader.ordinary_count + 1], inputs)

    def estimates(self, part: int, seed: int) -> tuple[GapEstimate, GapEstimate]:
        """The gaps to expect, before and after, in a part of so many people drawn like the population."""
        return self._estimate(self.paths.base, part, seed), self._estimate(self.rates(), part, seed)

    def path_estimates(self, part: int, seed: int) -> list[GapEstimate]:
        """The gaps to expect of the model and along the leading direction, at 0 and each of `STRENGTHS`."""
        along = self.paths.rates[self.chosen.direction]
        return [self._estimate(rates, part, seed) for rates in (self.paths.base, *along)]

    def _estimate(self, rates: Floats, part: int, seed: int) -> GapEstimate:
        rng = generator(seed, "sampling of a part", part)
        return estimate_gap(self.population.notion, rates, self._people(part), rng)

    def signed_gaps(self, part: int, seed: int) -> Floats:
        """(S, k x (G - 1)) the model's signed gaps in a part of so many people, by draws and their sampling."""
        rng = generator(seed, "sampling of a part", part)
        return signed_differences(part_rates(self.paths.base, self._people(part), rng))

    def _people(self, part: int) -> Floats:
        """(k, G) how many people tell a part's rates from those of the draws: the part is sampled, and so are we."""
        of_part = self.paths.expected.mean(axis=0) * part / len(self.population)
        if self.population.weights is not None:  # people of unequal weight tell as much as fewer of equal weight
            of_part = of_part * effective_number(self.population.weights) / len(self.population)
        return np.asarray(1 / (1 / of_part + 1 / np.nanmean(self.paths.people, axis=0)))

    @property
    def reason(self) -> str:
        """Why this strength, in a sentence."""
        if np.isnan(self.chosen.worth):
            return "Every correction would cost more accuracy than is allowed, so the base model is kept."
        place = self.chosen.direction, self.chosen.strength
        fall, deviation = self.falls.mean[place], self.falls.deviation[place]
        expected = f"{self.what} is expected to fall by {100 * fall:.1f} points, give or take {100 * deviation:.1f}"
        if self.chosen.applied:
            lost = self.costs.accuracy[place]
            price = f"for {100 * lost:.2f} points of accuracy" if lost > 0 else "at no cost in accuracy"
            return f"Of all corrections within the limits the answers support this one most: {expected}, {price}."
        return f"The base model is kept: by the best correction within the limits {expected}, which is not enough."

    def changed(self) -> npt.NDArray[np.bool_]:
        """(n,) whose decision changes."""
        if not self.chosen.applied:
            return np.zeros(len(self.population), dtype=np.bool_)
        return np.asarray(self.band[self.chosen.direction] <= self.chosen.strength)

    def steadiness(self) -> Floats:
        """(n,) of everybody whose decision changes, the share of draws whose own scores change it too; others NaN."""
        population, p = self.population, self.population.reader.ordinary_count
        rows = np.flatnonzero(self.changed())
        steady = np.full(len(population), np.nan)
        if not len(rows):
            return steady
        sampled = np.linspace(0, len(population) - 1, min(len(population), STEADINESS_ROWS)).astype(np.int64)
        eta, decisions = population.eta, population.people.decisions
        readable = population.columns[:, :p].astype(np.float64)
        still = np.zeros(len(rows))
        for weights in self.posterior.weights[:, :, : p + 1]:
            every, own = (ordinary_memberships(readable[some], weights) for some in (sampled, rows))
            counted = None if population.weights is None else population.weights[sampled]
            scores = fit_bias_scores(population.notion, eta[sampled], every, weights=counted)
            still += self._correction(scores).changed(decisions[rows], eta[rows], own, self.strength)
        steady[rows] = still / len(self.posterior.weights)
        return steady

    def freeze(self) -> Frozen | None:
        """The correction in use, fixed; None where the base model is kept."""
        if not self.chosen.applied:
            return None
        return Frozen(self.weights, self.scores, self.directions[self.chosen.direction], self.chosen.strength)


def fit_correction(
    population: Population,
    answers: Mapping[int, Floats],
    limits: Limits,
    seed: int,
    kept: int = KEPT,
    frozen: Frozen | None = None,
) -> FittedCorrection:
    """The correction chosen after these answers: row of the population -> likelihood (G,) of what was answered.

    With `frozen` that correction is judged as it is, and applied where all answers together still support it.
    """
    rows, likelihood, posterior = sample_population(population, answers, seed, kept)
    blocks: Iterable[Block] = Blocks(posterior, population.columns, rows, likelihood)
    if len(population) * posterior.versions[0] <= KEPT_CELLS:
        blocks = list(blocks)  # they are gone through twice
    noise = generator(seed, "sampling of the judged", answers_key(rows, likelihood))
    return judge(population, posterior, blocks, limits, noise, frozen)


def sample_population(
    population: Population, answers: Mapping[int, Floats], seed: int, kept: int = KEPT, quick: bool = False
) -> tuple[IntArray, Floats, Posterior]:
    """Answered rows in order, their likelihoods (n, G), and the posterior that they leave."""
    rows = np.array(sorted(answers), dtype=np.int64)
    likelihood = np.array([answers[row] for row in rows.tolist()]).reshape(-1, population.n_groups)
    people, told = take(population.people, rows), (population.prior, population.means, population.told)
    return rows, likelihood, sample(population.reader, people, rows, likelihood, seed, kept, *told, quick=quick)


def judge(
    population: Population,
    posterior: Posterior,
    blocks: Iterable[Block],
    limits: Limits,
    rng: np.random.Generator,
    frozen: Frozen | None = None,
) -> FittedCorrection:
    """Bias scores at the posterior's mean, directions all around and finer ones around the leader, and the choice.

    The blocks are gone through twice.
    """
    notion, eta, margins = population.notion, population.eta, 2 * (population.eta - population.cut)
    weights = posterior.score_weights() if frozen is None else frozen.weights
    members = population.members(weights)
    scores = fit_bias_scores(notion, eta, members, weights=population.weights) if frozen is None else frozen.scores
    if notion.classes > 2:
        return _judge_classes(population, posterior, blocks, limits, rng, frozen, weights, members, scores)
    own = scores.of(eta, members)  # (n, k, G)
    noise = common_noise(samplings(posterior.versions[0]), own.shape[1], own.shape[2], rng)

    def judged(directions: Floats) -> Looked:
        push = directions.reshape(len(directions), -1) @ own.reshape(len(own), -1).T  # (A, n)
        band = bands(change_strengths(margins, push), STRENGTHS)
        weighted = population.weighted(blocks)
        return look(notion, population.judged, directions, band, len(STRENGTHS), posterior.versions, weighted, noise)

    if frozen is not None:
        found = judged(frozen.direction[None])
        chosen = keep(found.falls, limits, frozen.place)
    else:
        grid = fit_grid(own, margins)
        turns = grid.coarse()
        found = judged(grid.directions(turns))
        leader = found.choose(population.judged, limits).direction
        found = found.joined(judged(grid.directions(grid.around(turns, leader, STRENGTHS[1] / STRENGTHS[0]))))
        chosen = found.choose(population.judged, limits)
    return FittedCorrection(population, posterior, weights, scores, *found.parts, chosen)


def _judge_classes(
    population: Population,
    posterior: Posterior,
    blocks: Iterable[Block],
    limits: Limits,
    rng: np.random.Generator,
    frozen: Frozen | None,
    weights: Floats,
    members: Floats,
    scores: BiasScores,
) -> FittedCorrection:
    notion, eta, people = population.notion, population.eta, population.judged
    own, versions = scores.of(eta, members), posterior.versions
    if frozen is None:
        known = guessed(notion, people, versions, population.weighted(blocks))
        directions = class_directions(notion, people, eta, own, known, limits, rng)
    else:
        directions = frozen.direction[None]
    moves = make_moves(people.decisions, eta, own, directions, notion, STRENGTHS)
    paths = trace_class_paths(notion, people, moves, len(STRENGTHS), versions, population.weighted(blocks))
    lost = class_costs(people, moves, len(STRENGTHS), notion.classes)
    pairs, groups = paths.base.shape[1:]
    found = falls(notion, paths, common_noise(samplings(posterior.versions[0]), pairs, groups, rng))
    chosen = choose(found, lost, limits) if frozen is None else keep(found, limits, frozen.place)
    return FittedCorrection(population, posterior, weights, scores, directions, moves.band, paths, lost, found, chosen)


def take(people: People, rows: IntArray | slice) -> People:
    """These people."""
    return People(people.inputs[rows], people.labels[rows], people.decisions[rows], people.margins[rows])
