"""Notions and metrics of four labels: as fairlearn has them of one label against the rest, as brute force has gaps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate

from apod.fairness.counts import group_counts, joint_counts, soft_class_counts
from apod.fairness.many_labels import counted_decisions, notion_by_default, notion_for, pair_events, pair_gap
from apod.fairness.metrics import evaluate, metric_table
from apod.fairness.notions import MEASURED, NOTIONS, count_gap
from apod.fairness.resampling import bootstrap, paired_bootstrap

K, NAMES = 4, ["a", "b", "c"]
RNG = np.random.default_rng(0)
Y, DECIDED, GROUP = RNG.integers(0, K, 600), RNG.integers(0, K, 600), RNG.integers(0, 3, 600)


def test_rates_of_every_label_are_fairlearns_of_that_label_against_the_rest() -> None:
    found = evaluate(Y, DECIDED, GROUP, NAMES, notion_for("true_positive_rate_parity", K))
    for label in range(K):
        frame = MetricFrame(
            metrics={"tpr": true_positive_rate, "fpr": false_positive_rate, "selection_rate": selection_rate},
            y_true=label == Y,
            y_pred=label == DECIDED,
            sensitive_features=GROUP,
        )
        for place, name in enumerate(NAMES):
            own = found.groups[name].labels[str(label)]
            for rate in ("tpr", "fpr", "selection_rate"):
                assert getattr(own, rate) == pytest.approx(frame.by_group[rate][place], abs=1e-12)
            chosen = (label == DECIDED) & (place == GROUP)
            assert own.precision == pytest.approx((label == Y)[chosen].mean())
            assert own.n == ((label == Y) & (place == GROUP)).sum()


def brute(name: str, groups: np.ndarray) -> float:
    """The gap between groups by its definition in docs/method.md."""
    codes, total = np.unique(groups), 0.0
    for k in range(K):
        for j in range(K):
            if name == "true_positive_rate_parity" and j != k:
                continue
            if name == "false_positive_rate_parity":
                if j != k:
                    continue
                rates = [np.mean(DECIDED[(k != Y) & (groups == g)] == k) for g in codes]
            elif name == "demographic_parity":
                if k > 0:
                    continue
                rates = [np.mean(DECIDED[groups == g] == j) for g in codes]
            else:
                rates = [np.mean(DECIDED[(k == Y) & (groups == g)] == j) for g in codes]
            total += max(abs(one - other) for one, other in combinations(rates, 2))
    return total / 2 if name in ("equalized_odds", "demographic_parity") else total


@pytest.mark.parametrize("name", NOTIONS)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_gaps_are_those_of_their_definitions(name: str, n_groups: int) -> None:
    groups, notion = GROUP % n_groups, notion_for(name, K)
    counts = group_counts(Y, DECIDED, groups, n_groups, K)
    want = brute(name, groups)
    assert count_gap(notion, counts) == pytest.approx(want, abs=1e-12)
    assert metric_table(notion)["gap"](counts) == pytest.approx(want, abs=1e-12)
    inside, happened = pair_events(notion, Y, DECIDED)
    member = np.eye(n_groups)[groups]
    rates = (happened.T @ member) / (inside.T @ member)
    assert pair_gap(notion, rates) == pytest.approx(want, abs=1e-12)
    soft = soft_class_counts(Y, DECIDED, member, K)
    assert count_gap(notion, soft) == pytest.approx(want, abs=1e-12)


def test_by_default_two_labels_give_the_gap_that_the_rule_for_many_gives() -> None:
    y, decided, group = Y % 2, DECIDED % 2, GROUP % 2
    right = [[np.mean(decided[(y == label) & (group == g)] == label) for g in (0, 1)] for label in (0, 1)]
    want = sum(abs(one - other) for one, other in right)
    assert count_gap(NOTIONS[notion_by_default(2)], group_counts(y, decided, group, 2)) == pytest.approx(
        want, abs=1e-12
    )
    assert notion_by_default(3) == "true_positive_rate_parity"


@pytest.mark.parametrize("name", NOTIONS)
def test_a_pair_counts_one_decision(name: str) -> None:
    notion = notion_for(name, K)
    inside, happened = pair_events(notion, Y, DECIDED)
    for pair, decision in enumerate(counted_decisions(notion).ravel()):
        assert (happened[:, pair] == (inside[:, pair] & (decision == DECIDED))).all()


def test_differences_and_accuracies_are_those_of_the_confusion_matrices() -> None:
    found = evaluate(Y, DECIDED, GROUP, NAMES, notion_for("equalized_odds", K))
    assert found.accuracy == pytest.approx((Y == DECIDED).mean())
    assert found.balanced_accuracy == pytest.approx(np.mean([(k == DECIDED)[k == Y].mean() for k in range(K)]))
    largest = max(
        np.ptp([np.mean(DECIDED[(k == Y) & (g == GROUP)] == j) for g in range(3)]) for k in range(K) for j in range(K)
    )
    assert found.equalized_odds_difference == pytest.approx(largest)
    assert np.isnan(found.eop)
    assert found.undefined == ()


def test_intervals_hold_the_values_and_equal_decisions_have_no_difference() -> None:
    notion = notion_for("true_positive_rate_parity", K)
    spans = bootstrap(group_counts(Y, DECIDED, GROUP, 3, K), np.random.default_rng(1), notion)
    assert spans["label_tpr"].low.shape == (K, 3)
    assert (spans["label_tpr"].low <= spans["label_tpr"].value).all()
    same = paired_bootstrap(Y, DECIDED, DECIDED, GROUP, 3, np.random.default_rng(1), notion)
    assert same["gap"].low == same["gap"].high == 0


def test_joint_counts_are_those_of_every_combination() -> None:
    after = RNG.integers(0, K, 600)
    found = joint_counts(Y, DECIDED, after, np.where(GROUP == 2, -1, GROUP), ["a", "b"], K)
    for name, code in (("a", 0), ("b", 1)):
        for y, one, two in np.ndindex(K, K, K):
            want = ((y == Y) & (one == DECIDED) & (two == after) & (code == GROUP)).sum()
            assert found["groups"][name][y][one][two] == want
    assert np.sum(found["unknown"]) == (GROUP == 2).sum()


def test_every_notion_has_words_for_more_labels() -> None:
    for name in MEASURED:
        words = notion_for(name, K).words
        assert words.gap != MEASURED[name].words.gap
        assert "label" in words.explain(2) or "decision" in words.explain(2)
