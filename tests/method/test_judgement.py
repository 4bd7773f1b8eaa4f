"""Rates and costs along the paths of corrections, against counting people one correction at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from apod.fairness.notions import NOTIONS, Notion, member_rates
from apod.method.correction_choice import Judged, bands, costs, trace_paths

STRENGTHS = np.array([0.1, 0.4, 1.0])


@pytest.fixture
def case() -> tuple[Judged, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels, decisions = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    changes_at = np.where(rng.random((4, 60)) < 0.5, rng.random((4, 60)) * 1.5, np.inf)
    members = rng.dirichlet(np.ones(3), size=(60, 5))  # (n, D, G)
    return Judged(labels, decisions), changes_at, members


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=NOTIONS)
@pytest.mark.parametrize("blocks", [1, 4])
def test_rates_along_paths_are_those_of_the_changed_decisions(
    notion: Notion, blocks: int, case: tuple[Judged, np.ndarray, np.ndarray]
) -> None:
    people, changes_at, members = case
    edges = np.linspace(0, 60, blocks + 1).astype(int)
    parts = [(slice(a, b), members[a:b]) for a, b in itertools.pairwise(edges)]
    paths = trace_paths(notion, people, bands(changes_at, STRENGTHS), len(STRENGTHS), (5, 3), parts)
    for a in range(4):
        for r, strength in enumerate(STRENGTHS):
            decided = np.where(changes_at[a] <= strength, 1 - people.decisions, people.decisions)
            truth = member_rates(notion, people.labels, decided[None], members.transpose(1, 0, 2))[:, 0, :, 0]
            np.testing.assert_allclose(paths.rates[a, r], truth, atol=1e-6)
    base = member_rates(notion, people.labels, people.decisions[None], members.transpose(1, 0, 2))[:, 0, :, 0]
    np.testing.assert_allclose(paths.base, base, atol=1e-6)


def test_costs_are_the_accuracy_lost_and_its_paired_standard_error(case: tuple[Judged, np.ndarray, np.ndarray]) -> None:
    people, changes_at, _ = case
    found = costs(people, bands(changes_at, STRENGTHS), len(STRENGTHS))
    right = (people.decisions == people.labels).astype(float)
    for a in range(4):
        for r, strength in enumerate(STRENGTHS):
            changed = changes_at[a] <= strength
            lost = right - np.where(changed, 1 - right, right)
            by_label = [lost[people.labels == y] for y in (0, 1)]
            assert found.accuracy[a, r] == pytest.approx(lost.mean())
            assert found.accuracy_error[a, r] == pytest.approx(lost.std() / np.sqrt(60))
            assert found.balanced[a, r] == pytest.approx(np.mean([own.mean() for own in by_label]))
            error = np.sqrt(sum(own.var() / len(own) for own in by_label)) / 2
            assert found.balanced_error[a, r] == pytest.approx(error)
            assert found.changed[a, r] == pytest.approx(changed.mean())
