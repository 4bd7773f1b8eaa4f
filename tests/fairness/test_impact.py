"""Impact ratios are ratios to the highest rate, and their intervals cover the true ones."""

from __future__ import annotations

import numpy as np
import pytest

from apod.fairness.impact import counted_intervals, impact_intervals, impact_ratios
from apod.randomness import generator


def test_ratios_are_to_the_highest_rate_and_undefined_groups_have_none() -> None:
    assert impact_ratios(np.array([0.1, 0.2, 0.05])).tolist() == [0.5, 1.0, 0.25]
    found = impact_ratios(np.array([0.1, np.nan, 0.2]))
    assert found[[0, 2]].tolist() == [0.5, 1.0]
    assert np.isnan(found[1])
    assert np.isnan(impact_ratios(np.array([0.0, 0.0]))).all()  # nobody selected: no ratio


def test_a_group_with_nobody_has_no_interval_and_leaves_the_others_theirs() -> None:
    low, high = counted_intervals(np.array([10, 0, 30]), np.array([100, 0, 100]), generator(0, "impact"))
    assert np.isnan([low[1], high[1]]).all()
    assert low[0] < 1 / 3 < high[0] < 1 == high[2]


def test_certain_rates_have_intervals_of_no_width() -> None:
    low, high = impact_intervals(np.tile([0.2, 0.5, 0.4], (50, 1)))
    assert low == pytest.approx([0.4, 1.0, 0.8])
    assert high == pytest.approx([0.4, 1.0, 0.8])


@pytest.mark.parametrize(
    ("rates", "people"),
    [([0.1, 0.2], [500, 1000]), ([0.05, 0.06], [30, 40]), ([0.3] * 5, [100] * 5), ([0.3, 0.28, 0.1], [50, 100, 30])],
)
def test_intervals_cover_the_true_ratios(rates: list[float], people: list[int]) -> None:
    rng, truth = generator(1, "impact", str(people)), np.array(rates) / max(rates)
    counts = rng.binomial(people, rates, size=(150, len(rates)))
    held = np.zeros(len(rates))
    for selected in counts:
        low, high = counted_intervals(selected, np.array(people), rng)
        held += (low <= truth + 1e-12) & (truth <= high + 1e-12)
    assert (held / len(counts) >= 0.91).all()  # .93 in `benchmarks/bench_evidence.py`, of 2,000 populations
