"""The interval of a gap, from the joint region of the signed differences that it is made of.

Quantiles of |d1| + |d2| never reach 0 and miss every fair model. So the region is that of the signed differences
themselves, 95 % of their posterior, widened by the sampling of a part of so many people; the interval runs from the
smallest to the largest gap in it, and from 0 when it contains no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.fairness.many_labels import counted_decisions, pair_gap
from apod.fairness.notions import Notion

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
NOISE_PER_DRAW = 4
ANGLES = 720
TELLS_LITTLE = 0.1
"""An interval that reaches from 0 to beyond this tells next to nothing about a gap."""


@dataclass(frozen=True)
class GapEstimate:
    """The gap to expect in a part of the population, and its interval."""

    gap: float
    low: float
    high: float


def tells_little(low: float, high: float) -> bool:
    """Whether an interval leaves open if there is a gap at all."""
    return low <= 0 and high > TELLS_LITTLE


def estimate_gap(notion: Notion, rates: Floats, people: Floats, rng: np.random.Generator) -> GapEstimate:
    """rates (D, k, G) by draws · people (k, G) how many of the part are in a cell and group, by expectation.

    NaN where a group is expected to have nobody in a cell.
    """
    noisy = part_rates(rates, people, rng)
    gap = float(pair_gap(notion, noisy).mean())
    if not np.isfinite(gap):
        return GapEstimate(float("nan"), float("nan"), float("nan"))
    signed = signed_differences(noisy)
    many = noisy.shape[2] > 2 or notion.classes > 2
    low, high = interval(notion, signed) if many else two_group_interval(signed)
    return GapEstimate(gap, low, high)


def part_rates(rates: Floats, people: Floats, rng: np.random.Generator) -> Floats:
    """(S, k, G) rates of a part of so many people: each draw with its own sampling error, several times."""
    repeated = np.repeat(rates, NOISE_PER_DRAW, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(repeated.clip(0, 1) * (1 - repeated).clip(0, 1) / people)
    half = rng.standard_normal((len(repeated) // 2, *rates.shape[1:]))
    noise = np.stack([half, -half], axis=1).reshape(repeated.shape)
    return np.asarray(repeated + np.where(people > 0, error, np.nan) * noise)


def signed_differences(rates: Floats) -> Floats:
    """(S, k x (G - 1)) every group's rate minus that of the last group."""
    return np.asarray((rates[..., :-1] - rates[..., -1:]).reshape(len(rates), -1))


def two_group_interval(signed: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Smallest and largest sum of |differences| over the ellipse that holds `level` of the draws (S, k), k = 1 or 2."""
    mean, root, reach = _ellipse(signed, level)
    if np.linalg.norm(np.linalg.solve(root, mean)) <= reach:
        low = 0.0
    else:
        low = float(np.abs(mean + reach * _sphere(len(mean)) @ root.T).sum(axis=1).min())
    signs = np.array(np.meshgrid(*[(-1, 1)] * len(mean))).reshape(len(mean), -1).T
    high = float((signs @ mean + reach * np.linalg.norm(signs @ root, axis=1)).max())
    return low, high


def interval(notion: Notion, signed: Floats, level: float = LEVEL) -> tuple[float, float]:
    """For any number of groups and labels: the range of the gap over the `level` of the draws nearest their mean."""
    mean, root, reach = _ellipse(signed, level)
    distance = np.linalg.norm(np.linalg.solve(root, (signed - mean).T), axis=0)
    cells = counted_decisions(notion).size
    near = signed[distance <= np.quantile(distance, level)].reshape(-1, cells, signed.shape[1] // cells)
    rates = np.concatenate([near, np.zeros_like(near[..., :1])], axis=2)  # differences are rates up to a constant
    gaps = pair_gap(notion, rates)
    fair = np.linalg.norm(np.linalg.solve(root, mean)) <= reach
    return 0.0 if fair else float(gaps.min()), float(gaps.max())


def _ellipse(signed: Floats, level: float) -> tuple[Floats, Floats, float]:
    """Mean, root of the covariance, and the radius, in its units, within which `level` of the draws lie."""
    mean = signed.mean(axis=0)
    covariance = np.atleast_2d(np.cov(signed, rowvar=False)) + 1e-12 * np.eye(len(mean))
    root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    distance = np.linalg.norm(np.linalg.solve(root, (signed - mean).T), axis=0)
    return np.asarray(mean), root, float(np.quantile(distance, level))


def _sphere(size: int) -> Floats:
    if size == 1:
        return np.array([[-1.0], [1.0]])
    turn = 2 * np.pi * np.arange(ANGLES) / ANGLES
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)
