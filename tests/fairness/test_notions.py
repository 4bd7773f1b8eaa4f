"""Every notion against fairlearn, against a row-by-row statement, and against its own invariants."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import fairlearn.metrics as fl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_score

from apod.errors import UnknownName
from apod.fairness.metrics import METRICS, RATES, evaluate, fairness_score, group_counts, metric_table
from apod.fairness.notions import (
    EQUALIZED_ODDS,
    MEASURED,
    NOTIONS,
    DemographicParity,
    EqualizedOdds,
    FalsePositiveRateParity,
    Notion,
    PredictiveParity,
    SelectionRateRatio,
    TruePositiveRateParity,
    count_gap,
    event_counts,
    find_notion,
    member_rates,
)

KINDS = (EqualizedOdds, TruePositiveRateParity, FalsePositiveRateParity, DemographicParity)


def share(rows: list[tuple[int, int]], decision: int) -> float:
    return sum(d == decision for _, d in rows) / len(rows) if rows else math.nan


def slow_gap(name: str, y: list[int], decided: list[int], group: list[int], classes: int, n_groups: int) -> float:
    """The definition in plain Python: who is compared, what is counted, highest minus lowest, summed."""
    labels = range(classes)
    positive = [1] if classes == 2 else list(labels)
    compared: list[tuple[set[int], int]] = {
        "equalized_odds": [({c}, d) for c, d in itertools.product(labels, positive)],
        "demographic_parity": [(set(labels), d) for d in positive],
        "true_positive_rate_parity": [({c}, c) for c in positive],
        "false_positive_rate_parity": [(set(labels) - {c}, c) for c in positive],
    }[name]
    total = 0.0
    for inside, decision in compared:
        of = [
            [(c, d) for c, d, a in zip(y, decided, group, strict=True) if a == g and c in inside]
            for g in range(n_groups)
        ]
        rates = [share(rows, decision) for rows in of]
        total += math.nan if any(map(math.isnan, rates)) else max(rates) - min(rates)
    both_ways = classes > 2 and name in ("equalized_odds", "demographic_parity")
    return total / 2 if both_ways else total


@st.composite
def decisions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    classes, groups, n = draw(st.integers(2, 4)), draw(st.integers(2, 4)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.integers(0, classes, n), rng.integers(0, classes, n), rng.integers(0, groups, n), classes, groups


@pytest.mark.parametrize("kind", KINDS)
@given(decisions())
@settings(deadline=None, max_examples=100)
def test_the_gap_is_that_of_the_definition_for_any_labels_and_groups(kind: type, case: tuple) -> None:
    y, decided, group, classes, n_groups = case
    notion = kind(classes)
    rates = member_rates(notion, y, decided[None], np.eye(n_groups)[group][None])
    want = slow_gap(notion.name, y.tolist(), decided.tolist(), group.tolist(), classes, n_groups)
    np.testing.assert_allclose(notion.gap(rates), [[want]], atol=1e-12)


@pytest.mark.parametrize("name", MEASURED)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
@settings(deadline=None, max_examples=40)
def test_the_gap_is_fairlearns_for_two_labels(name: str, seed: int, n_groups: int) -> None:
    rng = np.random.default_rng(seed)
    y, group = np.tile([0, 1], 5 * n_groups), np.repeat(np.arange(n_groups), 10)
    decided = rng.integers(0, 2, len(y))
    decided[::5] = 1  # every group has somebody selected
    rates = {"tpr": fl.true_positive_rate, "fpr": fl.false_positive_rate, "selection_rate": fl.selection_rate}
    rates["precision"] = precision_score
    frame = fl.MetricFrame(metrics=rates, y_true=y, y_pred=decided, sensitive_features=group)
    want = frame.difference(method="between_groups")[list(MEASURED[name].rates)].sum()
    if name == "selection_rate_ratio":
        want = 1 - fl.demographic_parity_ratio(y, decided, sensitive_features=group)
    counts = group_counts(y, decided, group, n_groups)
    assert count_gap(MEASURED[name], counts) == pytest.approx(want, abs=1e-12)
    assert metric_table(MEASURED[name])["gap"](counts) == pytest.approx(want, abs=1e-12)
    assert evaluate(
        y, decided, group, [str(g) for g in range(n_groups)], MEASURED[name], warn=False
    ).gap == pytest.approx(want)


@pytest.mark.parametrize("name", MEASURED)
def test_groups_may_be_renamed_and_a_gap_between_equals_is_zero(name: str) -> None:
    rng = np.random.default_rng(5)
    notion, y, group, decided = (
        MEASURED[name],
        rng.integers(0, 2, 300),
        rng.integers(0, 3, 300),
        rng.integers(0, 2, 300),
    )
    gap = count_gap(notion, group_counts(y, decided, group, 3))
    assert gap > 0
    assert count_gap(notion, group_counts(y, decided, np.array([2, 0, 1])[group], 3)) == pytest.approx(float(gap))
    twice = group_counts(np.tile(y, 2), np.tile(decided, 2), np.repeat([0, 1], len(y)), 2)
    assert count_gap(notion, twice) == 0


@pytest.mark.parametrize("name", NOTIONS)
def test_soft_members_and_draws_are_weighted_row_by_row(name: str) -> None:
    rng = np.random.default_rng(2)
    notion, y, decided = NOTIONS[name], rng.integers(0, 2, 50), rng.integers(0, 2, (3, 50))
    member = rng.dirichlet([1, 2], (4, 50))  # four draws of membership
    happened, people = event_counts(notion, y, decided, member)
    cells = notion.cells(y)
    for draw, head, cell, group in np.ndindex(4, 3, cells.shape[1], 2):
        inside = [i for i in range(50) if cells[i, cell]]
        assert people[draw, 0, cell, 0, group] == pytest.approx(sum(member[draw, i, group] for i in inside))
        chosen = sum(member[draw, i, group] for i in inside if decided[head, i] == 1)
        assert happened[draw, head, cell, 0, group] == pytest.approx(chosen)


def test_a_gap_is_undefined_without_anybody_of_a_group_unless_two_others_remain() -> None:
    rates = np.array([[[0.2, np.nan, 0.5]], [[0.1, 0.3, 0.4]]])  # (k, e, G)
    assert np.isnan(EQUALIZED_ODDS.gap(rates))
    assert EQUALIZED_ODDS.gap(rates, skip_undefined=True) == pytest.approx(0.3 + 0.3)


@dataclass(frozen=True)
class AccuracyParity(EqualizedOdds):
    """A notion that somebody adds: the right decision is counted, of everybody."""

    name = "accuracy_parity"
    rates = ()

    def cells(self, labels: np.ndarray) -> np.ndarray:
        return np.ones((*labels.shape, 1), dtype=bool)

    def events(self, labels: np.ndarray) -> np.ndarray:
        return labels[..., None]


def test_a_notion_may_count_the_right_decision_instead_of_the_positive_one() -> None:
    rng = np.random.default_rng(3)
    y, decided, group = rng.integers(0, 2, 90), rng.integers(0, 2, 90), rng.integers(0, 3, 90)
    notion: Notion = AccuracyParity()
    right = [(y == decided)[group == g].mean() for g in range(3)]
    assert count_gap(notion, group_counts(y, decided, group, 3)) == pytest.approx(max(right) - min(right))


def test_rates_shown_per_group_are_those_that_notions_compare() -> None:
    for name, notion in NOTIONS.items():
        assert set(notion.rates) <= set(RATES), name
        assert notion.words.gap.count("|") == 2 * len(notion.rates)
    assert RATES.keys() <= METRICS.keys()


def test_the_score_of_a_notion_the_tasks_metric_does_not_speak_of_is_one_minus_its_gap() -> None:
    rng = np.random.default_rng(4)
    counts = group_counts(rng.integers(0, 2, 80), rng.integers(0, 2, 80), rng.integers(0, 2, 80), 2)
    for name in ("demographic_parity", "false_positive_rate_parity"):
        for metric in ("eop", "delta_eo"):
            score = fairness_score(metric, counts, NOTIONS[name])
            assert score == pytest.approx(1 - count_gap(NOTIONS[name], counts))
    tpr = METRICS["tpr"](counts)
    parity = NOTIONS["true_positive_rate_parity"]
    assert fairness_score("eop", counts, parity) == pytest.approx(min(tpr) / max(tpr))
    assert fairness_score("delta_eo", counts, parity) == pytest.approx(1 - abs(tpr[0] - tpr[1]))


@given(decisions())
@settings(deadline=None, max_examples=50)
def test_precisions_and_ratios_are_those_of_the_definition_for_any_labels_draws_and_groups(case: tuple) -> None:
    y, decided, group, classes, n_groups = case
    member = np.eye(n_groups)[group]
    both = np.stack([decided, y])  # two classifiers, whose selected people differ
    counted = [1] if classes == 2 else list(range(classes))
    found = member_rates(PredictiveParity(classes), y, both, np.stack([member, 2 * member]))
    for draw, classifier, (place, k), g in itertools.product((0, 1), (0, 1), enumerate(counted), range(n_groups)):
        own = y[(both[classifier] == k) & (group == g)]
        want = (own == k).mean() if len(own) else math.nan
        assert found[draw, classifier, place, 0, g] == pytest.approx(want, nan_ok=True)
    shares = [[(decided[group == g] == k).mean() if (group == g).any() else math.nan for g in range(n_groups)]
              for k in counted]  # fmt: skip
    ratios = [math.nan if np.isnan(own).any() or max(own) == 0 else 1 - min(own) / max(own) for own in shares]
    gap = SelectionRateRatio(classes).gap(member_rates(SelectionRateRatio(classes), y, decided[None], member[None]))
    assert gap[0, 0] == pytest.approx(np.max(ratios), nan_ok=True)


def test_an_unknown_notion_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="equalized_odds"):
        find_notion("equal_odds")


@pytest.mark.parametrize("name", NOTIONS)
def test_a_group_of_which_there_is_nobody_leaves_the_gap_undefined_unless_it_is_to_be_skipped(name: str) -> None:
    y, decided, group = np.array([0, 0, 1, 1] * 2), np.array([0, 1, 0, 1, 0, 0, 1, 1]), np.repeat([0, 1], 4)
    alone, beside_nobody = group_counts(y, decided, group, 2), group_counts(y, decided, group, 3)
    assert np.isnan(count_gap(NOTIONS[name], beside_nobody))
    assert count_gap(NOTIONS[name], beside_nobody, skip_undefined=True) == count_gap(NOTIONS[name], alone)
