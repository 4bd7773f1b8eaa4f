"""A simulated population for tests of the correction: a model that reads x, groups that show in x, a known gap."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from apod.fairness.notions import EQUALIZED_ODDS, Notion
from apod.method.correction_fit import Population, make_population
from apod.method.posterior import People


def simulate(
    n: int, rng: np.random.Generator, *, shows: float = 1.5, gap: float = 1.0, columns: int = 6
) -> tuple[People, np.ndarray, np.ndarray]:
    """People, P(y = 1 | x) and groups. The first input carries the label, and `gap` of the second, which the group
    shows in; the group's own logit is `shows` times the second input."""
    inputs = rng.normal(size=(n, columns))
    groups = (rng.random(n) < expit(shows * inputs[:, 1] + 0.3)).astype(np.int64)
    eta = expit(1.6 * inputs[:, 0] + gap * inputs[:, 1] - 0.4)
    labels = (rng.random(n) < eta).astype(np.int64)
    return People(inputs, labels, (eta > 0.5).astype(np.int64), logit(eta)), eta, groups


def simulated_population(
    n: int, seed: int, notion: Notion = EQUALIZED_ODDS, **settings: float
) -> tuple[Population, np.ndarray]:
    people, eta, groups = simulate(n, np.random.default_rng(seed), **settings)
    return make_population(notion, people, eta, 0.5, n // 2, 2, seed), groups
