"""`apod predict`: a file of new people gets both decisions and a score, and what cannot be is one line."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from apod import APODClassifier, make_example
from apod.classifier.deployment import decide
from support.commands import apod


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    example = make_example(600)
    return example.features.assign(
        where=np.where(example.features["neighbourhood"] > 0.5, "east", "west"),
        member=np.where(np.arange(600) % 2, "yes", "no"),
        label=example.labels,
        group=np.array(example.group_names, dtype=object)[example.groups],
    )


@pytest.fixture(scope="module")
def saved(people: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = people.drop(columns=["label", "group"]).assign(member=(people["member"] == "yes").astype(float))
    groups = people["group"].where(people.index < 80)
    classifier = APODClassifier(strength=0.4, random_state=0).fit(X, people["label"], sensitive_features=groups)
    path = tmp_path_factory.mktemp("saved") / "classifier.apod"
    classifier.save(path)
    return path


def write(people: pd.DataFrame, path: Path) -> Path:
    people.drop(columns=["label", "group"]).to_csv(path, index=False)
    return path


def test_everybody_gets_both_decisions_and_a_score(people: pd.DataFrame, saved: Path, tmp_path: Path) -> None:
    new = write(people.assign(id=[f"P{row}" for row in range(600)]), tmp_path / "new.csv")
    done = apod("predict", saved, new, "--out", tmp_path / "scored.csv", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert list(scored.columns) == ["row", "id", "base", "corrected", "score"]
    loaded = APODClassifier.load(saved)
    X = people[["merit", "neighbourhood", "where"]].assign(member=(people["member"] == "yes").astype(float))
    np.testing.assert_array_equal(scored["base"], loaded.at(0).predict(X))
    np.testing.assert_array_equal(scored["corrected"], loaded.predict(X))
    np.testing.assert_allclose(scored["score"], loaded.predict_proba(X)[:, 1], rtol=1e-15)
    assert scored["id"].tolist() == [f"P{row}" for row in range(600)]
    said = json.loads(done.stdout)
    assert said["rows"] == 600
    assert said["changed"] == (scored["base"] != scored["corrected"]).mean() > 0
    assert said["warnings"] == []
    content = (tmp_path / "scored.csv").read_text()
    assert "circle" not in content
    assert "triangle" not in content
    assert stat.S_IMODE((tmp_path / "scored.csv").stat().st_mode) == 0o600
    alone = apod("predict", saved, new, "--out", tmp_path / "zero.csv", "--strength", "0", folder=tmp_path)
    assert alone.returncode == 0, alone.stderr
    assert (pd.read_csv(tmp_path / "zero.csv")["corrected"] == scored["base"]).all()


def test_a_file_of_one_person_is_read_as_the_first_table_was(people: pd.DataFrame, saved: Path, tmp_path: Path) -> None:
    whole = decide(APODClassifier.load(saved), people[["merit", "neighbourhood", "where"]].assign(member=1.0)).table
    one = people.iloc[[7]].assign(member="YES")
    done = apod("predict", saved, write(one, tmp_path / "one.csv"), "--out", tmp_path / "out.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    scored = pd.read_csv(tmp_path / "out.csv")
    assert scored.loc[0, "score"] == pytest.approx(whole.loc[7, "score"], rel=1e-12)


def test_people_unlike_those_of_the_fit_are_warned_about(people: pd.DataFrame, saved: Path, tmp_path: Path) -> None:
    others = people[people["neighbourhood"] > people["neighbourhood"].median()]
    done = apod("predict", saved, write(others, tmp_path / "new.csv"), "--out", tmp_path / "out.csv", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: These people differ from those of the fit in what groups are guessed from" in done.stderr


BAD = {
    "no column": (lambda frame: frame.drop(columns="merit"), "There is no column 'merit', which the classifier reads"),
    "text": (lambda frame: frame.assign(merit="much"), "Column 'merit' held numbers when the classifier was made"),
    "infinite": (lambda frame: frame.assign(merit=np.inf), "infinite value"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_table_that_does_not_fit_is_one_line_and_nothing_is_written(
    kind: str, people: pd.DataFrame, saved: Path, tmp_path: Path
) -> None:
    change, message = BAD[kind]
    done = apod(
        "predict", saved, write(change(people), tmp_path / "new.csv"), "--out", tmp_path / "out.csv", folder=tmp_path
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_other_mistakes_are_one_line(people: pd.DataFrame, saved: Path, tmp_path: Path) -> None:
    new, out = write(people, tmp_path / "new.csv"), tmp_path / "out.csv"
    own = tmp_path / "own.apod"
    X = people[["merit", "neighbourhood"]]
    APODClassifier(LogisticRegression(), random_state=0).fit(X, people["label"]).save(own)
    for arguments, message in [
        ((new, new, "--out", out), "cannot be read as a saved classifier"),
        ((saved, tmp_path / "none.csv", "--out", out), "There is no file"),
        ((tmp_path / "none.apod", new, "--out", out), "There is no file"),
        ((saved, new, "--out", new), "is what is read here: choose another --out"),
        ((saved, new, "--out", tmp_path / "nowhere" / "out.csv"), "There is no folder"),
        ((saved, new, "--out", out, "--id", "number"), "There is no column 'number' in new.csv"),
        ((saved, new, "--out", out, "--strength", "-1"), "pass a number from 0 up"),
        ((own, new, "--out", out), "the model, LogisticRegression, is not in the file"),
    ]:
        done = apod("predict", *arguments, folder=tmp_path)
        assert done.returncode == 2, arguments
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not out.exists()
