"""Draws from the posterior of a logistic f_a with a learnt prior width: exact, or normal after many answers.

log P(a_i = g) / P(a_i = reference) = x_i w_g,      w_gj ~ N(m_gj, v_tj),      t on a grid of widths

Each group is compared with the reference, the last group, on the people who belong to one of the two. Polya-Gamma
Gibbs (Polson, Scott, Windle 2013): given omega_i ~ PG(1, logit_i) all else is Gaussian, so the width is drawn with the
weights integrated out. Several chains run side by side in one batched program.

What is told besides the answers (the share of a group) has a likelihood of its own. A Gibbs sweep is reversible, so it
serves as a proposal that this likelihood alone accepts or refuses; random shifts of single weights help where what is
told is sharper than what the answers say.

With thousands of answers the posterior is as good as normal, and Gibbs sampling would take minutes. The model and its
prior are the same; what was told besides the answers adds nothing to so many, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from polyagamma import random_polyagamma
from scipy.linalg import solve_triangular
from scipy.special import expit

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Told = Callable[[Floats], Floats]
"""(C,) log likelihood of what was told besides the answers, by weights (C, G - 1, p)."""
Step = Callable[[Floats, Floats, IntArray, bool, np.random.Generator], tuple[Floats, IntArray]]

CHAINS, BURN_IN, KEPT, THIN = 8, 24, 32, 2
WIDTHS_EVERY = 2
"""Sweeps from one draw of the prior's width to the next: it takes most of the time and moves slowly."""
SHIFT = 0.3
"""Standard deviation of the random shifts."""


@dataclass(frozen=True, eq=False)
class Design:
    """What f_a reads of the people who were answered for, and the prior of its weights."""

    columns: Floats  # (n, p)
    variances: Floats  # (T, p) prior variances, one row per width on the grid
    log_prior: Floats  # (T,) how probable a width is before any answer, as a logarithm
    means: Floats | None = None  # (G - 1, p) of the prior; None: 0
    told: Told | None = None
    shifted: tuple[int, ...] = ()  # columns whose weights are shifted at random where something was told


def draw_weights(
    design: Design,
    likelihood: Floats,
    rng: np.random.Generator,
    *,
    chains: int = CHAINS,
    kept: int = KEPT,
    burn_in: int = BURN_IN,
    thin: int = THIN,
    widths_every: int = WIDTHS_EVERY,
) -> tuple[Floats, IntArray]:
    """(D, G - 1, p) draws of the weights and (D, G - 1) of the place on the grid of widths, D = chains x kept.

    likelihood (n, G): how probable what was answered is if the person belongs to a group; one-hot where answers are
    certain. The last group is the reference. True groups behind uncertain answers are drawn along.
    """
    columns, free = design.columns, likelihood.shape[1] - 1
    means = np.zeros((free, columns.shape[1])) if design.means is None else design.means
    offsets = means @ columns.T  # (G - 1, n)
    step = few_people(design) if len(columns) <= columns.shape[1] else many_people(design)
    certain = (likelihood > 0).sum(axis=1) == 1
    groups = np.tile(likelihood.argmax(axis=1), (chains, 1))  # (C, n)
    logits = np.repeat(offsets[:, None], chains, axis=1)
    places = np.tile(np.arange(chains) % len(design.variances), (free, 1))  # (G - 1, C)
    kept_weights, kept_places = [], []
    held: Floats | None = None  # (C, G - 1, p) weights less their means, where something was told
    for sweep in range(burn_in + kept * thin):
        if not certain.all():
            groups = np.where(certain, groups, _drawn_groups(logits, likelihood, rng))
        drawn, before = np.empty((chains, free, columns.shape[1])), (logits.copy(), places.copy())
        for group in range(free):
            compared = (groups == group) | (groups == free)
            omega = random_polyagamma(1.0, logits[group], random_state=rng) * compared  # (C, n)
            residual = ((groups == group) - 0.5) * compared - omega * offsets[group]
            drawn[:, group], places[group] = step(omega, residual, places[group], sweep % widths_every == 0, rng)
            logits[group] = drawn[:, group] @ columns.T + offsets[group]
        if design.told is not None:
            if held is not None:
                _refuse(design.told, means, (held, *before), (drawn, logits, places), rng)
            _shift(design, design.told, means, (drawn, logits, places), groups, rng)
            held = drawn
        if sweep >= burn_in and (sweep - burn_in) % thin == thin - 1:
            kept_weights.append(drawn + means)
            kept_places.append(places.T.copy())
    return np.concatenate(kept_weights), np.concatenate(kept_places)


State = tuple[Floats, Floats, IntArray]
"""Of all chains: weights less their means (C, G - 1, p), logits (G - 1, C, n), places on the grid (G - 1, C)."""


def _refuse(told: Told, means: Floats, before: State, after: State, rng: np.random.Generator) -> None:
    """Put chains back where they were, in place, in proportion to how much less likely a sweep makes what was told."""
    gain = told(after[0] + means) - told(before[0] + means)
    back = np.log(rng.uniform(size=len(gain))) >= gain
    after[0][back], after[1][:, back], after[2][:, back] = before[0][back], before[1][:, back], before[2][:, back]


def _shift(design: Design, told: Told, means: Floats, state: State, groups: IntArray, rng: np.random.Generator) -> None:
    """Metropolis steps of single weights, in place, by answers, prior and what was told."""
    weights, logits, places = state
    free = weights.shape[1]
    for group in range(free):
        compared, own = (groups == group) | (groups == free), groups == group  # (C, n)
        for column in design.shifted:
            shift = SHIFT * rng.standard_normal(len(weights))
            moved = weights.copy()
            moved[:, group, column] += shift
            there = logits[group] + shift[:, None] * design.columns[:, column]  # (C, n)
            gain = (
                (own * (there - logits[group]) - np.logaddexp(0, there) + np.logaddexp(0, logits[group])) * compared
            ).sum(1)
            spread = design.variances[places[group], column]
            gain += (weights[:, group, column] ** 2 - moved[:, group, column] ** 2) / (2 * spread)
            gain += told(moved + means) - told(weights + means)
            taken = np.log(rng.uniform(size=len(gain))) < gain
            weights[taken], logits[group, taken] = moved[taken], there[taken]


def few_people(design: Design) -> Step:
    """A Gibbs step in the space of the people: for fewer people than columns."""
    columns, variances = design.columns, design.variances
    spread = np.sqrt(variances)
    kernels = (columns * variances[:, None]) @ columns.T  # (T, n, n)
    diagonal = np.arange(len(columns))

    def step(
        omega: Floats, residual: Floats, place: IntArray, redraw: bool, rng: np.random.Generator
    ) -> tuple[Floats, IntArray]:
        root = np.sqrt(omega)  # (C, n)
        scaled = np.divide(residual, root, out=np.zeros_like(root), where=root > 0)
        outer = root[:, :, None] * root[:, None, :]  # (C, n, n)
        if redraw:
            inner = outer[:, None] * kernels  # (C, T, n, n)
            inner[..., diagonal, diagonal] += 1
            place = _drawn_places(_log_evidence(inner, scaled, negative=True) + design.log_prior, rng)
        chosen = outer * kernels[place]
        chosen[:, diagonal, diagonal] += 1
        before = rng.standard_normal((len(root), columns.shape[1])) * spread[place]  # (C, p) a draw of the prior
        missing = scaled - root * (before @ columns.T) - rng.standard_normal(root.shape)
        pulled = root * np.linalg.solve(chosen, missing[..., None])[..., 0]  # (C, n)
        return before + variances[place] * (pulled @ columns), place

    return step


def many_people(design: Design) -> Step:
    """A Gibbs step in the space of the columns: for more people than columns."""
    columns, variances = design.columns, design.variances
    diagonal = np.arange(columns.shape[1])
    shrinkage = -0.5 * np.log(variances).sum(axis=1)  # (T,)

    def step(
        omega: Floats, residual: Floats, place: IntArray, redraw: bool, rng: np.random.Generator
    ) -> tuple[Floats, IntArray]:
        target = residual @ columns  # (C, p)
        inner = np.stack([(columns * own[:, None]).T @ columns for own in omega])  # (C, p, p)
        if redraw:
            precisions = np.repeat(inner[:, None], len(variances), axis=1)  # (C, T, p, p)
            precisions[..., diagonal, diagonal] += 1 / variances
            evidence = _log_evidence(precisions, target, negative=False) + shrinkage
            place = _drawn_places(evidence + design.log_prior, rng)
        inner[:, diagonal, diagonal] += 1 / variances[place]
        noise = rng.standard_normal(target.shape)
        drawn = np.empty_like(target)
        for chain, precision in enumerate(inner):
            factor = np.linalg.cholesky(precision)
            half = solve_triangular(factor, target[chain], lower=True, check_finite=False)
            drawn[chain] = solve_triangular(factor, half + noise[chain], trans=1, lower=True, check_finite=False)
        return drawn, place

    return step


def _log_evidence(matrices: Floats, vectors: Floats, *, negative: bool) -> Floats:
    """(C, T) -log|M|/2 + or - v'M^-1v/2 of matrices (C, T, m, m), vectors (C, m): one Cholesky factor of M with v as
    one more row gives both."""
    size = matrices.shape[-1]
    wide = np.empty((*matrices.shape[:2], size + 1, size + 1))
    wide[..., :size, :size] = matrices
    wide[..., size, :size] = vectors[:, None]
    wide[..., :size, size] = vectors[:, None]
    wide[..., size, size] = 1e300  # larger than any v'M^-1v; only the last diagonal entry of the factor reads it
    factor = np.linalg.cholesky(wide)
    logs = np.log(factor[..., np.arange(size), np.arange(size)]).sum(axis=-1)
    quadratic = (factor[..., size, :size] ** 2).sum(axis=-1)
    return np.asarray(-logs + (-0.5 if negative else 0.5) * quadratic)


def _drawn_places(log_weights: Floats, rng: np.random.Generator) -> IntArray:
    """(C,) a place per row, by these unnormalised log probabilities (C, T)."""
    gumbel = rng.gumbel(size=log_weights.shape)
    return np.asarray((log_weights + gumbel).argmax(axis=1))


def _drawn_groups(logits: Floats, likelihood: Floats, rng: np.random.Generator) -> IntArray:
    """(C, n) true groups behind uncertain answers; logits (G - 1, C, n) against the last group."""
    scores = np.concatenate([logits, np.zeros_like(logits[:1])])  # (G, C, n)
    with np.errstate(divide="ignore"):  # log 0: a group that the answer excludes
        scores = scores + np.log(likelihood.T)[:, None]
    return np.asarray((scores + rng.gumbel(size=scores.shape)).argmax(axis=0))


STEPS, TOLERANCE = 30, 1e-8


def draw_normal_weights(design: Design, likelihood: Floats, rng: np.random.Generator, count: int) -> Floats:
    """(count, G - 1, p) draws; likelihood (n, G) as in `draw_weights`, uncertain answers as shares of a person."""
    shares = likelihood / likelihood.sum(axis=1, keepdims=True)
    drawn = np.empty((count, likelihood.shape[1] - 1, design.columns.shape[1]))
    means = np.zeros(drawn.shape[1:]) if design.means is None else design.means
    for group in range(drawn.shape[1]):
        weight = shares[:, group] + shares[:, -1]  # how much of a person belongs to one of the two groups
        rows = np.flatnonzero(weight > 0)
        columns, weight = design.columns[rows], weight[rows]
        target = shares[rows, group] / weight
        offset = columns @ means[group]
        modes = [_mode(columns, target, weight, variance, offset) for variance in design.variances]
        logs = np.array([log for _, _, log in modes]) + design.log_prior
        odds = np.exp(logs - logs.max())
        place = rng.choice(len(modes), size=count, p=odds / odds.sum())
        noise = rng.standard_normal((count, columns.shape[1]))
        for width in np.unique(place):
            mean, factor, _ = modes[width]
            own = place == width
            drawn[own, group] = mean + solve_triangular(factor, noise[own].T, trans=1, lower=True).T
    return drawn + means


def _mode(
    columns: Floats, target: Floats, weight: Floats, variance: Floats, offset: Floats
) -> tuple[Floats, Floats, float]:
    """Newton's method: the mode less the prior's mean, the Cholesky factor of its precision, and the log evidence by
    Laplace; `offset` (n,) are the logits by the prior's mean."""
    mean = np.zeros(columns.shape[1])
    for _ in range(STEPS):
        p = expit(columns @ mean + offset)
        slope = columns.T @ (weight * (target - p)) - mean / variance
        precision = (columns * (weight * p * (1 - p))[:, None]).T @ columns + np.diag(1 / variance)
        step = np.linalg.solve(precision, slope)
        mean = mean + step / max(1.0, np.abs(columns @ step).max() / 5)  # no logit moves further than 5 at once
        if np.abs(step).max() < TOLERANCE:
            break
    factor = np.linalg.cholesky(precision)
    logits = columns @ mean + offset
    fit = float((weight * (target * logits - np.logaddexp(0, logits))).sum())
    shrink = -0.5 * float((mean**2 / variance + np.log(variance)).sum())
    return mean, factor, fit + shrink - float(np.log(np.diag(factor)).sum())
