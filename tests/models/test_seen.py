"""A frozen model that was trained on the rows it is to be corrected on is suspected, an honest one is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from apod.models.estimator import fit_estimator
from apod.models.standard import TrainedOnWarning, warn_if_trained_on

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] + RNG.normal(size=400) > 0).astype(np.int64)


def test_a_forest_on_its_own_training_rows_is_suspected() -> None:
    forest = RandomForestClassifier(50, random_state=0).fit(X, Y)
    fitted = fit_estimator(FrozenEstimator(forest), X, Y, seed=0)
    with pytest.warns(TrainedOnWarning, match="pass rows it has not seen"):
        warn_if_trained_on(fitted, X, Y, 0)


@pytest.mark.parametrize("case", ["other rows", "easy", "cloned"])
def test_honest_models_are_not(case: str) -> None:
    y = (X[:, 0] > 0).astype(np.int64) if case == "easy" else Y
    model = RandomForestClassifier(50, random_state=0) if case != "easy" else LogisticRegression(C=1e6)
    seen = slice(0, 200) if case == "other rows" else slice(None)
    judged = slice(200, None) if case == "other rows" else slice(None)
    given = model if case == "cloned" else FrozenEstimator(model.fit(X[seen], y[seen]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_trained_on(fit_estimator(given, X[judged], y[judged], seed=0), X[judged], y[judged], 0)
