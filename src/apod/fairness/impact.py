"""Impact ratios, every group's selection rate over the highest one, with intervals for any number of groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apod.fairness.notions import ratio

FloatArray = npt.NDArray[np.float64]

DRAWS = 4000
FOUR_FIFTHS = 0.8
"""The ratio below which US practice speaks of adverse impact."""


def impact_ratios(rates: FloatArray) -> FloatArray:
    """(..., g) each rate over the highest that is defined; NaN where a rate is undefined or nobody is selected."""
    highest = np.where(np.isnan(rates), -np.inf, rates).max(-1, keepdims=True)
    return ratio(rates, highest)


def impact_intervals(drawn: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """(g,) ends of the ratios' intervals from draws of the rates (D, g); NaN where a rate is undefined.

    The upper end is that of the ratio to each other group, all of them holding at once: a ratio to the highest rate is
    at most the ratio to any. Quantiles of the ratio itself miss every time many groups are alike, because the highest
    of many draws is too high.
    """
    groups = drawn.shape[1]
    defined = [g for g in range(groups) if not np.isnan(drawn[:, g]).any()]
    low, high = np.full(groups, np.nan), np.full(groups, np.nan)
    if not defined:
        return low, high
    error = (1 - level) / 2
    shown = drawn[:, defined]
    low[defined] = np.quantile(impact_ratios(shown), error, axis=0)
    for place, g in enumerate(defined):
        others = np.delete(shown, place, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(others > 0, shown[:, [place]] / others, np.inf)
        ends = np.quantile(apart, 1 - error / max(1, apart.shape[1]), axis=0, method="higher") if others.size else 1.0
        high[g] = np.minimum(1.0, ends).min()
    return np.minimum(low, high), high


def counted_intervals(
    selected: npt.NDArray[np.integer], people: npt.NDArray[np.integer], rng: np.random.Generator, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """(g,) the same from counts (g,): rates are drawn by Jeffreys' prior, so that 0 of 3 people claims no certainty."""
    drawn = rng.beta(selected + 0.5, people - selected + 0.5, size=(DRAWS, len(people)))
    return impact_intervals(np.where(people > 0, drawn, np.nan), level)
