"""`APODClassifier` with four labels: all classes, the model bit for bit at strength 0, saved and loaded, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from apod import APODClassifier
from apod.errors import CheckpointError, InputError
from apod.models.standard import CANDIDATES, fit_standard
from support.many_labels import banded_people

X = banded_people().drop(columns=["band", "sex"])
Y = banded_people()["band"].to_numpy()
S = banded_people()["sex"].where(np.arange(500) % 4 == 0, None)


@pytest.fixture(scope="module")
def fitted() -> APODClassifier:
    return APODClassifier(random_state=0, caution=0.0).fit(X, Y, sensitive_features=S)


@pytest.fixture(scope="module")
def own() -> APODClassifier:
    return APODClassifier(LogisticRegression(), random_state=0, caution=0.0).fit(X, Y, sensitive_features=S)


def test_probabilities_and_scores_of_all_classes_agree_with_the_prediction(fitted: APODClassifier) -> None:
    assert fitted.classes_.tolist() == list("ABCD")
    assert fitted.positive_ is None
    for strength in (0.0, 0.1, 0.7):
        at = fitted.at(strength)
        found, predicted = at.predict_proba(X), at.predict(X)
        assert found.shape == (500, 4)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert (fitted.classes_[found.argmax(axis=1)] == predicted).all()
        assert (fitted.classes_[at.decision_function(X).argmax(axis=1)] == predicted).all()
    assert (fitted.at(0.7).predict(X) != fitted.at(0.0).predict(X)).any()


def test_at_strength_zero_the_users_model_answers_bit_for_bit(own: APODClassifier) -> None:
    at = own.at(0.0)
    assert (at.predict_proba(X) == own.estimator_.predict_proba(X)).all()
    assert (at.predict(X) == own.estimator_.predict(X)).all()
    assert (at.decision_function(X) == own.estimator_.decision_function(X)).all()


def test_a_model_without_probabilities_is_corrected_by_its_scores() -> None:
    found = APODClassifier(LinearSVC(), random_state=0).fit(X, Y, sensitive_features=S)
    at = found.at(0.5)
    assert (found.classes_[at.decision_function(X).argmax(axis=1)] == at.predict(X)).all()
    assert not hasattr(found, "predict_proba")


def test_a_torch_module_of_four_logits_is_mitigated() -> None:
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 4)
    found = APODClassifier(module, random_state=0).fit(X.to_numpy(np.float32), Y, sensitive_features=S)
    with torch.no_grad():
        want = torch.softmax(module(torch.tensor(X.to_numpy(np.float32))).double(), dim=1).numpy()
    np.testing.assert_allclose(found.at(0.0).predict_proba(X.to_numpy(np.float32)), want)


def test_weights_change_the_model_and_weights_of_one_change_nothing(fitted: APODClassifier) -> None:
    ones, some = np.ones(500), np.where(Y == "A", 3.0, 1.0)
    same, other = (
        APODClassifier(random_state=0, caution=0.0).fit(X, Y, sensitive_features=S, sample_weight=weights)
        for weights in (ones, some)
    )
    np.testing.assert_allclose(same.tradeoff_, fitted.tradeoff_, atol=1e-9)
    assert (other.at(0.0).predict(X) == "A").sum() > (fitted.at(0.0).predict(X) == "A").sum()


def test_tradeoff_selection_and_questions_are_there(fitted: APODClassifier) -> None:
    assert fitted.tradeoff_["gap"].notna().all()
    assert fitted.selection_ is not None
    assert fitted.selection_.before is not None
    assert fitted.selection_.before.low <= fitted.selection_.before.gap <= fitted.selection_.before.high
    asked = fitted.query(6)
    assert len(set(asked)) == 6
    assert S.iloc[asked].isna().all()


def test_saved_and_loaded_it_predicts_bit_for_bit_the_same(
    fitted: APODClassifier, own: APODClassifier, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "standard")
    own.save(tmp_path / "own")
    pairs = [
        (APODClassifier.load(tmp_path / "standard"), fitted),
        (APODClassifier.load(tmp_path / "own", estimator=own.estimator_), own),
    ]
    for loaded, first in pairs:
        for strength in (0.0, 0.3):
            assert (loaded.at(strength).predict_proba(X) == first.at(strength).predict_proba(X)).all()
        assert loaded.positive_ is None
    other = LogisticRegression(C=0.1).fit(X, Y)
    with pytest.raises(CheckpointError, match="another model"):
        APODClassifier.load(tmp_path / "own", estimator=other)


@pytest.mark.parametrize("name", CANDIDATES)
def test_standard_models_as_arrays_score_as_the_pipeline_does(name: str) -> None:
    frame = X.assign(kind=np.where(X["a"] > 0.5, "p", "q"))
    frame.loc[::7, "b"] = np.nan
    codes = np.searchsorted(list("ABCD"), Y)
    found = fit_standard(frame, codes, 0, candidates={name: CANDIDATES[name]})
    pipeline = CANDIDATES[name](list("abcd"), ["kind"], 0, None).fit(frame, codes)
    assert type(found.model.estimator).__module__ == "apod.models.standard_arrays"
    np.testing.assert_allclose(found.model.margin(frame), pipeline.predict_proba(frame), atol=1e-9)
    assert (found.model.margin(frame)[3:4] == found.model.margin(frame.iloc[3:4])).all()
    assert found.training_scores.shape == (500, 4)


def test_explain_says_what_moves_a_decision_against_its_rival(fitted: APODClassifier) -> None:
    at = fitted.at(0.7)
    said = at.explain(X)
    assert (said["corrected"] == at.predict(X)).all()
    assert (said["decision"] == fitted.at(0.0).predict(X)).all()
    changed = said[said["changed"]]
    assert (changed["rival"] == changed["corrected"]).all()
    assert (changed["push"] > changed["margin"]).all()
    assert (said[~said["changed"]]["push"] <= said[~said["changed"]]["margin"] + 1e-12).all()
    assert changed["stands"].between(0, 1).all()


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"positive": "A"}, Y, "4 classes, none of which is the positive one: leave positive out"),
        ({"threshold": 0.4}, Y, "A threshold tells two labels apart, and y has 4"),
        ({"body": "contrastive"}, Y, "Heads on a body know two labels, and y has 4"),
        ({}, np.arange(500) % 40, "40 different values in 500 rows, and at most 20 labels"),
        ({}, np.where(np.arange(500) == 3, "E", Y), "y holds the class E in a single row"),
    ],
)
def test_what_many_labels_cannot_have_is_refused_in_a_line(parameters: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        APODClassifier(**parameters).fit(X, labels, sensitive_features=S)
    assert "\n" not in str(caught.value)


def test_infinite_values_are_refused_with_their_row() -> None:
    broken = X.copy()
    broken.loc[17, "b"] = np.inf
    with pytest.raises(InputError, match=r"row 17 .* NaN or infinity"):
        APODClassifier().fit(broken, Y, sensitive_features=S)


def test_a_model_that_does_not_predict_its_highest_score_is_refused() -> None:
    class Odd(DecisionTreeClassifier):
        def predict(self, rows: pd.DataFrame) -> np.ndarray:
            return self.classes_[self.predict_proba(rows).argmin(axis=1)]

    with pytest.raises(InputError, match="does not predict the label of its highest score"):
        APODClassifier(FrozenEstimator(Odd(max_depth=3).fit(X, Y))).fit(X, Y, sensitive_features=S)
