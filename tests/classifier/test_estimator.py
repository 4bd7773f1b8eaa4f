"""APODClassifier is a scikit-learn estimator like any other."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from classifier_people import FAST, People
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from apod import APODClassifier
from apod.classifier.inputs import checked_settings
from apod.errors import InputError

NO_WEIGHTS = "Heads on a body take no sample_weight, and say so."
WEIGHTED_CHECKS = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_classifiers_one_label_sample_weights",
)


def weighted_checks(estimator: APODClassifier) -> dict[str, str]:
    """The checks of weights that cannot hold, and why."""
    drawn = {"check_sample_weight_equivalence_on_dense_data": "Folds are drawn among rows, whatever they weigh."}
    drawn = {} if isinstance(estimator.estimator, LogisticRegression) else drawn  # its own output, without folds
    return drawn | (dict.fromkeys(WEIGHTED_CHECKS, NO_WEIGHTS) if estimator.body is not None else {})


@parametrize_with_checks(
    [
        APODClassifier(),
        APODClassifier(LogisticRegression()),
        APODClassifier(
            body="contrastive", strengths=(0.5,), embedding=16, body_epochs=2, rounds=2, batch_size=32, random_state=0
        ),
        APODClassifier(body="precomputed", rounds=2, batch_size=16),
    ],
    expected_failed_checks=weighted_checks,
)
def test_passes_the_checks_of_scikit_learn(estimator: APODClassifier, check: Callable[[APODClassifier], None]) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        APODClassifier(body="contrastive"),
        APODClassifier(body="cross_entropy", proxy="logistic", over="pool"),
        APODClassifier(LinearSVC()),
    ],
    expected_failed_checks=weighted_checks,
)
def test_passes_the_checks_with_other_settings(
    estimator: APODClassifier, check: Callable[[APODClassifier], None]
) -> None:
    check(estimator)


def test_runs_with_default_settings_on_a_dozen_rows() -> None:
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    classifier = APODClassifier(body="contrastive", random_state=0, strength=0.5).fit(
        X, y, sensitive_features=["a", "b", None] * 4
    )
    assert classifier.predict(X).shape == (12,)
    assert len(classifier.tradeoff_) == 9


def test_a_plain_fit_says_nothing_of_guessed_groups() -> None:
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    plain = APODClassifier(body="cross_entropy", proxy="logistic", over="pool", body_epochs=1, rounds=1, random_state=0)
    assert plain.fit(X, y).selected_strength_ == 0  # a warning would be an error here


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_handful_of_rows_is_enough(n: int) -> None:
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2
    classifier = APODClassifier(**FAST | {"strength": 0.2}).fit(X, y, sensitive_features=["a", "b", *[None] * (n - 2)])
    assert set(classifier.predict(X)) <= {0, 1}
    assert len(classifier.query(10)) == len(classifier.training_rows_) - 2


def test_a_pipeline_routes_the_groups_and_gives_what_its_parts_give(people: People) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = APODClassifier(**FAST).set_fit_request(sensitive_features=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("fair", classifier)])
        pipeline.fit(people.X, people.y, sensitive_features=people.known)
        by_pipeline = pipeline.predict_proba(people.X)
    scaled = StandardScaler().fit_transform(people.X)
    by_hand = APODClassifier(**FAST).fit(scaled, people.y, sensitive_features=people.known)
    assert pipeline["fair"].groups_ == ("circle", "triangle")
    np.testing.assert_array_equal(by_pipeline, by_hand.predict_proba(scaled))


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, np.asarray])
def test_grid_search_cuts_the_groups_into_folds_and_refits_with_all_of_them(
    people: People, kind: Callable[[Any], Any]
) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = APODClassifier(**FAST).set_fit_request(sensitive_features=True)
        search = GridSearchCV(classifier, {"strength": [0.0, 0.2, 0.7]}, cv=StratifiedKFold(3), error_score="raise")
        search.fit(people.X, people.y, sensitive_features=kind(people.known))
    best = search.best_estimator_
    assert best.selected_strength_ == search.best_params_["strength"]
    assert best.tradeoff_["annotated"].unique().tolist() == [40]
    again = APODClassifier(**FAST | search.best_params_).fit(people.X, people.y, sensitive_features=people.known)
    np.testing.assert_array_equal(best.decision_function(people.X), again.decision_function(people.X))


def test_a_clone_has_the_parameters_and_nothing_else(fitted: APODClassifier) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict([[0.0, 0.0]])


def test_a_pickled_classifier_predicts_and_asks_the_same(fitted: APODClassifier, people: People) -> None:
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301  (our own bytes)
    np.testing.assert_array_equal(copy.decision_function(people.X), fitted.decision_function(people.X))
    np.testing.assert_array_equal(copy.query(7), fitted.query(7))


def test_a_fit_that_failed_leaves_no_classifier(people: People) -> None:
    classifier = APODClassifier(**FAST)
    with pytest.raises(InputError):
        classifier.fit(people.X, people.y, sensitive_features=["a"])
    with pytest.raises(NotFittedError):
        classifier.predict(people.X)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"strengths": "all"}, "no set of strengths 'all'"),
    ({"strengths": [0.5, 0.5]}, "must differ"),
    ({"strengths": [0.5, "x"]}, "A strength is 'x'"),
    ({"strengths": []}, "must be positive"),
    ({"strength": -1.0}, "must be positive"),
    ({"strength": float("nan")}, "must be positive"),
    ({"notion": "equal_odds"}, "did you mean 'equalized_odds'"),
    ({"relaxation": "step"}, "relaxation 'step'"),
    ({"over": "all"}, "'all'"),
    ({"selector": "apood"}, "did you mean 'apod'"),
    ({"proxy": "oracle"}, "proxy 'oracle'"),
    ({"body": "precompute"}, "did you mean 'precomputed'"),
    ({"body": 3}, "There is no body '3'"),
    ({"metric": "accuracy"}, "fairness metric 'accuracy'"),
    ({"embedding": 0}, "embedding is 0"),
    ({"hidden": 32}, "as in \\(32,\\)"),
    ({"hidden": (32, 0)}, "hidden is 0"),
    ({"rounds": 0}, "rounds is 0"),
    ({"rounds": 2.5}, "rounds is 2.5"),
    ({"epochs": 0}, "epochs is 0"),
    ({"body_epochs": None}, "body_epochs is None"),
    ({"batch_size": 1}, "batch_size is 1"),
    ({"dropout": 1.0}, "dropout is 1.0"),
    ({"validation_fraction": "a quarter"}, "validation_fraction is 'a quarter'"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD, ids=[str(bad) for bad, _ in BAD])
def test_bad_parameters_are_refused_in_fit_by_name(parameters: dict[str, Any], message: str, people: People) -> None:
    classifier = APODClassifier(**FAST | parameters)
    with pytest.raises(InputError, match=message):
        classifier.fit(people.X, people.y)


def test_every_kind_of_random_state_serves(people: People) -> None:
    def margins(random_state: Any) -> Any:
        return (
            APODClassifier(**FAST | {"random_state": random_state}).fit(people.X, people.y).decision_function(people.X)
        )

    np.testing.assert_array_equal(margins(np.int64(3)), margins(3))
    np.testing.assert_array_equal(margins(np.random.RandomState(3)), margins(np.random.RandomState(3)))
    assert (margins(None) != margins(None)).any()
    with pytest.raises(ValueError, match="cannot be used to seed"):
        margins("three")


def test_the_own_module_is_a_parameter_that_stays_as_it_is(people: People) -> None:
    module = torch.nn.Linear(2, 5)
    before = module.weight.detach().clone()
    classifier = clone(APODClassifier(**FAST | {"body": module, "strength": 0.2}))
    classifier.fit(people.X, people.y, sensitive_features=people.known)
    margins = classifier.decision_function(people.X)
    with torch.no_grad():
        classifier.body.weight.mul_(7.0)  # training it further must not reach the fitted classifier
    np.testing.assert_array_equal(classifier.decision_function(people.X), margins)
    assert torch.equal(module.weight, before)


def test_the_former_name_of_the_notion_warns_and_means_the_same() -> None:
    parameters = APODClassifier(penalty="demographic_parity").get_params(deep=False)
    with pytest.warns(FutureWarning, match="penalty is now called notion"):
        assert checked_settings(parameters).notion == "demographic_parity"
    with pytest.raises(InputError, match="pass notion alone"):
        checked_settings({**parameters, "notion": "true_positive_rate_parity"})
    with pytest.raises(InputError, match="predictive_parity is measured, not equalised"):
        checked_settings({**parameters, "penalty": "deprecated", "notion": "predictive_parity"})
