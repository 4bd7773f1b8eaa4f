"""Draws of f_a's weights after many answers: normal around the mode, widths weighted by their evidence.

With thousands of answers the posterior is as good as normal, and Gibbs sampling would take minutes. The model and its
prior are those of `gibbs.py`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import expit

from apod.method.gibbs import Design

Floats = npt.NDArray[np.float64]

STEPS, TOLERANCE = 30, 1e-8


def draw_normal_weights(design: Design, likelihood: Floats, rng: np.random.Generator, count: int) -> Floats:
    """(count, G - 1, p) draws; likelihood (n, G) as in `draw_weights`, uncertain answers as shares of a person."""
    shares = likelihood / likelihood.sum(axis=1, keepdims=True)
    drawn = np.empty((count, likelihood.shape[1] - 1, design.columns.shape[1]))
    for group in range(drawn.shape[1]):
        weight = shares[:, group] + shares[:, -1]  # how much of a person belongs to one of the two groups
        rows = np.flatnonzero(weight > 0)
        columns, weight = design.columns[rows], weight[rows]
        target = shares[rows, group] / weight
        modes = [_mode(columns, target, weight, variance) for variance in design.variances]
        logs = np.array([log for _, _, log in modes]) + design.log_prior
        odds = np.exp(logs - logs.max())
        place = rng.choice(len(modes), size=count, p=odds / odds.sum())
        noise = rng.standard_normal((count, columns.shape[1]))
        for width in np.unique(place):
            mean, factor, _ = modes[width]
            own = place == width
            drawn[own, group] = mean + solve_triangular(factor, noise[own].T, trans=1, lower=True).T
    return drawn


def _mode(columns: Floats, target: Floats, weight: Floats, variance: Floats) -> tuple[Floats, Floats, float]:
    """Newton's method: the mode, the Cholesky factor of its precision, and the log evidence by Laplace."""
    mean = np.zeros(columns.shape[1])
    for _ in range(STEPS):
        p = expit(columns @ mean)
        slope = columns.T @ (weight * (target - p)) - mean / variance
        precision = (columns * (weight * p * (1 - p))[:, None]).T @ columns + np.diag(1 / variance)
        step = np.linalg.solve(precision, slope)
        mean = mean + step / max(1.0, np.abs(columns @ step).max() / 5)  # no logit moves further than 5 at once
        if np.abs(step).max() < TOLERANCE:
            break
    factor = np.linalg.cholesky(precision)
    logits = columns @ mean
    fit = float((weight * (target * logits - np.logaddexp(0, logits))).sum())
    shrink = -0.5 * float((mean**2 / variance + np.log(variance)).sum())
    return mean, factor, fit + shrink - float(np.log(np.diag(factor)).sum())
