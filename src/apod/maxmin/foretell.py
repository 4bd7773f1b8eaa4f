"""A plan for the next pass of a batch: the picks to come, foretold on a sample."""

from __future__ import annotations

import numpy as np

from apod.maxmin.bounds import Float32, Geometry, Int, Stored
from apod.maxmin.frontier import Plan, count_strata, stratum

FORETOLD = 32  # more pivots cost products and save no pass (measured)
OPTIMISM = 0.95  # the true last pick is seldom nearer than this share of the foretold one


def foretell(geometry: Geometry, sample: Stored, extremes: Stored, bounds: Float32, picks: int, room: float) -> Plan:
    """Greedy max-min on a sample tells the pivots, the floor, and from which bound on a stratum is worth watching.

    sample (s, d) stands for all candidates, extremes (e, d) were watched before and are likely picks;
    bounds (s + e,) squared, up to date · room: how many rows can be watched, as a share of all candidates
    """
    population = np.concatenate([sample, extremes])
    block = population.astype(np.float32, copy=False)
    terms = geometry.row_terms(block)
    chosen, last = greedy(geometry, block, terms, bounds, min(picks, FORETOLD))
    pivots = population[chosen]
    floor = np.float32(last * OPTIMISM**2)
    live = np.flatnonzero(bounds[: len(sample)] >= floor)
    reach, cell = geometry.closest(block[live], terms[live], geometry.centres(pivots))
    strata = stratum(bounds[live], reach, cell, len(pivots))
    thresholds = _thresholds(bounds[live], strata, count_strata(len(pivots)), room * len(sample))
    return Plan(pivots, np.maximum(thresholds, floor), floor)


def greedy(geometry: Geometry, block: Float32, terms: Float32, bounds: Float32, picks: int) -> tuple[list[int], float]:
    """Positions of max-min picks by float32 bounds, and the last one's squared distance; 0 where they ran out."""
    left, last = bounds.copy(), 0.0
    chosen: list[int] = []
    for _ in range(picks):
        top = int(left.argmax())
        last = max(0.0, float(left[top]))
        if not last and chosen:
            break
        chosen.append(top)
        values, _which = geometry.closest(block, terms, geometry.centres(block[top : top + 1]))
        np.minimum(left, values, out=left)
        left[chosen] = -1
    return chosen, last


def _thresholds(bounds: Float32, strata: Int, count: int, room: float) -> Float32:
    """(count,) the bound from which on a stratum is watched, so that about `room` rows of the sample are."""
    thresholds = np.zeros(count, dtype=np.float32)
    present = np.unique(strata)
    for one in present:
        values = np.sort(bounds[strata == one])[::-1]
        share = room / 2 if one == count - 1 else room / (2 * len(present))
        if share < len(values):
            thresholds[one] = values[int(share)]
    return thresholds
