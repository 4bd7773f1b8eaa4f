"""Scores from elsewhere: taken as they are, refused in one line where they are no probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from apod.errors import InputError
from apod.models.model import ScoresModel, fit_scores, selecting, threshold_for

SCORES = np.array([0.0, 0.2, 0.6, 1.0])


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series, pl.Series])
def test_scores_are_the_given_numbers(kind: Any) -> None:
    fitted = fit_scores(kind(SCORES.tolist()), threshold=0.3)
    np.testing.assert_array_equal(fitted.training_scores, SCORES)
    assert fitted.model.threshold == 0.3
    assert not fitted.refitted


def test_a_column_of_a_table_is_found_by_its_name() -> None:
    table = pd.DataFrame({"age": [1, 2, 3, 4], "score": SCORES})
    model = ScoresModel("score")
    np.testing.assert_array_equal(model.margin(table), SCORES)
    np.testing.assert_array_equal(model.margin(table[::-1]), SCORES[::-1])
    assert model.fingerprint != ScoresModel("other").fingerprint


@pytest.mark.parametrize(
    ("rows", "column", "threshold", "message"),
    [
        ([0.1, np.nan, 0.3], None, 0.5, "no finite score in 1 row.*first in row 1 "),
        ([0.1, None, 0.3], None, 0.5, "no finite score in 1 row"),
        ([0.1, 0.2, 1.2], None, 0.5, r"1 score\(s\) outside \[0, 1\], first in row 2 "),
        ([0.1, -3.25, 1.2], None, 0.5, r"2 score\(s\) outside"),
        (["low", "high"], None, 0.5, "not a number: pass probabilities"),
        (pd.DataFrame({"a": [1.0]}), "score", 0.5, "no column 'score'"),
        (np.ones((3, 2)), None, 0.5, "not one number per row"),
        ([0.1, 0.2], None, 1.0, "between 0 and 1"),
    ],
)
def test_what_is_no_score_is_refused_without_its_value(rows: Any, column: Any, threshold: float, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit_scores(rows, column, threshold)
    assert "\n" not in str(caught.value)
    assert "3.25" not in str(caught.value)


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.97])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_threshold_selects_the_share_that_was_asked_for(share: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    scores, weights = rng.random(4000), rng.exponential(size=4000)
    cut = threshold_for(scores, share, weights if weighted else None)
    assert np.average(scores > cut, weights=weights if weighted else None) == pytest.approx(share, abs=2e-3)
    rough = np.round(scores, 1)
    cut = threshold_for(rough, share)
    every = [np.mean(rough > other) for other in np.unique(rough)[:-1]]
    assert abs(np.mean(rough > cut) - share) == pytest.approx(min(abs(own - share) for own in every))


def test_a_number_of_people_is_a_share_of_all_of_them() -> None:
    fitted = fit_scores(np.linspace(0.01, 0.99, 100))
    found = selecting(fitted, 50, people=200)
    assert (found.training_scores > found.model.threshold).sum() == 25
    assert selecting(fitted, None, people=200) is fitted
    with pytest.raises(InputError, match="select fewer than all"):
        selecting(fitted, 200, people=200)
    with pytest.raises(InputError, match="All scores are the same"):
        selecting(fit_scores(np.full(10, 0.5)), 0.2, people=10)
