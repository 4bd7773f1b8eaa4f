"""Pictures and texts in pipelines: APODClassifier corrects a model of a list of paths, and guesses from embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apod import APODClassifier, PictureEmbedding, TextEmbedding
from apod.errors import InputError
from apod.models.embedders import open_picture_embedder


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Pictures whose shade says the label and whose stripes say the group."""
    folder, rng = tmp_path_factory.mktemp("faces"), np.random.default_rng(0)
    labels, groups = (rng.random((2, 80)) < 0.5).astype(int)
    paths = []
    for number, (label, group) in enumerate(zip(labels, groups, strict=True)):
        pixels = rng.normal(60 + 110 * label, 30, (24, 24))
        (pixels if group else pixels.T)[::4] += 60
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.png")
        paths.append(str(folder / f"{number}.png"))
    return paths, labels, np.array(["a", "b"], dtype=object)[groups]


def test_a_classifier_of_a_list_of_paths_is_fitted_corrected_saved_and_loaded(
    faces: tuple[list[str], np.ndarray, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APOD_CACHE", str(tmp_path))
    paths, labels, groups = faces
    known = [group if row < 30 else None for row, group in enumerate(groups)]
    model = make_pipeline(PictureEmbedding(size=(32, 32)), StandardScaler(), LogisticRegression(C=0.01))
    classifier = APODClassifier(model, random_state=0).fit(paths, labels, sensitive_features=known)
    assert (classifier.predict(paths) == labels).mean() > 0.9
    assert len(classifier.query(batch_size=3)) == 3
    classifier.save(tmp_path / "c.apod")
    again = APODClassifier.load(tmp_path / "c.apod", estimator=classifier.estimator_)
    assert (again.predict_proba(paths) == classifier.predict_proba(paths)).all()
    guessed = classifier._state.model.groups.members(classifier._state.people(paths).inputs)  # type: ignore[union-attr]
    right = (np.array(["a", "b"])[guessed.argmax(axis=1)] == groups)[30:]
    assert right.mean() > 0.7  # by what is on the pictures: names of files say nothing


def test_the_step_gives_what_the_embedder_gives(faces: tuple[list[str], np.ndarray, np.ndarray]) -> None:
    paths = faces[0][:3]
    embedder = open_picture_embedder(size=(32, 32))
    expected = embedder.forward([embedder.prepare(Path(path).read_bytes()) for path in paths])
    step = PictureEmbedding(size=(32, 32), keep=False)
    assert (step.fit(paths).transform(paths) == expected).all()
    assert (step.transform([Path(path).read_bytes() for path in paths]) == expected).all()
    with pytest.raises(InputError, match="1 of 2 cells of 'X' cannot be used: 1 because there is no such file"):
        step.transform([paths[0], "/nowhere.png"])


def test_texts_are_a_step_too() -> None:
    texts = ["cook bakes bread", "pilot flies planes", "cook fries bread", "pilot lands planes"] * 10
    labels = np.array([0, 1, 0, 1] * 10)
    groups = [["a", "b"][row % 4 // 2] if row < 20 else None for row in range(40)]
    model = make_pipeline(TextEmbedding(), LogisticRegression())
    classifier = APODClassifier(model, random_state=0).fit(texts, labels, sensitive_features=groups)
    assert (classifier.predict(texts) == labels).all()
    assert classifier.predict(["the pilot", None, "bread"]).tolist()[::2] == [1, 0]
