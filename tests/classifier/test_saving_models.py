"""A saved correction predicts the same bits, holds no person, and acts on the model it was made for alone."""

from __future__ import annotations

import json
import pickle
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.torch
import torch
from classifier_people import People
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from saved_files import VALUES, places, read
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from apod import APODClassifier
from apod.classifier.deployment import classifier_of
from apod.errors import CheckpointError, InputError
from apod.files import checksum
from apod.method.corrected import model_pool
from apod.method.settings import Settings
from apod.models.estimator import content_fingerprint
from apod.models.model import fit_scores


@pytest.fixture(scope="module")
def rich(people: People) -> pd.DataFrame:
    """Numbers with gaps, categories, free text and a name for everybody."""
    frame = people.X.assign(
        where=np.where(people.X["neighbourhood"] > 0, "east", "west"),
        about=[f"person {row} likes {'tea' if x > 0 else 'coffee'}" for row, x in enumerate(people.X["merit"])],
        name=[f"Name{row:03d}" for row in range(300)],
    )
    frame.loc[::7, "merit"] = np.nan
    frame.loc[::11, "where"] = None
    return frame


@pytest.fixture(scope="module", params=["linear", "trees"])
def corrected(request: Any, people: People, rich: pd.DataFrame) -> APODClassifier:
    """Nobody may change it: it is shared by all tests."""
    labels = people.y
    if request.param == "trees":  # nothing that a line tells
        labels = ((people.X["merit"] * people.X["neighbourhood"]) > 0).to_numpy().astype(int)
    found = APODClassifier(random_state=0).fit(rich, labels, sensitive_features=people.known)
    assert found.model_ == {"linear": "logistic regression", "trees": "histogram gradient boosting"}[request.param]
    return found


@pytest.fixture
def saved(corrected: APODClassifier, tmp_path: Path) -> Path:
    path = tmp_path / "classifier.apod"
    corrected.save(path)
    return path


def same(one: APODClassifier, other: APODClassifier, X: Any) -> None:
    for strength in (0, 0.1, 0.9):
        a, b = one.at(strength), other.at(strength)
        np.testing.assert_array_equal(a.predict(X), b.predict(X))
        np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))
        if hasattr(a, "predict_proba"):
            np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_a_loaded_correction_is_the_same_at_every_strength(
    corrected: APODClassifier, saved: Path, rich: pd.DataFrame
) -> None:
    loaded = APODClassifier.load(saved)
    same(loaded, corrected, rich)
    new = rich.assign(where="north", about="nothing at all")
    same(loaded, corrected, new)
    pd.testing.assert_frame_equal(loaded.tradeoff_, corrected.tradeoff_)
    assert loaded.get_params() == corrected.get_params()
    assert loaded.selection_ == corrected.selection_
    assert loaded.selected_because_ == corrected.selected_because_
    assert (loaded.groups_, loaded.model_) == (corrected.groups_, corrected.model_)
    with pytest.raises(InputError, match="fit again to query"):
        loaded.query()
    loaded.at(0.3).save(saved)
    again = APODClassifier.load(saved)
    assert (again.selected_strength_, again.selected_because_) == (0.3, "Given by the caller.")


def test_the_file_holds_one_vector_of_weights_no_draw_no_row_and_nobodys_name(saved: Path) -> None:
    tensors, facts = read(saved)
    own = {name: tuple(value.shape) for name, value in tensors.items() if name.startswith("correction.")}
    p = own["correction.components"][1]
    assert own["correction.weights"] == (1, p + 1)
    assert max(max(shape) for shape in own.values()) < 100  # there are 300 people
    assert "Confidential" in facts["note"]
    assert b"Name001" not in saved.read_bytes()
    assert b"person" not in saved.read_bytes()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600


def test_nothing_is_corrected_where_nobody_is_known(people: People, tmp_path: Path) -> None:
    plain = APODClassifier(random_state=0).fit(people.X, people.y)
    plain.save(tmp_path / "plain.apod")
    loaded = APODClassifier.load(tmp_path / "plain.apod")
    np.testing.assert_array_equal(loaded.predict_proba(people.X), plain.predict_proba(people.X))
    with pytest.raises(InputError, match="only strength 0"):
        loaded.at(1)


MODELS: dict[str, Callable[[], Any]] = {
    "linear": LogisticRegression,
    "trees": lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "forest": lambda: RandomForestClassifier(5, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_users_own_model_is_recognised_after_it_was_stored_and_another_is_refused(
    name: str, people: People, tmp_path: Path
) -> None:
    classifier = APODClassifier(MODELS[name](), random_state=0)
    classifier.fit(people.X, people.y, sensitive_features=people.known)
    classifier.save(tmp_path / "own.apod")
    assert len((tmp_path / "own.apod").read_bytes()) < 20_000
    stored = pickle.loads(pickle.dumps(classifier.estimator_))  # noqa: S301  (as its owner would store it)
    for model in (stored, FrozenEstimator(stored)):
        same(APODClassifier.load(tmp_path / "own.apod", estimator=model), classifier, people.X)
    other = MODELS[name]().fit(people.X.iloc[10:], people.y[10:])
    with pytest.raises(CheckpointError, match="is another model than the") as refused:
        APODClassifier.load(tmp_path / "own.apod", estimator=other)
    assert "\n" not in str(refused.value)
    with pytest.raises(CheckpointError, match=r"is not in the file: pass it, load\(path, estimator=model\)"):
        APODClassifier.load(tmp_path / "own.apod")


def test_a_torch_module_is_recognised_by_its_weights(people: People, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, X = torch.nn.Linear(2, 1), people.X.to_numpy(dtype=np.float32)
    classifier = APODClassifier(module, random_state=0).fit(X, people.y, sensitive_features=people.known)
    classifier.save(tmp_path / "own.apod")
    again = torch.nn.Linear(2, 1)
    again.load_state_dict(module.state_dict())
    same(APODClassifier.load(tmp_path / "own.apod", estimator=again), classifier, X)
    with pytest.raises(CheckpointError, match="the Linear passed is another model"):
        APODClassifier.load(tmp_path / "own.apod", estimator=torch.nn.Linear(2, 1))


def test_what_cannot_be_recognised_again_is_not_saved(people: People, tmp_path: Path) -> None:
    model = make_pipeline(FunctionTransformer(lambda x: x), LogisticRegression())
    classifier = APODClassifier(model, random_state=0).fit(people.X, people.y)
    with pytest.raises(InputError, match="use a named function"):
        classifier.save(tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_not_passed_where_the_file_has_one(saved: Path, people: People) -> None:
    with pytest.raises(CheckpointError, match="has a model of its own: leave estimator out"):
        APODClassifier.load(saved, estimator=LogisticRegression().fit(people.X, people.y))


def test_scores_from_elsewhere_are_corrected_after_loading(people: People, tmp_path: Path) -> None:
    scores = LogisticRegression().fit(people.X, people.y).predict_proba(people.X)[:, 1]
    frame = people.X.assign(model_score=scores)
    pool = model_pool(fit_scores(frame, "model_score"), (frame, people.y), reads=(people.X, None))
    mitigation = pool.mitigation(Settings(), 2, 0)
    for row in np.flatnonzero(people.known != None):  # noqa: E711
        mitigation.add_answer(0, int(row), ["circle", "triangle"].index(people.known[row]))
    mitigation.refit()
    names, labels = ("circle", "triangle"), np.array(["no", "yes"])
    classifier = classifier_of(
        pool,
        mitigation,
        Settings(),
        name="the given scores",
        columns=list(frame.columns),
        classes=labels,
        positive=1,
        group_names=names,
    )
    classifier.save(tmp_path / "scores.apod")
    loaded = APODClassifier.load(tmp_path / "scores.apod")
    same(loaded, classifier, frame)
    np.testing.assert_array_equal(loaded.at(0).predict_proba(frame)[:, 1], scores)
    np.testing.assert_array_equal(loaded.at(0).predict(frame), labels[(scores > 0.5).astype(int)])
    with pytest.raises(InputError, match=r"'model_score': 1 score.*outside"):
        loaded.predict(frame.assign(model_score=np.where(np.arange(300) == 4, 1.5, scores)))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_a_header_changed_anywhere_is_refused_or_predicts(
    data: st.DataObject, saved: Path, rich: pd.DataFrame, tmp_path: Path
) -> None:
    tensors, facts = read(saved)
    path, place = tmp_path / "changed", facts
    *way, last = data.draw(st.sampled_from(places(facts)))
    for key in way:
        place = place[key]
    place[last] = data.draw(VALUES)
    text = json.dumps(facts)
    safetensors.torch.save_file(tensors, path, metadata={"facts": text, "checksum": checksum(tensors, text)})
    try:
        loaded = APODClassifier.load(path)
    except CheckpointError:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has feature names")  # a file without names was fitted without them
        try:
            predicted = loaded.predict(rich)
        except ValueError:  # other columns than these, by the names in the file
            return
    assert set(predicted.tolist()) <= set(loaded.classes_.tolist())


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_an_array_changed_anywhere_is_refused_or_predicts(
    data: st.DataObject, saved: Path, rich: pd.DataFrame, tmp_path: Path
) -> None:
    tensors, facts = read(saved)
    name = data.draw(st.sampled_from(sorted(tensors)))
    flat = tensors[name].flatten().clone()
    if len(flat):
        value = data.draw(st.sampled_from([-1, 0, 1, 7, 300, 10**6, float("nan"), float("inf"), -1e300]))
        if not (flat.dtype == torch.int64 and not np.isfinite(value)):
            flat[data.draw(st.integers(0, len(flat) - 1))] = (
                value if abs(value) < 1e7 or flat.is_floating_point() else 9
            )
    tensors[name] = flat[: len(flat) - 1] if data.draw(st.booleans()) else flat.reshape(tensors[name].shape)
    path, text = tmp_path / "changed", json.dumps(facts)
    safetensors.torch.save_file(tensors, path, metadata={"facts": text, "checksum": checksum(tensors, text)})
    try:
        loaded = APODClassifier.load(path)
    except CheckpointError:
        return
    with np.errstate(all="ignore"):
        try:
            predicted = loaded.predict(rich)
        except InputError:
            return
    assert set(predicted.tolist()) <= set(loaded.classes_.tolist())


def test_a_fingerprint_is_that_of_every_copy() -> None:
    X, y = np.arange(20.0).reshape(-1, 1), np.arange(20) // 10
    one, other = LogisticRegression().fit(X, y), LogisticRegression(C=2.0).fit(X, y)
    copy = pickle.loads(pickle.dumps(one))  # noqa: S301  (our own bytes)
    assert content_fingerprint(one) == content_fingerprint(copy) == content_fingerprint(FrozenEstimator(one))
    assert content_fingerprint(one) != content_fingerprint(other)
