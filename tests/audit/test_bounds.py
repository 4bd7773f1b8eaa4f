"""Worst and best case of a gap, against every assignment of groups there is and against populations with a truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from apod.audit.bounds import audited_bounds, counted_bounds
from apod.audit.sampling import People, check_people
from apod.fairness.counts import GroupCounts, group_counts
from apod.fairness.notions import MEASURED, count_gap
from apod.randomness import generator


def every_gap(notion: str, labels: np.ndarray, decided: np.ndarray, groups: np.ndarray, n_groups: int) -> list[float]:
    """The gap of every way to fill in the unknown groups."""
    blank = np.flatnonzero(groups < 0)
    found = []
    for filled in product(range(n_groups), repeat=len(blank)):
        whole = groups.copy()
        whole[blank] = filled
        gap = float(count_gap(MEASURED[notion], group_counts(labels, decided, whole, n_groups)))
        if not np.isnan(gap):
            found.append(gap)
    return found


@pytest.mark.parametrize("notion", MEASURED)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_no_assignment_of_unknown_groups_leaves_the_bounds(notion: str, n_groups: int) -> None:
    for seed in range(6):
        rng = generator(seed, "bounds", notion)
        labels, decided = rng.integers(0, 2, 24), rng.integers(0, 2, 24)
        groups = rng.integers(0, n_groups, 24)
        groups[rng.permutation(24)[:6]] = -1
        found = counted_bounds(MEASURED[notion], group_counts(labels, decided, groups, n_groups))
        truth = every_gap(notion, labels, decided, groups, n_groups)
        if found.low is None:
            continue
        assert found.low <= min(truth) + 1e-12
        assert found.high >= max(truth) - 1e-12
        if n_groups == 2:
            assert found.high == pytest.approx(max(truth))  # attained


def test_groups_all_on_record_leave_one_gap_only() -> None:
    rng = generator(0, "bounds")
    counts = group_counts(rng.integers(0, 2, 200), rng.integers(0, 2, 200), rng.integers(0, 2, 200), 2)
    for notion in MEASURED.values():
        found, gap = counted_bounds(notion, counts), float(count_gap(notion, counts))
        assert found.low == pytest.approx(gap)
        assert found.high == pytest.approx(gap)


def test_a_group_with_nobody_to_measure_on_has_no_bounds() -> None:
    cells = np.zeros((3, 2, 2), dtype=np.int64)
    cells[0] = 10
    assert counted_bounds(MEASURED["equalized_odds"], GroupCounts(cells)).to_dict() == {"low": None, "high": None}


def simulated(rng: np.random.Generator, silent: float) -> tuple[People, float, float]:
    """People of a population with a random gap, some drawn by cell and asked; the truth before and after."""
    n, share = 400, rng.uniform(0.15, 0.85)
    group = (rng.random(n) < share).astype(np.int64)
    labels = (rng.random(n) < np.where(group == 1, *rng.uniform(0.2, 0.6, 2))).astype(np.int64)
    decided = {}
    for name in ("before", "after"):
        rates = rng.uniform(0.05, 0.95, (2, 2))
        decided[name] = (rng.random(n) < rates[group, labels]).astype(np.int64)
    code = labels * 2 + decided["before"]
    told, chance = np.full(n, -1), np.full(n, np.nan)
    for cell in range(4):
        rows = np.flatnonzero(code == cell)
        if not len(rows):
            continue
        asked = rng.permutation(rows)[: max(1, int(len(rows) * 0.2))]
        chance[asked] = len(asked) / len(rows)
        hides = rng.random(len(asked)) < silent * group[asked]  # one group hides more: no answer is informative
        told[asked[~hides]] = group[asked[~hides]]
    people = check_people(labels, decided, told, ("a", "b"), chance)
    truth = [
        float(count_gap(MEASURED["equalized_odds"], group_counts(labels, decided[name], group, 2))) for name in decided
    ]
    return people, truth[0], truth[1]


@pytest.mark.parametrize("silent", [0.0, 0.4])
def test_bounds_of_a_random_draw_hold_in_19_of_20_populations(silent: float) -> None:
    held, tried = 0, 0
    for seed in range(60):
        people, *truth = simulated(generator(seed, "populations", str(silent)), silent)
        for view, gap in zip(("before", "after"), truth, strict=True):
            if np.isnan(gap):
                continue
            found = audited_bounds(MEASURED["equalized_odds"], people, view)
            assert found.low is not None
            assert found.high is not None
            held += found.low - 1e-12 <= gap <= found.high + 1e-12
            tried += 1
    assert held / tried >= 0.95


def test_answers_drawn_unevenly_within_a_cell_speak_for_themselves_alone() -> None:
    people, *_ = simulated(generator(3, "populations"), 0.0)
    uneven = people.probability.copy()
    drawn = np.flatnonzero(~np.isnan(uneven))
    uneven[drawn[::2]] /= 2
    apart = check_people(people.labels, people.decisions, _codes(people), ("a", "b"), uneven)
    wide = audited_bounds(MEASURED["equalized_odds"], apart, "before")
    codes = _codes(people)
    counts = group_counts(people.labels, people.decisions["before"], codes, 2)
    assert wide == counted_bounds(MEASURED["equalized_odds"], counts)


def _codes(people: People) -> np.ndarray:
    return np.where(people.answered, people.answers.argmax(axis=1), -1)
