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


@pytest.fixture(scope="module")
def portraits() -> pd.DataFrame:
    """400 noisy directions of a picture that say a little about somebody, and two ordinary columns."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(1000, 400)), columns=[f"face.{n}" for n in range(400)])
    return frame.assign(years=rng.normal(size=1000), city=rng.choice(["a", "b"], 1000))


@pytest.mark.parametrize("column", ["years", "city"])
def test_an_ordinary_column_that_decides_is_not_drowned_by_a_picture(column: str, portraits: pd.DataFrame) -> None:
    decides = portraits["years"] if column == "years" else np.where(portraits["city"] == "a", 1.0, -1.0)
    labels = (np.asarray(decides) + 0.3 * np.random.default_rng(6).normal(size=1000) > 0).astype(np.int64)
    alone = fit_standard(portraits[[column]], labels, seed=0)
    beside = fit_standard(portraits, labels, seed=0)
    right = [np.mean((own.training_scores > 0.5) == labels) for own in (alone, beside)]
    assert right[0] > 0.88
    assert right[1] > right[0] - 0.02  # with one prior for all columns it was 0.78 and 0.88


def test_a_picture_keeps_its_proportions_and_has_a_prior_of_its_own(portraits: pd.DataFrame) -> None:
    faces = portraits.filter(like="face.") * np.linspace(0.2, 3, 400)
    labels = (faces.iloc[:, -20:].sum(axis=1) > 0).to_numpy().astype(np.int64)
    fitted = fit_standard(faces, labels, seed=0)
    X = faces - faces.mean()
    direct = LogisticRegression(C=1 / X.var(ddof=0).sum(), tol=1e-8, max_iter=5000).fit(X, labels)
    np.testing.assert_allclose(fitted.model.margin(faces), direct.predict_proba(X)[:, 1], atol=5e-3)


def test_an_embedding_in_units_of_its_own_is_standardised(portraits: pd.DataFrame) -> None:
    faces = portraits.filter(like="face.")
    labels = (faces["face.0"] + faces["face.1"] > 0).to_numpy().astype(np.int64)
    in_dollars = faces.assign(**{"face.0": 1e5 * faces["face.0"]})
    found = [fit_standard(frame, labels, seed=0).model.margin(frame) for frame in (faces, in_dollars)]
    np.testing.assert_allclose(*found, atol=0.05)


def test_weights_of_pictures_and_columns_are_those_of_their_priors(portraits: pd.DataFrame) -> None:
    """Scaled columns and one C are the same as one penalty for each column: compared with its optimality condition."""
    frame = portraits.drop(columns="city")
    labels = (frame["years"] + frame["face.0"] + frame["face.7"] > 0).to_numpy().astype(np.int64)
    fitted = fit_standard(frame, labels, seed=0)
    own = fitted.model.estimator.arrays  # type: ignore[attr-defined]
    X, deviations = (frame - frame.mean()).to_numpy(), frame.std(ddof=0).to_numpy()
    variances = np.append(np.full(400, 1 / (deviations[:400] ** 2).sum()), 1 / deviations[400] ** 2)
    slope = X.T @ (labels - fitted.model.margin(frame))
    np.testing.assert_allclose((own["weights"] / own["scale"] / variances - slope) / len(frame), 0, atol=1e-3)
