"""The default model: as accurate as scikit-learn's, with missing values and categories, scored out of fold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from apod.models.standard import CANDIDATES, clearly_better, fit_standard, plain_frame


@pytest.fixture
def people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    number, word = rng.normal(size=600), rng.choice(["a", "b", "c"], 600)
    labels = (number + (word == "b") + 0.5 * rng.normal(size=600) > 0.4).astype(np.int64)
    frame = pd.DataFrame({"number": number, "word": pd.Categorical(word), "flag": rng.random(600) > 0.5})
    frame.loc[::7, "number"] = np.nan
    frame.loc[::11, "word"] = np.nan
    return frame, labels


def test_missing_cells_new_categories_and_every_type_of_column_are_scored(
    people: tuple[pd.DataFrame, np.ndarray],
) -> None:
    frame, labels = people
    fitted = fit_standard(frame, labels, seed=0)
    new = pd.DataFrame({"number": [np.nan, 2.0], "word": ["never seen", None], "flag": [True, False]})
    scores = fitted.model.margin(new)
    assert ((scores > 0) & (scores < 1)).all()
    assert np.mean((fitted.model.margin(frame) > 0.5) == labels) > 0.75


@pytest.mark.parametrize("name", CANDIDATES)
def test_training_people_are_scored_by_models_that_have_not_seen_them(
    name: str, people: tuple[pd.DataFrame, np.ndarray]
) -> None:
    frame, labels = people
    fitted = fit_standard(frame, labels, seed=3, candidates={name: CANDIDATES[name]})
    plain, own = plain_frame(frame), np.empty(len(labels))
    recipe = CANDIDATES[name](["number", "flag"], ["word"], 3)
    for train, rest in StratifiedKFold(5, shuffle=True, random_state=3).split(frame, labels):
        model = clone(recipe).fit(plain.iloc[train], labels[train])
        own[rest] = model.predict_proba(plain.iloc[rest])[:, 1]
    np.testing.assert_array_equal(fitted.training_scores, own)


def test_boosting_is_chosen_where_the_truth_is_no_sum_and_logistic_regression_where_it_is() -> None:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(1500, 4)), columns=list("abcd"))
    product = (X["a"] * X["b"] > 0).to_numpy().astype(np.int64)
    total = (X.sum(axis=1) + rng.normal(size=1500) > 0).to_numpy().astype(np.int64)
    assert fit_standard(X, product, seed=0).name == "histogram gradient boosting"
    assert fit_standard(X, total, seed=0).name == "logistic regression"


def test_a_candidate_wins_by_more_than_chance_alone() -> None:
    other = np.zeros(400, dtype=bool)
    for wins, better in ((2, False), (3, True), (100, True)):
        assert clearly_better(np.arange(400) < wins, other) is better
    assert not clearly_better(np.arange(400) < 200, np.arange(400) >= 190)


def test_embeddings_are_left_to_logistic_regression(people: tuple[pd.DataFrame, np.ndarray]) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 6)), rng.integers(0, 2, 300)
    only = {"logistic regression": CANDIDATES["logistic regression"]}
    own = fit_standard(X, y, seed=0, candidates=only).model.margin(X)
    truth = LogisticRegression(max_iter=1000).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    np.testing.assert_allclose(own, truth.predict_proba((X - X.mean(axis=0)) / X.std(axis=0))[:, 1], atol=1e-3)


def test_a_column_that_is_missing_for_nearly_everybody_is_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "nothing": np.nan, "rare": np.nan})
    frame.loc[:3, "rare"] = 1.0
    y = (frame["x"] > 0).to_numpy().astype(np.int64)
    fitted = fit_standard(frame, y, 0)
    assert ((fitted.model.margin(frame) > 0.5) == y).mean() > 0.95
    nothing = fit_standard(frame[["nothing"]], y, 0)
    assert np.ptp(nothing.model.margin(frame[["nothing"]])) < 1e-9


def test_embeddings_get_logistic_regression() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 200))
    assert list(fit_standard(X, (X[:, 0] > 0).astype(np.int64), 0).accuracies) == ["logistic regression"]
