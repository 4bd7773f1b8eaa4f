"""Any classifier: cloned and fitted out of fold, or frozen and only asked; its scores come back bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold

from apod.errors import InputError
from apod.models.estimator import fit_estimator

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
        (LogisticRegression(), np.array(["a", "b", "c"] * 40), "3 different values"),
        (FrozenEstimator(LogisticRegression().fit(X, Y == "yes")), Y, "pass labels as the model knows them"),
    ],
)
def test_what_cannot_be_mitigated_is_refused_in_one_line(estimator: Any, labels: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit_estimator(estimator, X, labels, seed=0)
    assert "\n" not in str(caught.value)
