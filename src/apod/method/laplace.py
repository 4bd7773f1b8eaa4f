"""Laplace's approximation: what a few answers leave open about a logistic f_a.

    w | answers ~ N(w*, H^-1),   H = sum_i t_i x_i x_i' (x) (diag(p_i) - p_i p_i') + I / C

w* is the fitted weights, t_i an answer's trust, p_i its fitted probabilities, C the inverse of the L2 penalty. With two
groups one weight vector says all; with more, every group has one. An answer adds to H what its person's x and p say,
whatever the answer is: so what more answers would leave open is known before they are given.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Floats = npt.NDArray[np.float64]

INTERCEPT_PRECISION = 0.01  # hardly any prior on how large the groups are
DRAWS = 64
MOST_PARAMETERS = 8448
"""Weights a posterior may have, over all groups: its matrix takes half a gigabyte then, a round half a minute."""


def check_posterior_size(width: int, n_groups: int) -> None:
    """InputError where the posterior of so wide an input for so many groups would take too long and too much memory."""
    size = (width + 1) * len(free_groups(n_groups))
    if size > MOST_PARAMETERS:
        raise InputError(
            f"{width} columns for {n_groups} groups make {size} weights, and a posterior has at most "
            f"{MOST_PARAMETERS}: use narrower embeddings, fewer groups, or the proxy 'logistic'."
        )


def precision_matrix(inputs: Floats, probabilities: Floats, trust: Floats, C: float) -> Floats:
    """H, (D, D) with D = (M + 1) x free groups: inputs (S, M + 1) end in a one, probabilities (S, G), trust (S,)."""
    prior = np.full(inputs.shape[1], 1 / C)
    prior[-1] = INTERCEPT_PRECISION
    free = len(free_groups(probabilities.shape[1]))
    return curvature(inputs, probabilities, trust) + np.diag(np.repeat(prior, free))


def curvature(inputs: Floats, probabilities: Floats, trust: Floats) -> Floats:
    """(D, D) what answers about these people add to H."""
    p = probabilities[:, free_groups(probabilities.shape[1])]  # (S, J)
    own = -p[:, :, None] * p[:, None, :]
    own[:, np.arange(p.shape[1]), np.arange(p.shape[1])] += p
    people, width, free = len(inputs), inputs.shape[1], p.shape[1]
    weighed = (trust[:, None] * inputs)[:, :, None, None] * own[:, None]  # (S, M + 1, J, J)
    summed = (weighed.reshape(people, width * free**2).T @ inputs).reshape(width, free, free, width)
    return np.asarray(summed.transpose(0, 1, 3, 2).reshape(width * free, width * free))


def weight_draws(weights: Floats, precision: Floats, rng: np.random.Generator, count: int = DRAWS) -> Floats:
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
