"""`apod.metrics` against fairlearn and scikit-learn: missing groups, weights, many labels, routed scorers."""

from __future__ import annotations

import fairlearn.metrics as fl
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

from apod.errors import InputError, UnknownName
from apod.fairness.metrics import UndefinedRateWarning
from apod.fairness.notions import MEASURED
from apod.metrics import gap, group_rates, make_scorer, selection_rate_ratio

FAIRLEARN = {
    "true_positive_rate_parity": [fl.true_positive_rate],
    "false_positive_rate_parity": [fl.false_positive_rate],
    "equalized_odds": [fl.true_positive_rate, fl.false_positive_rate],
    "demographic_parity": [fl.selection_rate],
    "predictive_parity": [sklearn.metrics.precision_score],
}


def people(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = rng.choice(np.array(["a", "b", "c"], dtype=object), n)
    y = (rng.random(n) < np.where(group == "a", 0.3, 0.5)).astype(int)
    decided = (rng.random(n) < np.where(y == 1, 0.7, 0.2) + 0.1 * (group == "b")).astype(int)
    return y, decided, group, rng.exponential(size=n)


@pytest.mark.parametrize("name", FAIRLEARN)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_is_fairlearns_with_weights_and_missing_groups(name: str, weighted: bool) -> None:
    y, decided, group, weights = people(1)
    known = np.arange(len(y)) % 3 > 0
    partly = np.where(known, group, None)
    own = {"sample_weight": weights} if weighted else {}
    want = 0.0
    for metric in FAIRLEARN[name]:
        frame = fl.MetricFrame(
            metrics=metric,
            y_true=y[known],
            y_pred=decided[known],
            sensitive_features=group[known],
            sample_params={key: value[known] for key, value in own.items()},
        )
        want += frame.difference(method="between_groups")
    assert gap(y, decided, sensitive_features=partly, notion=name, **own) == pytest.approx(want, abs=1e-12)
    labels = np.array(["no", "yes"])
    texts = gap(labels[y], labels[decided], sensitive_features=pd.Series(partly), notion=name, **own)
    assert texts == pytest.approx(want, abs=1e-12)


def test_the_ratio_is_fairlearns_and_group_rates_are_its_frame() -> None:
    y, decided, group, weights = people(2)
    own = {"sample_weight": weights}
    want = fl.demographic_parity_ratio(y, decided, sensitive_features=group, **own)
    assert selection_rate_ratio(y, decided, sensitive_features=group, **own) == pytest.approx(want, abs=1e-12)
    rates = group_rates(y, decided, sensitive_features=group, **own)
    frame = fl.MetricFrame(
        metrics={"tpr": fl.true_positive_rate, "selection_rate": fl.selection_rate},
        y_true=y,
        y_pred=decided,
        sensitive_features=group,
        sample_params=dict.fromkeys(("tpr", "selection_rate"), own),
    )
    for name in ("tpr", "selection_rate"):
        np.testing.assert_allclose(rates[name].sort_index(), frame.by_group[name].sort_index().astype(float))
    assert rates["people"].sum() == pytest.approx(weights.sum())
    assert (rates["effective"] < pd.Series(group).value_counts()[rates.index]).all()


@pytest.mark.parametrize("name", MEASURED)
def test_a_weight_of_two_is_the_row_twice(name: str) -> None:
    y, decided, group, _ = people(3, 90)
    twice = np.arange(90) % 4 == 0
    rows = np.concatenate([np.arange(90), np.flatnonzero(twice)])
    weighted = gap(y, decided, sensitive_features=group, sample_weight=1 + twice, notion=name)
    assert weighted == pytest.approx(
        gap(y[rows], decided[rows], sensitive_features=group[rows], notion=name), abs=1e-12
    )


def test_gaps_of_several_attributes_are_added_up_and_many_labels_are_compared() -> None:
    y, decided, group, _ = people(4)
    other = np.where(np.arange(len(y)) % 2 == 0, "x", "y")
    both = gap(y, decided, sensitive_features=pd.DataFrame({"first": group, "second": other}))
    each = [gap(y, decided, sensitive_features=own) for own in (group, other)]
    assert both == pytest.approx(sum(each), abs=1e-12)
    rng = np.random.default_rng(0)
    y, decided = rng.integers(0, 4, (2, 400))
    group = rng.integers(0, 2, 400)
    recalls = [[(decided[(y == k) & (group == g)] == k).mean() for g in (0, 1)] for k in range(4)]
    want = sum(abs(a - b) for a, b in recalls)
    assert gap(y, decided, sensitive_features=group, notion="true_positive_rate_parity") == pytest.approx(want)


def test_scorers_choose_the_fairer_model_through_metadata_routing() -> None:
    rng = np.random.default_rng(0)
    n = 400
    group = np.where(rng.random(n) < 0.5, "a", "b").astype(object)
    merit = rng.normal(size=n)
    proxy = (group == "a") + 0.3 * rng.normal(size=n)
    y = (merit + 1.5 * (group == "a") + rng.normal(size=n) > 0.75).astype(int)
    X = np.column_stack([merit, proxy])
    partly = np.where(rng.random(n) < 0.6, group, None)
    columns = {"columns": [[0], [0, 1]]}
    with sklearn.config_context(enable_metadata_routing=True):
        model = OfColumns()
        by_accuracy = GridSearchCV(model, columns, scoring="accuracy", cv=3).fit(X, y)
        fair = GridSearchCV(model, columns, scoring=make_scorer("demographic_parity", accuracy_weight=0.2), cv=3)
        fair.fit(X, y, sensitive_features=partly)
        assert by_accuracy.best_params_["columns"] == [0, 1]
        assert fair.best_params_["columns"] == [0]
        scores = cross_val_score(model, X, y, cv=3, scoring=make_scorer(), params={"sensitive_features": partly})
        weighted = make_scorer().set_score_request(sensitive_features=True, sample_weight=True)
        params = {"sensitive_features": partly, "sample_weight": np.ones(n)}
        same = cross_val_score(model, X, y, cv=3, scoring=weighted, params=params)
    np.testing.assert_allclose(scores, same)
    assert (scores < 0).all()


class OfColumns(LogisticRegression):
    """A logistic regression that reads some columns only."""

    def __init__(self, columns: list[int] | None = None) -> None:
        super().__init__()
        self.columns = columns

    def fit(self, X: np.ndarray, y: np.ndarray) -> OfColumns:
        return super().fit(X[:, self.columns or [0, 1]], y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(X[:, self.columns or [0, 1]])


def test_what_cannot_be_scored_says_so_in_one_line() -> None:
    y = np.array([0, 1, 0, 1])
    with pytest.raises(InputError, match="enable_metadata_routing=True"):
        make_scorer()(LogisticRegression().fit(y[:, None], y), y[:, None], y)
    with pytest.raises(UnknownName, match="equalized_odds"):
        make_scorer("equal_odds")
    with pytest.raises(InputError, match="accuracy_weight is -1"):
        make_scorer(accuracy_weight=-1)
    with pytest.warns(UndefinedRateWarning, match="Fewer than two groups"):
        assert np.isnan(gap(y, y, sensitive_features=["a", None, "a", None]))
    for weights, message in (
        ([1, 1, -1, 1], "1 negative weights"),
        ([1, np.nan, 1, 1], "1 missing or infinite weights"),
        ([0, 0, 0, 0], "zero in every row"),
        ([1, 1], "shape"),
        (["a", 1, 1, 1], "no number"),
    ):
        with pytest.raises(InputError, match=message):
            gap(y, y, sensitive_features=["a", "b", "a", "b"], sample_weight=weights)
