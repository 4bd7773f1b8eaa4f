"""A saved classifier is one file without code, predicts the same bits, and is refused when anything is off."""

from __future__ import annotations

import io
import json
import pickle
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
from classifier_people import FAST, People
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from saved_files import VALUES, Facts, Tensors, places, read
from sklearn.exceptions import NotFittedError

from apod import APODClassifier
from apod.errors import CheckpointError, InputError
from apod.files import checksum


@pytest.fixture
def saved(fitted: APODClassifier, tmp_path: Path) -> Path:
    path = tmp_path / "fair.safetensors"
    fitted.save(path)
    return path


@pytest.fixture
def written(saved: Path) -> bytes:
    return saved.read_bytes()


def test_a_loaded_classifier_is_the_same_at_every_strength(fitted: APODClassifier, people: People, saved: Path) -> None:
    loaded = APODClassifier.load(saved)
    for strength in (0.0, 0.2, 1.0):
        same = loaded.at(strength).decision_function(people.X) == fitted.at(strength).decision_function(people.X)
        assert same.all()
    np.testing.assert_array_equal(loaded.predict_proba(people.X), fitted.predict_proba(people.X))
    np.testing.assert_array_equal(loaded.predict(people.X), fitted.predict(people.X))
    pd.testing.assert_frame_equal(loaded.tradeoff_, fitted.tradeoff_)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.selected_strength_ == fitted.selected_strength_
    assert loaded.groups_ == fitted.groups_
    assert loaded.feature_names_in_.tolist() == ["merit", "neighbourhood"]
    with pytest.raises(InputError, match="fit again to query"):
        loaded.query()
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(people.X[["merit"]])


def test_a_loaded_classifier_can_be_fitted_and_saved_again(people: People, saved: Path) -> None:
    again = APODClassifier.load(saved)
    loaded = APODClassifier.load(saved)
    again.fit(people.X, people.y, sensitive_features=people.known)
    np.testing.assert_array_equal(again.decision_function(people.X), loaded.decision_function(people.X))
    loaded.save(saved)
    np.testing.assert_array_equal(
        APODClassifier.load(saved).decision_function(people.X), again.decision_function(people.X)
    )


@pytest.mark.parametrize(
    "y",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-3, 5], dtype=np.int8),
        np.array([0.1, 7.0], dtype=np.float32).round(),
    ],
    ids=lambda y: y.dtype.str,
)
def test_labels_of_every_kind_come_back(y: Any, people: People, tmp_path: Path) -> None:
    classifier = APODClassifier(**FAST).fit(people.X, y[people.y])
    classifier.save(tmp_path / "one")
    loaded = APODClassifier.load(tmp_path / "one")
    assert loaded.classes_.dtype == classifier.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(people.X), classifier.predict(people.X))


def test_categories_settings_and_embeddings_survive(people: People, tmp_path: Path) -> None:
    frame = people.X.assign(where=np.where(people.X["neighbourhood"] > 0, "östlich", None))
    settings = {
        "hidden": (8, 4),
        "random_state": np.random.RandomState(0),
        "strengths": np.array([0.5]),
        "strength": 0.5,
    }
    table = APODClassifier(**FAST | settings).fit(frame, people.y, sensitive_features=people.known)
    matrix = APODClassifier(**FAST | {"body": "precomputed"}).fit(people.X.to_numpy(), people.y)
    for classifier, X in ((table, frame), (matrix, people.X.to_numpy())):
        classifier.save(str(tmp_path / "one"))
        loaded = APODClassifier.load(str(tmp_path / "one"))
        np.testing.assert_array_equal(loaded.decision_function(X), classifier.decision_function(X))
    assert not hasattr(loaded, "feature_names_in_")


def test_the_file_holds_no_row_and_nobodys_group(saved: Path, people: People) -> None:
    tensors, facts = read(saved)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "heads": (3, (16 + 1) * 8 + (8 + 1) * 2),
        "body.weight": (16, 2),
        "body.bias": (16,),
    }
    assert set(facts) == {
        "kind", "format", "parameters", "classes", "positive", "groups", "n_features", "feature_names", "encoder",
        "sizes", "strengths", "selected_strength", "tradeoff",
    }  # fmt: skip
    assert list(saved.parent.iterdir()) == [saved]


def test_a_torch_module_is_not_saved_and_the_error_says_what_to_do_instead(people: People, tmp_path: Path) -> None:
    classifier = APODClassifier(**FAST | {"body": torch.nn.Linear(2, 3)}).fit(people.X, people.y)
    with pytest.raises(InputError, match="body='precomputed'"):
        classifier.save(tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


def test_saving_needs_a_fit_and_a_place(fitted: APODClassifier, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        APODClassifier().save(tmp_path / "one")
    with pytest.raises(InputError, match="no folder"):
        fitted.save(tmp_path / "nowhere" / "one")
    with pytest.raises(InputError, match="cannot be written"):
        fitted.save(tmp_path)


def test_a_file_that_is_open_gets_what_a_path_gets(fitted: APODClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "one")
    file = io.BytesIO()
    fitted.save(file)
    assert contents(file.getvalue()) == contents((tmp_path / "one").read_bytes())


def contents(saved: bytes) -> tuple[Any, bytes]:
    """Header and numbers; safetensors writes the parts of a header in any order."""
    end = 8 + int.from_bytes(saved[:8], "little")
    return json.loads(saved[8:end]), saved[end:]


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("loading ran code of the file",)


def test_a_file_that_is_something_else_is_refused_without_running_it(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no file"):
        APODClassifier.load(tmp_path / "nothing")
    with pytest.raises(CheckpointError):
        APODClassifier.load(tmp_path)
    other = tmp_path / "other"
    other.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="cannot be read"):
        APODClassifier.load(other)
    safetensors.torch.save_file({"heads": torch.zeros(1)}, other)
    with pytest.raises(CheckpointError, match="not a saved APODClassifier"):
        APODClassifier.load(other)
    whole = saved.read_bytes()
    for size in (0, 5, 200, len(whole) - 1):
        other.write_bytes(whole[:size])
        with pytest.raises(CheckpointError):
            APODClassifier.load(other)


def _put(*keys: Any, value: Any) -> Callable[[Tensors, Facts], None]:
    def change(tensors: Tensors, facts: Facts) -> None:
        place: Any = facts
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def _tensor(name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors, Facts], None]:
    def change(tensors: Tensors, facts: Facts) -> None:
        tensors[name] = make(tensors.get(name, torch.zeros(3)))

    return change


CHANGES = {
    "newer format": _put("format", value=2),
    "head not finite": _tensor("heads", lambda t: t.index_fill(1, torch.tensor([4]), torch.nan)),
    "head missing": _tensor("heads", lambda t: t[:2]),
    "head too wide": _tensor("heads", lambda t: torch.cat([t, t], dim=1)),
    "head of other type": _tensor("heads", lambda t: t.double()),
    "head of a type NumPy lacks": _tensor("heads", lambda t: t.bfloat16()),
    "heads flat": _tensor("heads", lambda t: t.flatten()),
    "body not finite": _tensor("body.bias", lambda t: t * torch.inf),
    "body of other shape": _tensor("body.weight", lambda t: t[:, :1]),
    "body missing": lambda tensors, facts: tensors.pop("body.weight"),
    "tensor too many": _tensor("more", lambda t: t),
    "sizes of another head": _put("sizes", value=[16, 4, 2]),
    "sizes of three classes": _put("sizes", 2, value=3),
    "size not whole": _put("sizes", 1, value="8"),
    "no sizes": lambda tensors, facts: facts.pop("sizes"),
    "strength twice": _put("strengths", value=[0.0, 0.2, 0.2]),
    "strength not finite": _put("strengths", 1, value=float("nan")),
    "selected elsewhere": _put("selected_strength", value=0.3),
    "scale not positive": _put("encoder", "columns", 0, "scale", value=0.0),
    "mean not finite": _put("encoder", "columns", 0, "mean", value=float("inf")),
    "encoder of other format": _put("encoder", "format", value=0),
    "encoder without columns": _put("encoder", "columns", value=[]),
    "encoder gone": _put("encoder", value=None),
    "encoder no record": _put("encoder", value="x"),
    "features miscounted": _put("n_features", value=3),
    "names miscounted": _put("feature_names", value=["merit"]),
    "classes of code": _put("classes", "dtype", value="V8"),
    "too many classes": _put("classes", "values", value=list(range(30))),
    "classes out of order": _put("classes", "values", value=[1, 0]),
    "class is a list": _put("classes", "values", value=[[], []]),
    "group no text": _put("groups", value=[1, 2]),
    "unknown parameter": _put("parameters", "colour", value="red"),
    "impossible parameter": _put("parameters", "notion", value="none"),
    "table not rectangular": _put("tradeoff", "rows", 0, value=[1.0]),
    "table with text": _put("tradeoff", "rows", 0, 0, value="x"),
    "facts no record": _put("parameters", value=3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_parts_do_not_fit_is_refused(change: str, saved: Path) -> None:
    tensors, facts = read(saved)
    CHANGES[change](tensors, facts)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    safetensors.torch.save_file(tensors, saved, metadata={"facts": json.dumps(facts)})
    with pytest.raises(CheckpointError, match=saved.name):
        APODClassifier.load(saved)


def test_a_folder_is_no_saved_classifier(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is a folder: pass the path given to save"):
        APODClassifier.load(tmp_path)


def test_a_type_of_300_million_letters_is_refused_when_it_is_loaded(saved: Path) -> None:
    tensors, facts = read(saved)
    facts["classes"] = {"dtype": "<U300000000", "values": ["no", "yes"]}
    safetensors.torch.save_file(tensors, saved, metadata={"facts": json.dumps(facts)})
    with pytest.raises(CheckpointError, match="of no label's type"):
        APODClassifier.load(saved)


def test_a_header_nested_too_deeply_is_refused_in_a_line(saved: Path) -> None:
    tensors, _ = read(saved)
    safetensors.torch.save_file(tensors, saved, metadata={"facts": "[" * 100_000 + "]" * 100_000})
    with pytest.raises(CheckpointError, match="nested too deeply"):
        APODClassifier.load(saved)


@pytest.mark.parametrize("where", ["header", "numbers"])
def test_a_changed_byte_is_noticed(where: str, saved: Path) -> None:
    whole = bytearray(saved.read_bytes())
    place = whole.index(b"selected_strength") if where == "header" else len(whole) - 7
    whole[place] ^= 1
    saved.write_bytes(whole)
    with pytest.raises(CheckpointError, match="checksum is wrong"):
        APODClassifier.load(saved)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_header_changed_anywhere_is_refused_or_predicts(
    data: st.DataObject, written: bytes, people: People, tmp_path: Path
) -> None:
    path = tmp_path / "changed"
    path.write_bytes(written)
    tensors, facts = read(path)
    _put(*data.draw(st.sampled_from(places(facts))), value=data.draw(VALUES))(tensors, facts)
    text = json.dumps(facts)
    safetensors.torch.save_file(tensors, path, metadata={"facts": text, "checksum": checksum(tensors, text)})
    try:
        loaded = APODClassifier.load(path)
    except CheckpointError:
        return
    names = getattr(loaded, "feature_names_in_", people.X.columns)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X has feature names")  # a file without names was fitted without them
        predicted = loaded.predict(people.X.set_axis(names, axis=1))
    assert set(predicted.tolist()) <= set(loaded.classes_.tolist())


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 4000), bytes_=st.binary(min_size=1, max_size=9))
def test_a_file_with_any_bytes_changed_is_refused_or_says_the_same(
    place: int, bytes_: bytes, written: bytes, fitted: APODClassifier, people: People, tmp_path: Path
) -> None:
    path = tmp_path / "changed"
    path.write_bytes(written[:place] + bytes_ + written[place + len(bytes_) :])
    try:
        loaded = APODClassifier.load(path)
    except CheckpointError:
        return
    np.testing.assert_array_equal(loaded.predict_proba(people.X), fitted.predict_proba(people.X))
    assert (loaded.classes_ == fitted.classes_).all()
