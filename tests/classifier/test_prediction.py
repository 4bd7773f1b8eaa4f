"""Explanations add up to what happens to a person."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from classifier_people import FAST, People

from apod import APODClassifier
from apod.classifier.prediction import column_pushes
from apod.errors import InputError


@pytest.fixture(scope="module")
def corrected(people: People) -> APODClassifier:
    """Nobody may change it: it is shared by all tests."""
    frame = people.X.assign(noise=np.arange(300) % 3, where=np.where(people.X["neighbourhood"] > 0, "east", "west"))
    fitted = APODClassifier(random_state=0).fit(frame, people.y, sensitive_features=people.known)
    fitted.frame = frame
    return fitted


def test_parts_add_up_to_the_push_and_the_push_to_the_decision(corrected: APODClassifier) -> None:
    after = corrected.at(0.5)
    found = after.explain(corrected.frame)
    np.testing.assert_array_equal(found["corrected"], after.predict(corrected.frame))
    np.testing.assert_array_equal(found["decision"], corrected.at(0).predict(corrected.frame))
    np.testing.assert_array_equal(found["score"], corrected.at(0).predict_proba(corrected.frame)[:, 1])
    np.testing.assert_allclose(found["push_0"] + found["push_1"], found["push"], atol=1e-12)
    np.testing.assert_array_equal(found["margin"] - found["push"] > 0, found["corrected"] == 1)
    np.testing.assert_array_equal(found["changed"], found["decision"] != found["corrected"])
    assert 0 < found["changed"].sum() < 300
    stands = found.loc[found["changed"], "stands"]
    assert stands.between(0, 1).all()
    assert stands.mean() > 0.5
    assert found.loc[~found["changed"], "stands"].isna().all()


def test_a_columns_share_is_what_a_small_change_of_it_does_to_the_push(corrected: APODClassifier) -> None:
    state = corrected._state
    people = state.people(corrected.frame)  # type: ignore[union-attr]
    model = state.model  # type: ignore[union-attr]
    members = model.groups.members(people.inputs)
    names, pushes = column_pushes(state, model.correction, model.groups, people, members)  # type: ignore[arg-type]
    assert names == list(corrected.frame.columns)
    step, blocks = 1e-3, model.scored.encoder.blocks_
    for place, name in enumerate(names):
        moved = people.inputs.astype(np.float64)
        mine = blocks == corrected.frame.columns.get_loc(name)
        away = moved[:, mine] - model.groups.reader.centre[mine]
        moved[:, mine] += step * away
        change = model.correction.push(people.eta, model.groups.members(moved)) - model.pushes(people)
        np.testing.assert_allclose(change / step, pushes[:, place], atol=2e-3 * np.abs(pushes).max())


def test_the_column_that_shows_the_group_carries_the_push(corrected: APODClassifier) -> None:
    found = corrected.at(0.5).explain(corrected.frame)
    assert found.loc[found["changed"], "column_1"].isin(["neighbourhood", "where"]).mean() > 0.8
    sizes = found[["column_1_push", "column_2_push", "column_3_push"]].abs().to_numpy()
    assert (np.diff(sizes, axis=1) <= 0).all()


def test_a_loaded_one_explains_the_same_but_for_the_draws(corrected: APODClassifier, tmp_path: Path) -> None:
    corrected.at(0.5).save(tmp_path / "one.apod")
    loaded = APODClassifier.load(tmp_path / "one.apod").explain(corrected.frame)
    fresh = corrected.at(0.5).explain(corrected.frame)
    pd.testing.assert_frame_equal(loaded.drop(columns="stands"), fresh.drop(columns="stands"))
    assert loaded["stands"].isna().all()


def test_without_a_correction_there_is_nothing_but_the_model(people: People) -> None:
    plain = APODClassifier(random_state=0).fit(people.X, people.y).explain(people.X)
    assert not plain["changed"].any()
    assert (plain["push"] == 0).all()
    heads = APODClassifier(**FAST).fit(people.X, people.y)
    with pytest.raises(InputError, match="no correction to explain"):
        heads.explain(people.X)
