"""Counts, metrics and intervals against slow restatements, fairlearn, scikit-learn and row resampling."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import fairlearn.metrics as fl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, precision_score

from apod.errors import InputError, UnknownName
from apod.fairness.counts import weighted_counts
from apod.fairness.metrics import (
    METRICS,
    SHOWN_RATES,
    GroupCounts,
    Metrics,
    UndefinedRateWarning,
    evaluate,
    fairness_score,
    group_counts,
    soft_group_counts,
)
from apod.fairness.notions import EQUALIZED_ODDS, member_rates
from apod.fairness.resampling import bootstrap, paired_bootstrap

NAN = math.nan
RATES = ("tpr", "fpr", "selection_rate", "precision")


def divide(part, whole):
    return part / whole if whole else NAN


def slow_metrics(y, pred, group, n_groups):
    """Every metric row by row, in plain Python."""
    rows = list(zip(y, pred, group, strict=True))

    def share(rows, condition):
        return divide(sum(condition(*row) for row in rows), len(rows))

    of = [[r for r in rows if r[2] == a] for a in range(n_groups)]
    tpr = [share([r for r in own if r[0] == 1], lambda y, p, g: p == 1) for own in of]
    fpr = [share([r for r in own if r[0] == 0], lambda y, p, g: p == 1) for own in of]
    selection = [share(own, lambda y, p, g: p == 1) for own in of]
    precision = [share([r for r in own if r[1] == 1], lambda y, p, g: y == 1) for own in of]

    def spread(rates):
        return NAN if len(rates) < 2 or any(map(math.isnan, rates)) else max(rates) - min(rates)

    if n_groups == 2:
        eop = divide(tpr[0], tpr[1]) if not any(map(math.isnan, tpr)) else NAN
        delta = (tpr[0] - tpr[1]) + (fpr[0] - fpr[1])
    else:
        eop = NAN if math.isnan(spread(tpr)) else divide(min(tpr), max(tpr))
        delta = NAN
    recall = [share([r for r in rows if r[0] == c], lambda y, p, g: p == y) for c in (0, 1)]
    return {
        "accuracy": share(rows, lambda y, p, g: y == p),
        "balanced_accuracy": sum(recall) / 2,
        "eop": eop,
        "delta_eo": delta,
        "gap": spread(tpr) + spread(fpr),
        "demographic_parity_difference": spread(selection),
        "equalized_odds_difference": NAN if math.isnan(spread(tpr) + spread(fpr)) else max(spread(tpr), spread(fpr)),
        "selection_rate_ratio": NAN if math.isnan(spread(selection)) else divide(min(selection), max(selection)),
        "predictive_parity_difference": spread(precision),
        "tpr": tpr,
        "fpr": fpr,
        "selection_rate": selection,
        "precision": precision,
    }


@st.composite
def decisions(draw, lowest_group=-1):
    """Labels, predictions and groups of a few rows; small cells and missing groups are common."""
    n_groups, n = draw(st.integers(1, 4)), draw(st.integers(0, 30))
    rows = st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(lowest_group, n_groups - 1)),
        min_size=n,
        max_size=n,
    )
    y, pred, group = np.array(draw(rows), np.int64).reshape(n, 3).T
    return y, pred, group, n_groups


def filled(rng, n, n_groups):
    """Random rows in which every (group, label) occurs."""
    y, group = rng.integers(0, 2, n), rng.integers(0, n_groups, n)
    y[: 2 * n_groups], group[: 2 * n_groups] = np.tile([0, 1], n_groups), np.repeat(np.arange(n_groups), 2)
    return y, rng.integers(0, 2, n), group


def test_the_papers_formulas_are_reproduced(shared_dir: Path):
    for case in json.loads((shared_dir / "vectors" / "formulas.json").read_text()):
        given_, want = case["metrics"], case["metrics"]["expect"]
        got = evaluate(given_["y"], given_["pred"], given_["group"], ["0", "1"]).to_dict()
        for name in ("accuracy", "balanced_accuracy", "eop", "delta_eo", "gap"):
            assert got[name] == pytest.approx(want[name], abs=1e-6)
        for group, rates in want["groups"].items():
            for name, value in rates.items():
                assert got["groups"][group][name] == pytest.approx(value, abs=1e-6)


@given(decisions())
@settings(deadline=None, max_examples=300)
def test_metrics_equal_the_row_by_row_statement_undefined_and_unknown_included(case):
    y, pred, group, n_groups = case
    want = slow_metrics(y, pred, group, n_groups)
    counts = group_counts(y, pred, group, n_groups)
    assert set(METRICS) == set(want)
    for name, metric in METRICS.items():
        np.testing.assert_allclose(metric(counts), want[name], atol=1e-12, err_msg=name)
    assert counts.excluded == np.count_nonzero(group == -1)
    assert counts.n.tolist() == [np.count_nonzero(group == a) for a in range(n_groups)]
    got = Metrics.from_counts(counts, [f"g{a}" for a in range(n_groups)], warn=False)
    assert got.excluded == counts.excluded
    for a, rates in enumerate(got.groups.values()):
        assert rates.n == counts.n[a]
        assert rates.n_positive == np.count_nonzero((group == a) & (y == 1))
        np.testing.assert_allclose([getattr(rates, name) for name in RATES], [want[name][a] for name in RATES])


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(20, 80))
@settings(deadline=None, max_examples=40)
def test_metrics_equal_fairlearns_and_scikit_learns(seed, n_groups, n):
    y, pred, group = filled(np.random.default_rng(seed), n, n_groups)
    got = evaluate(y, pred, group, [str(a) for a in range(n_groups)], warn=False)  # a TPR may be 0
    frame = fl.MetricFrame(
        metrics={
            "tpr": fl.true_positive_rate,
            "fpr": fl.false_positive_rate,
            "selection_rate": fl.selection_rate,
            "precision": partial(precision_score, zero_division=np.nan),
        },
        y_true=y,
        y_pred=pred,
        sensitive_features=group,
    )
    for name in RATES:
        ours = [getattr(rates, name) for rates in got.groups.values()]
        np.testing.assert_allclose(ours, frame.by_group[name].to_numpy(float), atol=1e-12)
    spread = frame.difference(method="between_groups")
    assert got.gap == pytest.approx(spread["tpr"] + spread["fpr"])
    for name in ("demographic_parity_difference", "equalized_odds_difference"):
        assert getattr(got, name) == pytest.approx(getattr(fl, name)(y, pred, sensitive_features=group))
    if pred.any():
        assert got.selection_rate_ratio == pytest.approx(fl.demographic_parity_ratio(y, pred, sensitive_features=group))
    if n_groups > 2 and max(frame.by_group["tpr"]) > 0:
        assert got.eop == pytest.approx(frame.ratio(method="between_groups")["tpr"])
    assert got.accuracy == pytest.approx(accuracy_score(y, pred))
    assert got.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, pred))


def test_rows_without_a_group_count_for_accuracy_and_for_no_group():
    y, pred, group = [1, 0, 1, 0, 1, 0], [1, 0, 1, 1, 0, 1], [0, 0, 1, 1, -1, -1]
    got = evaluate(y, pred, group, ["a", "b"])
    known = evaluate(y[:4], pred[:4], group[:4], ["a", "b"])
    assert got.groups == known.groups
    assert (got.accuracy, known.accuracy) == (pytest.approx(3 / 6), pytest.approx(3 / 4))
    assert (got.excluded, known.excluded) == (2, 0)


@pytest.mark.parametrize("shape", [(), (3,), (5, 3), (5, 1)])
@pytest.mark.parametrize("group_shape", [(), (3,), (5, 3)])
@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8, np.float32])
def test_many_classifiers_are_counted_as_each_alone(shape, group_shape, dtype):
    rng = np.random.default_rng(3)
    n, g = 50, 3
    y, pred = rng.integers(0, 2, n), rng.integers(0, 2, (*shape, n))
    group = rng.integers(-1, g, (*group_shape, n))
    batch = np.broadcast_shapes(shape, group_shape)
    got = group_counts(y, pred.astype(dtype), group, g)
    assert got.cells.shape == (*batch, g + 1, 2, 2)
    pred, group = np.broadcast_to(pred, (*batch, n)), np.broadcast_to(group, (*batch, n))
    for index in np.ndindex(batch):
        want = np.zeros((g + 1, 2, 2), int)
        for row in range(n):
            want[group[index][row], y[row], pred[index][row]] += 1  # -1 reaches the last slot
        np.testing.assert_array_equal(got[index].cells, want)


def test_soft_membership_that_is_certain_counts_like_groups():
    y, pred, group = filled(np.random.default_rng(0), 60, 3)
    want = group_counts(y, pred, group, 3)
    np.testing.assert_allclose(soft_group_counts(y, pred, np.eye(3)[group]).cells, want.cells, atol=1e-12)


def test_soft_rates_are_weighted_means_and_nan_where_nobody_can_belong():
    rng = np.random.default_rng(1)
    y, p_hat = rng.integers(0, 2, 40), rng.random((2, 40))
    p_group = np.column_stack([*rng.dirichlet([1, 1], 40).T, np.zeros(40)])  # nobody in group 2
    counts = soft_group_counts(y, p_hat, p_group)
    got = np.stack([METRICS[name](counts) for name in RATES], axis=-1)
    assert got.shape == (2, 3, 4)
    for head in range(2):
        for a in range(2):
            member = p_group[:, a]
            tpr, fpr = (np.average(p_hat[head][y == c], weights=member[y == c]) for c in (1, 0))
            precision = np.average(y, weights=p_hat[head] * member)
            np.testing.assert_allclose(got[head, a], [tpr, fpr, np.average(p_hat[head], weights=member), precision])
    assert np.isnan(got[:, 2]).all()


def test_membership_missing_from_one_is_unknown():
    counts = soft_group_counts([1, 0], [1, 0], [[0.5, 0.2], [0.0, 1.0]])
    assert counts.excluded == pytest.approx(0.3)
    assert counts.overall.sum() == pytest.approx(2)


def test_one_warning_says_what_is_undefined_and_can_be_silenced():
    arguments = ([1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1], ["a", "b"])  # group b has no positives
    with pytest.warns(UndefinedRateWarning, match=r"eop, delta_eo, gap, equalized_odds_difference, tpr\.") as seen:
        got = evaluate(*arguments)
    assert len(seen) == 1
    assert Path(seen[0].filename).name == "test_metrics.py"  # points at the caller
    assert math.isnan(got.groups["b"].tpr)
    assert got.groups["b"].fpr == 0.5
    assert got.demographic_parity_difference == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(*arguments, warn=False)


def test_an_absent_group_is_nan_not_equal():
    got = evaluate([1, 0, 1], [1, 0, 0], [0, 0, 0], ["here", "absent"], warn=False)
    assert got.groups["absent"].n == 0
    assert {"eop", "delta_eo", "gap", "demographic_parity_difference", *SHOWN_RATES} <= set(got.undefined)
    assert got.accuracy == pytest.approx(2 / 3)


def test_eop_is_undefined_when_group_1_has_no_true_positives():
    got = evaluate([1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], ["0", "1"], warn=False)
    assert math.isnan(got.eop)
    assert got.undefined == ("eop",)


def test_delta_eo_is_nan_beyond_two_groups_without_a_warning():
    y, pred, group = filled(np.random.default_rng(5), 60, 3)
    got = evaluate(y, pred, group, "abc")  # warnings are errors here
    assert math.isnan(got.delta_eo)
    assert got.undefined == ()


def test_no_rows_at_all_is_all_nan():
    got = evaluate([], [], np.array([], int), ["a", "b"], warn=False)
    assert got.to_dict()["accuracy"] is None
    assert got.groups["a"].n == 0


def test_the_dictionary_is_strict_json_with_none_for_undefined():
    got = evaluate([1, 0, 0, 0, 1], [1, 0, 1, 0, 1], [0, 0, 1, 1, -1], ["a", "b"], warn=False).to_dict()
    assert json.loads(json.dumps(got, allow_nan=False)) == got
    assert got["eop"] is None
    assert got["excluded"] == 1
    assert got["groups"]["b"] == {
        "tpr": None,
        "fpr": 0.5,
        "selection_rate": 0.5,
        "precision": 0.0,
        "n": 2,
        "n_positive": 0,
    }
    assert set(got) == {*METRICS, "groups", "excluded"} - set(RATES)


def test_fairness_score_is_the_papers_for_two_groups():
    y, group = np.random.default_rng(2).integers(0, 2, (2, 200))
    pred = np.random.default_rng(4).integers(0, 2, (3, 4, 200))
    counts = group_counts(y, pred, group, 2)
    by_delta, by_eop = fairness_score("delta_eo", counts), fairness_score("eop", counts)
    assert by_delta.shape == by_eop.shape == (3, 4)
    for index in np.ndindex(3, 4):
        want = slow_metrics(y, pred[index], group, 2)
        assert by_delta[index] == pytest.approx(1 - abs(want["delta_eo"]))
        assert by_eop[index] == pytest.approx(min(want["eop"], 1 / want["eop"]))


def test_fairness_score_beyond_two_groups_uses_gap_and_lowest_over_highest():
    y, pred, group = filled(np.random.default_rng(6), 90, 3)
    counts, want = group_counts(y, pred, group, 3), slow_metrics(y, pred, group, 3)
    assert fairness_score("delta_eo", counts) == pytest.approx(1 - want["gap"])
    assert fairness_score("eop", counts) == pytest.approx(min(want["tpr"]) / max(want["tpr"]))


@pytest.mark.parametrize("metric", ["delta_eo", "eop"])
def test_fairness_score_stays_nan_or_skips_an_empty_group_when_told(metric):
    y, pred, group = filled(np.random.default_rng(7), 80, 2)
    with_empty, two = group_counts(y, pred, group * 2, 3), group_counts(y, pred, group, 2)
    with pytest.warns(UndefinedRateWarning):
        assert np.isnan(fairness_score(metric, with_empty))
    tpr, fpr = METRICS["tpr"](two), METRICS["fpr"](two)
    want = {"delta_eo": 1 - np.ptp(tpr) - np.ptp(fpr), "eop": tpr.min() / tpr.max()}[metric]
    assert fairness_score(metric, with_empty, skip_undefined=True) == pytest.approx(want)
    alone = group_counts(y, pred, np.zeros_like(group), 3)  # one group left: nobody to compare
    assert np.isnan(fairness_score(metric, alone, skip_undefined=True, warn=False))


def test_fairness_by_eop_is_zero_when_one_group_alone_gets_no_true_positives():
    for silent in (0, 1):
        counts = group_counts([1, 0, 1, 0], [1, 0, 0, 0], [1 - silent, 1 - silent, silent, silent], 2)
        assert fairness_score("eop", counts) == 0


def brute_intervals(statistic, n, resamples, rng):
    """Percentiles over resampled rows, the slow way."""
    drawn = [statistic(rng.integers(0, n, n)) for _ in range(resamples)]
    return {name: np.nanquantile(np.array([d[name] for d in drawn], float), [0.025, 0.975], axis=0) for name in METRICS}


def close_to(brute, intervals, tolerance):
    for name, (low, high) in brute.items():
        got = intervals[name]
        np.testing.assert_allclose(got.low, low, atol=tolerance, err_msg=name)
        np.testing.assert_allclose(got.high, high, atol=tolerance, err_msg=name)


def skewed(rng, n=250):
    """Rows with a gap, a few of them without a known group."""
    group, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    pred = (rng.random(n) < 0.2 + 0.4 * y + 0.2 * group).astype(int)
    return y, pred, np.where(rng.random(n) < 0.1, -1, group)


def test_bootstrap_from_counts_agrees_with_resampling_rows():
    rng = np.random.default_rng(11)
    y, pred, group = skewed(rng)
    brute = brute_intervals(lambda i: slow_metrics(y[i], pred[i], group[i], 2), len(y), 1500, rng)
    got = bootstrap(group_counts(y, pred, group, 2), rng, resamples=20_000)
    close_to({k: v for k, v in brute.items() if k != "eop"}, got, 0.02)
    np.testing.assert_allclose([got["eop"].low, got["eop"].high], brute["eop"], atol=0.05)  # a wider metric
    want = slow_metrics(y, pred, group, 2)
    for name in METRICS:
        np.testing.assert_allclose(got[name].value, want[name])
        low, high = got[name]
        assert (low <= got[name].value).all()
        assert (got[name].value <= high).all()


def test_paired_bootstrap_agrees_with_resampling_rows_and_is_sharper_than_two_intervals():
    rng = np.random.default_rng(12)
    y, before, group = skewed(rng)
    after = np.where(rng.random(len(y)) < 0.1, 1 - before, before)

    def change(i):
        old, new = (slow_metrics(y[i], p[i], group[i], 2) for p in (before, after))
        return {name: np.subtract(new[name], old[name]) for name in METRICS}

    brute = brute_intervals(change, len(y), 1000, rng)
    got = paired_bootstrap(y, before, after, group, 2, rng, resamples=20_000)
    close_to({k: v for k, v in brute.items() if k != "eop"}, got, 0.02)
    np.testing.assert_allclose([got["eop"].low, got["eop"].high], brute["eop"], atol=0.05)
    for name, want in change(np.arange(len(y))).items():
        np.testing.assert_allclose(got[name].value, want, atol=1e-12)
    one, other = (bootstrap(group_counts(y, p, group, 2), rng)["accuracy"] for p in (before, after))
    paired = got["accuracy"]
    assert paired.high - paired.low < 0.7 * math.hypot(one.high - one.low, other.high - other.low)


def test_paired_bootstrap_of_the_same_predictions_is_exactly_zero():
    y, pred, group = skewed(np.random.default_rng(13))
    for interval in paired_bootstrap(y, pred, np.stack([pred, pred]), group, 2, np.random.default_rng(0)).values():
        assert interval.value.shape[0] == 2
        assert not np.any([interval.value, interval.low, interval.high])


@pytest.mark.parametrize("n_groups", [1, 3, 4])
def test_paired_changes_are_those_of_the_row_by_row_statement_for_any_number_of_groups(n_groups):
    rng = np.random.default_rng(n_groups)
    y, before, after = rng.integers(0, 2, (3, 400))
    group = rng.integers(0, n_groups, 400)
    got = paired_bootstrap(y, before, after, group, n_groups, rng, resamples=50)
    old, new = (slow_metrics(y, p, group, n_groups) for p in (before, after))
    for name in ("accuracy", "gap", "tpr", "fpr"):
        np.testing.assert_allclose(got[name].value, np.subtract(new[name], old[name]), atol=1e-12)


def test_intervals_of_many_classifiers_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(14)
    truth = rng.dirichlet(np.ones(8) * 4)
    cells = np.zeros((600, 12), int)
    cells[:, :8] = rng.multinomial(2000, truth, size=600)
    counts = GroupCounts(cells.reshape(600, 3, 2, 2))
    population = GroupCounts(np.append(truth, np.zeros(4)).reshape(3, 2, 2))
    got = bootstrap(counts, rng, resamples=400, level=0.9)
    for name in ("accuracy", "tpr", "fpr", "delta_eo", "selection_rate"):
        low, high = got[name]
        covered = ((low <= METRICS[name](population)) & (METRICS[name](population) <= high)).mean(0)
        assert np.all((covered > 0.85) & (covered < 0.94)), (name, covered)


def test_resamples_in_which_a_metric_does_not_exist_are_left_out_and_counted():
    y, pred, group = np.zeros(50, int), np.zeros(50, int), np.repeat([0, 1], 25)
    y[0] = pred[0] = 1  # a single positive in group 0
    y[25:40], pred[25:35] = 1, 1
    got = bootstrap(group_counts(y, pred, group, 2), np.random.default_rng(0), resamples=4000)
    missed = (1 - 1 / 50) ** 50  # the chance never to draw that row
    assert got["tpr"].undefined[0] / 4000 == pytest.approx(missed, abs=0.03)
    assert got["tpr"].undefined[1] == got["accuracy"].undefined == 0
    assert got["gap"].undefined == got["tpr"].undefined[0]
    assert tuple(float(edge[0]) for edge in got["tpr"]) == (1.0, 1.0)


def test_a_metric_that_exists_in_no_resample_has_a_nan_interval():
    counts = group_counts([1, 0, 1], [1, 0, 0], [0, 0, 0], 2)
    got = bootstrap(counts, np.random.default_rng(0), resamples=50)
    assert np.isnan([got["gap"].low, got["gap"].high]).all()
    assert got["gap"].undefined == 50
    assert np.isnan(bootstrap(group_counts([], [], np.array([], int), 2), np.random.default_rng(0))["accuracy"].low)


def test_the_same_generator_gives_the_same_intervals():
    counts = group_counts(*skewed(np.random.default_rng(15)), 2)
    one, two = (bootstrap(counts, np.random.default_rng(9)) for _ in range(2))
    for name in METRICS:
        np.testing.assert_array_equal(one[name].low, two[name].low)
        np.testing.assert_array_equal(one[name].high, two[name].high)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: group_counts([0, 2], [0, 1], [0, 1], 2), "y_true has values other than 0 and 1"),
        (lambda: group_counts([0, 1], [0, 0.5], [0, 1], 2), "y_pred has values other than 0 and 1"),
        (lambda: group_counts([0, 1], [0, NAN], [0, 1], 2), "y_pred has values other than 0 and 1"),
        (lambda: group_counts(["a", "b"], [0, 1], [0, 1], 2), "y_true has values other than 0 and 1"),
        (lambda: group_counts([0, 1], [0, 1], [0, 2], 2), "groups has codes outside -1 to 1"),
        (lambda: group_counts([0, 1], [0, 1], [0, -2], 2), "groups has codes outside -1 to 1"),
        (lambda: group_counts([0, 1], [0, 1], [0, NAN], 2), "groups has codes outside -1 to 1"),
        (lambda: group_counts([0, 1], [0, 1], [0, 0], 0), "n_groups is 0"),
        (lambda: group_counts([0, 1], [0, 1, 1], [0, 1], 2), "must be equally long"),
        (lambda: soft_group_counts([0, 1], [0, 2], [[1], [1]]), "no probabilities"),
        (lambda: soft_group_counts([0, 1], [0, 1], [[1, 1], [1, 1]]), "no probabilities"),
        (lambda: soft_group_counts([0, 1], [0, 1], [[NAN], [1]]), "no probabilities"),
        (lambda: soft_group_counts([0, 1], [0, 1], [[1]]), "pass \\(n,\\)"),
        (lambda: fairness_score("equal", group_counts([0], [0], [0], 1)), "There is no fairness metric 'equal'"),
        (lambda: Metrics.from_counts(group_counts([0], [[0]], [0], 2), "ab"), "pick one classifier"),
        (lambda: Metrics.from_counts(group_counts([0], [0], [0], 2), "abc"), "name each group"),
        (lambda: bootstrap(soft_group_counts([0], [0], [[1]]), np.random.default_rng(0)), "expected values"),
        (lambda: bootstrap(group_counts([0], [0], [0], 1), np.random.default_rng(0), level=95), "level is 95"),
        (lambda: bootstrap(group_counts([0], [0], [0], 1), np.random.default_rng(0), resamples=0), "resamples is 0"),
        (lambda: paired_bootstrap([0], [0, 1], [0], [0], 1, np.random.default_rng(0)), "pass one of each per row"),
    ],
)
def test_unusable_input_says_what_is_wrong(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_unknown_fairness_metric_suggests_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'delta_eo'"):
        fairness_score("delta-eo", group_counts([0], [0], [0], 1))


def test_metrics_and_bound_load_neither_torch_nor_pandas():
    code = (
        "import sys, apod.fairness.metrics, apod.method.theorem1; "
        "print({'torch', 'pandas', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_weighted_counts_are_rows_that_occur_so_often_and_their_rows_are_kept():
    rng = np.random.default_rng(8)
    y, pred, group = rng.integers(0, 2, 90), rng.integers(0, 2, (3, 90)), rng.integers(-1, 3, 90)
    often = 1 + np.arange(90) % 4
    rows = np.repeat(np.arange(90), often)
    found = weighted_counts(y, pred, group, 3, often.astype(float))
    np.testing.assert_allclose(found.cells, group_counts(y[rows], pred[:, rows], group[rows], 3).cells)
    np.testing.assert_array_equal(found.rows, group_counts(y, pred, group, 3).cells)
    metrics = Metrics.from_counts(found[1], "abc", warn=False)
    assert [own.n for own in metrics.groups.values()] == [(group == a).sum() for a in range(3)]
    assert metrics.gap == Metrics.from_counts(group_counts(y[rows], pred[1, rows], group[rows], 3), "abc").gap
    assert weighted_counts(y, pred, group, 3, None).squares is None


def test_weighted_intervals_are_those_of_resampled_rows():
    rng = np.random.default_rng(9)
    y, pred, group = filled(rng, 400, 2)
    weights = rng.exponential(size=400)
    found = bootstrap(weighted_counts(y, pred, group, 2, weights), rng, resamples=4000)
    member = np.eye(2)[group]
    gaps = []
    for _ in range(2000):
        own = member * (weights * rng.poisson(1.0, 400))[:, None]
        gaps.append(EQUALIZED_ODDS.gap(member_rates(EQUALIZED_ODDS, y, pred[None], own[None]))[0, 0])
    low, high = np.quantile(gaps, (0.025, 0.975))
    assert (found["gap"].low, found["gap"].high) == (pytest.approx(low, abs=0.03), pytest.approx(high, abs=0.03))
    change = paired_bootstrap(y, pred, 1 - pred, group, 2, rng, weights=weights)
    assert float(change["accuracy"].value) == pytest.approx(np.average(2 * (y != pred) - 1, weights=weights))


@pytest.mark.slow
def test_weighted_intervals_cover_the_rates_of_everybody():
    """Samples whose weights undo how they were drawn: 500 of 200 rows, the 95 % interval of a TPR difference."""
    rng = np.random.default_rng(10)
    y, pred, group = filled(rng, 20_000, 2)
    chance = np.where((pred == 1) & (group == 0), 0.3, 1.0) * rng.uniform(0.2, 1, 20_000)
    truth = METRICS["tpr"](group_counts(y, pred, group, 2))
    covered = 0
    for _ in range(500):
        rows = rng.choice(20_000, 400, p=chance / chance.sum())
        counts = weighted_counts(y[rows], pred[rows], group[rows], 2, 1 / chance[rows])
        own = bootstrap(counts, rng, resamples=400)["tpr"]
        covered += int(own.low[0] <= truth[0] <= own.high[0])
    assert 0.91 * 500 <= covered <= 0.985 * 500, covered
