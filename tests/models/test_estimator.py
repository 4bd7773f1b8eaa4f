"""Any classifier: cloned and fitted out of fold, or frozen and only asked; its scores come back bit for bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold

from apod.errors import InputError
from apod.models.estimator import RefitWarning, fit_estimator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=120) > 0, "yes", "no")


def test_scores_are_the_classifiers_own_to_the_bit() -> None:
    forest = RandomForestClassifier(20, random_state=0)
    fitted = fit_estimator(forest, X, Y, seed=0)
    np.testing.assert_array_equal(fitted.model.margin(X), clone(forest).fit(X, Y).predict_proba(X)[:, 1])
    assert fitted.model.classes.tolist() == ["no", "yes"]
    assert not hasattr(forest, "classes_")  # the user's own object is left alone


def test_training_scores_are_out_of_fold() -> None:
    fitted = fit_estimator(LogisticRegression(), X, Y, seed=1)
    own = np.empty(120)
    for train, rest in StratifiedKFold(5, shuffle=True, random_state=1).split(X, Y):
        own[rest] = LogisticRegression().fit(X[train], Y[train]).predict_proba(X[rest])[:, 1]
    np.testing.assert_array_equal(fitted.training_scores, own)
    assert fitted.refitted


def test_a_frozen_model_is_never_fitted_again() -> None:
    own = LogisticRegression().fit(X[:60], Y[:60])
    before = own.coef_.copy()
    fitted = fit_estimator(FrozenEstimator(own), X[60:], Y[60:], seed=0)
    np.testing.assert_array_equal(fitted.training_scores, own.predict_proba(X[60:])[:, 1])
    np.testing.assert_array_equal(own.coef_, before)
    assert not fitted.refitted


def test_a_decision_function_will_do_and_decides_at_zero() -> None:
    fitted = fit_estimator(RidgeClassifier(), X, Y, seed=0)
    assert fitted.model.threshold == 0.0
    own = RidgeClassifier().fit(X, Y)
    np.testing.assert_array_equal(fitted.model.margin(X) > 0, own.predict(X) == "yes")


def test_the_fingerprint_tells_models_apart() -> None:
    one, same, other = (fit_estimator(LogisticRegression(C=c), X, Y, seed=0).model for c in (1.0, 1.0, 0.1))
    shifted = fit_estimator(LogisticRegression(), X[::-1] * 1.01, Y[::-1], seed=0).model
    assert one.fingerprint == same.fingerprint
    assert len({one.fingerprint, other.fingerprint, shifted.fingerprint}) == 3


def test_a_bare_fitted_estimator_is_fitted_again_with_a_warning_that_says_how_to_keep_it() -> None:
    own = LogisticRegression().fit(X[:60], Y[:60])
    before = own.coef_.copy()
    with pytest.warns(RefitWarning, match=r"sklearn\.frozen\.FrozenEstimator"):
        fitted = fit_estimator(own, X, Y, seed=0)
    np.testing.assert_array_equal(fitted.model.margin(X), clone(own).fit(X, Y).predict_proba(X)[:, 1])
    np.testing.assert_array_equal(own.coef_, before)
    assert fitted.refitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_estimator(LogisticRegression(), X, Y, seed=0)


@pytest.mark.parametrize(
    ("estimator", "sign"), [(RandomForestClassifier(9, random_state=0), 0), (RidgeClassifier(), -1)]
)
def test_the_positive_label_may_be_the_first(estimator: Any, sign: int) -> None:
    fitted = fit_estimator(estimator, X, Y, seed=0, positive="no")
    own = clone(estimator).fit(X, Y)
    truth = own.predict_proba(X)[:, 0] if sign == 0 else -own.decision_function(X)
    np.testing.assert_array_equal(fitted.model.margin(X), truth)
    assert fitted.model.classes.tolist() == ["yes", "no"]


@pytest.mark.parametrize("outputs", ["(n,)", "(n, 1)", "(n, 2)"])
def test_a_torch_module_that_returns_logits_is_a_frozen_estimator(outputs: str) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 2 if outputs == "(n, 2)" else 1), torch.nn.Dropout(0.9)]
    module = torch.nn.Sequential(*layers, *([torch.nn.Flatten(0)] if outputs == "(n,)" else []))
    fitted = fit_estimator(module, X, Y, seed=0)
    rows = torch.tensor(X, dtype=torch.float32)
    logits = (rows @ module[0].weight.T + module[0].bias).detach().double().numpy()  # no dropout
    truth = logits[:, 1] - logits[:, 0] if outputs == "(n, 2)" else logits[:, 0]
    np.testing.assert_allclose(fitted.training_scores, expit(truth), atol=1e-6)
    assert not fitted.refitted
    with torch.no_grad():
        module[0].weight.mul_(3.0)  # training it further must not reach what is mitigated
    np.testing.assert_array_equal(fitted.model.margin(X), fitted.training_scores)
    assert module.training


class Picky(LogisticRegression):  # type: ignore[misc]
    """Fails on one row, and would tell what is in it."""

    def predict_proba(self, X: Any) -> np.ndarray:
        if (np.asarray(X)[:, 0] == 99.0).any():
            raise KeyError("a secret value")
        return np.asarray(super().predict_proba(X))


@pytest.mark.parametrize("row", [0, 7, 59])
def test_a_model_that_fails_on_a_row_is_reported_with_the_row_and_without_its_values(row: int) -> None:
    model, rows = Picky().fit(X[60:], Y[60:]), X[:60].copy()
    rows[row, 0] = 99.0
    with pytest.raises(InputError, match=rf"Picky failed with KeyError on row {row} ") as caught:
        fit_estimator(FrozenEstimator(model), rows, Y[:60], seed=0)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_rows_that_fail_in_a_fold_are_named_as_they_are_in_x() -> None:
    rows = X.copy()
    rows[41, 0] = 99.0
    with pytest.raises(InputError, match="on row 41 "):
        fit_estimator(Picky(), rows, Y, seed=0)


@pytest.mark.parametrize("seed", range(5))  # whichever fold the row lies in
def test_what_an_estimator_cannot_be_fitted_on_is_its_own_error(seed: int) -> None:
    rows = X.astype(object)
    rows[0, 0] = {"not": "a number"}
    with pytest.raises(TypeError, match="number"):
        fit_estimator(LogisticRegression(), rows, Y, seed)


def test_missing_values_categories_and_lists_reach_the_model_as_they_were_given() -> None:
    class Keeps(LogisticRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            assert isinstance(X, pd.DataFrame)
            assert str(X.dtypes["word"]) == "category"
            return super().fit(X[["number"]].fillna(0), y)

        def predict_proba(self, X: Any) -> np.ndarray:
            assert str(X.dtypes["word"]) == "category"
            return np.asarray(super().predict_proba(X[["number"]].fillna(0)))

    frame = pd.DataFrame({"number": np.where(X[:, 0] > 1, np.nan, X[:, 0]), "word": pd.Categorical(["a", "b"] * 60)})
    assert fit_estimator(Keeps(), frame, Y, seed=0).refitted


class Mute(ClassifierMixin, BaseEstimator):
    def fit(self, X: Any, y: Any) -> Mute:
        self.classes_ = np.unique(y)
        return self


class Undecided(Mute):
    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), 2), np.nan)


@pytest.mark.parametrize(
    ("estimator", "labels", "message"),
    [
        (Mute(), Y, "neither predict_proba nor decision_function"),
        (Undecided(), Y, "no finite score in 24 row"),
        (LogisticRegression(), np.array(["a"] * 120), "1 different value"),
        (LogisticRegression(), np.array(["a", "b", *["c"] * 118]), "The label a has a single person"),
        (FrozenEstimator(LogisticRegression().fit(X, Y == "yes")), Y, "pass labels as the model knows them"),
        (FrozenEstimator(LogisticRegression()), Y, "LogisticRegression is not fitted: fit it first"),
        (LogisticRegression, Y, "pass an instance of a classifier"),
        (object(), Y, "neither predict_proba nor decision_function"),
        (torch.nn.Linear(3, 5), Y, r"predict_proba has shape \(120, 5\): two classes are needed"),
        (torch.nn.Flatten(0), Y, r"returned \(360,\) for 120 rows: return one logit per row"),
        (torch.nn.Linear(2, 1), Y, "Linear failed with RuntimeError on row 0"),
    ],
)
def test_what_cannot_be_mitigated_is_refused_in_one_line(estimator: Any, labels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit_estimator(estimator, X, labels, seed=0)
    assert "\n" not in str(caught.value)
