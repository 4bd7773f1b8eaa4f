"""One refit for several attributes: the correction that lowers the sum of their gaps, none of them expected to rise.

Every attribute has its own f_a, draws and bias scores (`correction_fit`). A direction is a vector over the bias scores
of all of them, put side by side: p and t of `heads.correction` simply have more columns. Candidates are each
attribute's best directions alone, and sums of the best of each, at several ratios. They are judged by

    worth = E[sum of falls] - caution x sd[sum of falls]

over common draws, among those that are affordable and that no attribute's gap is expected to rise by. With
intersections these count as one more attribute (`method.joint`). Groups that hardly anybody belongs to are left out of
an attribute's gap, as they are when it is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from apod.fairness.notions import Notion
from apod.heads.correction import (
    ANGLES,
    BiasScores,
    Correction,
    change_strengths,
    fit_bias_scores,
    fit_grid,
    push_lengths,
)
from apod.method.correction_choice import (
    Falls,
    Limits,
    Paths,
    affordable,
    bands,
    choose,
    common_noise,
    compared_groups,
    keep,
    keeps_selection,
    restricted,
    sampled_falls,
    summed_up,
    trace_paths,
)
from apod.method.correction_costs import costs
from apod.method.correction_fit import STRENGTHS, FittedCorrection, Frozen, Population, sample_population
from apod.method.gap_interval import GapEstimate, estimate_gap
from apod.method.joint import JointPosterior, Pair, Told, crossed_members, fit_joint
from apod.method.posterior import Block, Matrix, Posterior, answers_key
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

KEPT = 12
"""Draws of each chain: fewer than for one attribute, which several share the time of."""
NOISE = 96
SCREENED_DRAWS, SCREENED_NOISE = 12, 48
"""By so many an attribute's own directions are compared, before the best are judged by all."""
SCREENED_ANGLES = 8
ALONE, TOGETHER = (4, 3), (3, 2)
"""How many of each one's best directions are candidates alone and in sums: of two, and of more than two."""
RATIOS = (0.4, 1.0, 2.5)
"""Of two in a sum, each at its own best strength; more are summed as they are."""
STEADINESS_ROWS = 2000


@dataclass(frozen=True, eq=False)
class FittedAttribute(FittedCorrection):
    """What the common correction does for one attribute, or for the intersections."""

    compared: IntArray  # groups that count in the gap

    def _estimate(self, rates: Floats, part: int, seed: int) -> GapEstimate:
        rng, own = generator(seed, "sampling of a part", part), self.compared
        return estimate_gap(self.population.notion, rates[..., own], self._people(part)[:, own], rng)


@dataclass(frozen=True, eq=False)
class FittedAttributes(FittedCorrection):
    """A correction chosen for several attributes; what it says of groups and gaps by itself is of the first.

    `falls` are those of the sum of the gaps.
    """

    parts: tuple[FittedAttribute, ...]  # one per attribute, the first included
    crossed: FittedAttribute | None  # intersections, where they count
    associations: Mapping[Pair, Floats]  # (G_i, G_j) what goes with what, where intersections count

    @property
    def judged(self) -> tuple[FittedAttribute, ...]:
        """All that the correction is chosen for."""
        return self.parts if self.crossed is None else (*self.parts, self.crossed)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many groups every attribute has."""
        return tuple(part.population.n_groups for part in self.parts)

    @cached_property
    def correction(self) -> Correction:
        """The leading direction over the bias scores of all attributes, applied or not."""
        scores = _side_by_side([part.scores for part in self.judged])
        own = [part.directions[self.chosen.direction] for part in self.judged]
        return Correction(scores, np.concatenate(own, axis=1), self.population.cut)

    @property
    def stacked_weights(self) -> Floats:
        """(sum of G - 1, p + 1) the f_a of every attribute that bias scores read, one below the other."""
        return np.concatenate([part.weights for part in self.parts])

    @property
    def leading_place(self) -> int:
        """Which attribute's gap is expected to fall most."""
        at = self.chosen.direction, self.chosen.strength
        return int(np.argmax([np.nan_to_num(part.falls.mean[at], nan=-np.inf) for part in self.parts]))

    @property
    def what(self) -> str:
        """What is to fall."""
        return "the sum of the gaps"

    @property
    def verified_by(self) -> FittedCorrection:
        """The attribute whose gap is expected to fall most."""
        return self.parts[self.leading_place]

    def freeze(self) -> Frozen | None:
        """The correction in use, fixed; None where the base model is kept."""
        if not self.chosen.applied:
            return None
        correction = self.correction
        return FrozenAttributes(
            self.stacked_weights, correction.scores, correction.direction, self.chosen.strength, self.associations
        )

    def steadiness(self) -> Floats:
        """(n,) of everybody whose decision changes, the share of draws whose own scores change it too; others NaN."""
        population, rows = self.population, np.flatnonzero(self.changed())
        steady = np.full(len(population), np.nan)
        if not len(rows):
            return steady
        sampled = np.linspace(0, len(population) - 1, min(len(population), STEADINESS_ROWS)).astype(np.int64)
        readable = population.columns[:, : population.reader.ordinary_count + 1].astype(np.float64)
        eta, still = population.eta, np.zeros(len(rows))
        draws = len(self.posterior.weights)
        for draw in range(draws):
            every, own = (self._by_draw(readable[some], draw) for some in (sampled, rows))
            scores = [fit_bias_scores(population.notion, eta[sampled], one) for one in every]
            correction = Correction(_side_by_side(scores), self.correction.direction, population.cut)
            still += correction.changes_at(eta[rows], np.concatenate(own, axis=1)) <= self.strength
        steady[rows] = still / draws
        return steady

    def drawn_members(self, inputs: Matrix, draw: int) -> Floats:
        """(n, all groups) side by side, by one draw of every f_a."""
        columns = self.population.reader.ordinary(inputs)
        return np.concatenate(self._by_draw(np.column_stack([columns, np.ones(len(columns))]), draw), axis=1)

    def _by_draw(self, columns: Floats, draw: int) -> list[Floats]:
        """(n, G) of everything that is judged, by one draw of all f_a of x alone."""
        width = columns.shape[1]
        found = [_softmax(columns @ part.posterior.weights[draw, :, :width].T) for part in self.parts]
        return found if self.crossed is None else [*found, crossed_members(found, self.associations)]


@dataclass(frozen=True, eq=False)
class FrozenAttributes(Frozen):
    """A correction for several attributes that further answers no longer change: weights are stacked, scores and
    direction side by side."""

    associations: Mapping[Pair, Floats]


def side_by_side(
    weights: Sequence[Floats], population: Population, associations: Mapping[Pair, Floats] | None
) -> list[Floats]:
    """(n, G) everybody's P(group | x) in every attribute and, with associations, in their intersections."""
    found = [population.members(own) for own in weights]
    return found if associations is None else [*found, crossed_members(found, associations)]


def split_weights(stacked: Floats, sizes: Sequence[int]) -> list[Floats]:
    """(G - 1, p + 1) each, from weights that are stacked."""
    return np.split(stacked, np.cumsum([size - 1 for size in sizes])[:-1])


@dataclass(frozen=True, eq=False)
class _Objective:
    """What the choice looks at: an attribute or the intersections, with its draws and what answers say."""

    population: Population
    posterior: Posterior
    told: tuple[Told, ...]  # of this attribute alone, or of all for the intersections
    members: Floats  # (n, G) as bias scores read them
    scores: BiasScores

    def blocks(self, every: int = 1) -> Iterable[Block]:
        """Everybody's memberships, by every so many-th draw."""
        posterior, columns = _thinned(self.posterior, every), self.population.columns
        if isinstance(posterior, JointPosterior):
            return posterior.crossed_blocks(columns, self.told)
        return posterior.blocks(columns, *self.told[0])

    def versions(self, every: int = 1) -> tuple[int, int]:
        """Draws and groups."""
        draws, groups = self.posterior.versions
        return len(range(0, draws, every)), groups

    def push(self, directions: Floats) -> Floats:
        """(A, n) how far directions (A, k, G) lower everybody's margin."""
        own = self.scores.of(self.population.eta, self.members)
        return np.asarray(directions.reshape(len(directions), -1) @ own.reshape(len(own), -1).T)


def fit_attributes(
    populations: Sequence[Population],
    answers: Sequence[Mapping[int, Floats]],
    limits: Limits,
    seed: int,
    *,
    intersections: bool = False,
    kept: int = KEPT,
    frozen: FrozenAttributes | None = None,
) -> FittedAttributes:
    """The correction chosen after these answers: per attribute, row of the population -> likelihood (G,).

    The populations are the same people; only the number of groups differs. With `frozen` that correction is judged as
    it is, and applied where all answers together still support it.
    """
    objectives, joint = _objectives(populations, answers, seed, intersections, kept, frozen)
    told = [objective.told[0] for objective in objectives[: len(populations)]]
    key = "".join(answers_key(*own) for own in told)
    rng = generator(seed, "sampling of the judged", "several attributes", key)
    population, notion = populations[0], populations[0].notion
    directions = _candidates(objectives, limits, rng) if frozen is None else frozen.direction[None]
    sizes = np.cumsum([objective.members.shape[1] for objective in objectives])[:-1]
    own = np.split(directions, sizes, axis=2)  # (C, k, G) each
    push = np.asarray(sum(objective.push(part) for objective, part in zip(objectives, own, strict=True)))
    margins = 2 * (population.eta - population.cut)
    if frozen is None:  # strengths count as they do with one attribute
        lengths = push_lengths(push, margins)
        push, own = push / lengths[:, None], [part / lengths[:, None, None] for part in own]
    band = bands(change_strengths(margins, push), STRENGTHS)
    judged, count = population.judged, len(STRENGTHS)
    paths = [trace_paths(notion, judged, band, count, one.versions(), one.blocks()) for one in objectives]
    compared = [compared_groups(one) for one in paths]
    total, each = summed_falls(notion, paths, compared, len(populations), rng)
    lost = costs(judged, band, count)
    harmless = np.all([one.mean >= 0 for one in each], axis=0)
    same = keeps_selection(judged, band, count, limits)
    harmless = harmless if same is None else harmless & same
    chosen = choose(total, lost, limits, harmless) if frozen is None else keep(total, limits, frozen.place)
    weights = [objective.posterior.score_weights() for objective in objectives[: len(populations)]]
    if frozen is not None:
        weights = split_weights(frozen.weights, [one.n_groups for one in populations])
    weights += [np.empty((0, weights[0].shape[1]))] * (len(objectives) - len(weights))
    parts = [
        FittedAttribute(
            one.population, one.posterior, weights[at], one.scores, own[at], band, paths[at], lost, each[at], chosen,
            compared[at],
        )
        for at, one in enumerate(objectives)
    ]  # fmt: skip
    first, several = parts[0], len(populations)
    associations = {} if joint is None else joint
    return FittedAttributes(
        first.population, first.posterior, first.weights, first.scores, first.directions, band, first.paths, lost,
        total, chosen, tuple(parts[:several]), parts[several] if intersections else None, associations,
    )  # fmt: skip


def _objectives(
    populations: Sequence[Population],
    answers: Sequence[Mapping[int, Floats]],
    seed: int,
    intersections: bool,
    kept: int,
    frozen: FrozenAttributes | None,
) -> tuple[list[_Objective], Mapping[Pair, Floats] | None]:
    """Everything that the choice looks at, and what goes with what where intersections count."""
    sampled = [sample_population(*own, seed, kept, quick=True) for own in zip(populations, answers, strict=True)]
    told, posteriors = [(rows, likelihood) for rows, likelihood, _ in sampled], [own for _, _, own in sampled]
    sizes, first = [one.n_groups for one in populations], populations[0]
    weights = [own.score_weights() for own in posteriors]
    weights = weights if frozen is None else split_weights(frozen.weights, sizes)
    owned: list[tuple[Population, Posterior, tuple[Told, ...]]] = [
        (one, own, (said,)) for one, own, said in zip(populations, posteriors, told, strict=True)
    ]
    associations: Mapping[Pair, Floats] | None = None
    if intersections:
        joint = fit_joint(posteriors, first.columns, told, seed)
        associations = joint.mean_associations() if frozen is None else frozen.associations
        owned.append((replace(first, n_groups=joint.versions[1]), joint, tuple(told)))
    members = side_by_side(weights, first, associations)
    if frozen is None:
        scores = [fit_bias_scores(first.notion, first.eta, own) for own in members]
    else:
        ends = np.cumsum([own.shape[1] for own in members])[:-1]
        scores = [BiasScores(frozen.scores.cells, own) for own in np.split(frozen.scores.shares, ends, axis=1)]
    return [
        _Objective(*own, guess, score) for own, guess, score in zip(owned, members, scores, strict=True)
    ], associations


def summed_falls(
    notion: Notion, paths: Sequence[Paths], compared: Sequence[IntArray], attributes: int, rng: np.random.Generator
) -> tuple[Falls, list[Falls]]:
    """The fall of the sum of the gaps over common draws, and that of each; the first so many are attributes.

    A difference is turned around where it is in the attribute for which that is most probable; intersections, whose
    smallest cells turn by chance, do not count there.
    """
    draws = len(paths[0].base)
    count = draws * -(-NOISE // draws)
    judged = [restricted(own, groups) for own, groups in zip(paths, compared, strict=True)]
    noises = [common_noise(count, own.base.shape[1], own.base.shape[2], rng) for own in judged]
    shape = paths[0].up.shape[:2]
    total, each = np.empty((4, *shape)), np.empty((len(paths), 4, *shape))
    sampled = [sampled_falls(notion, own, noise) for own, noise in zip(judged, noises, strict=True)]
    for direction, together in enumerate(zip(*sampled, strict=True)):
        for place, (fall, turned) in enumerate(together):
            each[place, :, direction] = summed_up(fall, turned)
        summed = np.sum([fall for fall, _ in together], axis=0)
        total[:, direction] = summed_up(summed, together[0][1])
    total[3] = each[:attributes, 3].max(axis=0)
    return Falls(*total), [Falls(*own) for own in each]


def _candidates(objectives: Sequence[_Objective], limits: Limits, rng: np.random.Generator) -> Floats:
    """(C, k, all groups) each one's best directions alone, and sums of the best of several at several ratios."""
    alone, most = (own[len(objectives) > 2] for own in (ALONE, TOGETHER))
    best = [_screened(objective, limits, rng)[:alone] for objective in objectives]  # (alone, k, G) at own strengths
    widths = [own.shape[2] for own in best]
    found = [_placed({place: one}, widths) for place, own in enumerate(best) for one in own]
    for size in range(2, len(best) + 1):
        ratios = RATIOS if len(best) == 2 else (1.0,)
        for places, ratio in product(combinations(range(len(best)), size), ratios):
            for picked in product(range(most), repeat=size):
                parts = {at: best[at][own] for at, own in zip(places, picked, strict=True)}
                parts[places[-1]] = ratio * parts[places[-1]]
                found.append(_placed(parts, widths))
    return np.stack(found)


def _placed(parts: Mapping[int, Floats], widths: Sequence[int]) -> Floats:
    """(k, all groups) directions of some attributes, zeros for the others."""
    cells = next(iter(parts.values())).shape[0]
    return np.concatenate([parts.get(at, np.zeros((cells, width))) for at, width in enumerate(widths)], axis=1)


def _screened(objective: _Objective, limits: Limits, rng: np.random.Generator) -> Floats:
    """(A, k, G) the directions that do most for this one alone by a few draws first, each times its best strength."""
    population, groups = objective.population, objective.members.shape[1]
    margin = 2 * (population.eta - population.cut)
    grid = fit_grid(objective.scores.of(population.eta, objective.members), margin)
    directions = grid.directions(grid.coarse(2 * ANGLES if groups == 2 else SCREENED_ANGLES))
    strengths = STRENGTHS[::2]
    band = bands(change_strengths(margin, objective.push(directions)), strengths)
    every = max(1, objective.posterior.versions[0] // SCREENED_DRAWS)
    versions = objective.versions(every)
    paths = trace_paths(population.notion, population.judged, band, len(strengths), versions, objective.blocks(every))
    own = restricted(paths, compared_groups(paths))
    samplings = versions[0] * -(-SCREENED_NOISE // versions[0])
    noise = common_noise(samplings, own.base.shape[1], own.base.shape[2], rng)
    found = [summed_up(*each) for each in sampled_falls(population.notion, own, noise)]
    mean, deviation = (np.stack([each[place] for each in found]) for place in (0, 1))
    worth = np.where(affordable(costs(population.judged, band, len(strengths)), limits), mean, -1.0)
    worth = np.nan_to_num(worth - limits.caution * deviation, nan=-2.0)
    place = worth.argmax(axis=1)
    order = np.argsort(-worth.max(axis=1), kind="stable")
    return np.asarray(directions[order] * strengths[place[order]][:, None, None])


def _thinned(posterior: Posterior, every: int) -> Posterior:
    if every == 1:
        return posterior
    if isinstance(posterior, JointPosterior):
        parts = tuple(_thinned(part, every) for part in posterior.parts)
        fewer = {pair: drawn[::every] for pair, drawn in posterior.associations.items()}
        return replace(posterior, weights=posterior.weights[::every], parts=parts, associations=fewer)
    return replace(posterior, weights=posterior.weights[::every])


def _side_by_side(scores: Sequence[BiasScores]) -> BiasScores:
    return BiasScores(scores[0].cells, np.concatenate([own.shares for own in scores], axis=1))


def _softmax(logits: Floats) -> Floats:
    return np.asarray(softmax(np.column_stack([logits, np.zeros(len(logits))]), axis=1))
