"""Arrays score people as the pipelines they were read from, known and unknown, and each row alone as in company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from apod.models.standard import CANDIDATES, MOST_CATEGORIES, plain_frame
from apod.models.standard_arrays import ArrayModel, as_arrays


def people(rows: int, seed: int, *, new: bool = False) -> pd.DataFrame:
    """Numbers and categories with gaps; new people have categories and gaps that nobody had before."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows).astype(float),
            "income": rng.lognormal(3, 1, rows),
            "city": rng.choice([f"town {one}" for one in range(300)], rows),  # more than get a code of their own
            "job": rng.choice(["nurse", "cook", "clerk", None], rows),
            "flag": rng.choice(["yes", "no"], rows),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "income"] = np.nan
    if new:
        frame.loc[::3, "job"], frame.loc[::4, "flag"], frame.loc[::5, "age"] = "astronaut", None, np.nan
    return plain_frame(frame)


def labels(frame: pd.DataFrame, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    score = (
        (frame["age"] - 45) / 15 + (frame["job"] == "cook") - frame["income"].isna() + rng.normal(0, 0.5, len(frame))
    )
    return (score > 0).to_numpy().astype(int)


KINDS = {
    "both": ["age", "income", "city", "job", "flag"],
    "numbers": ["age", "income"],
    "categories": ["city", "job", "flag"],
    "few categories": ["age", "job", "flag"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CANDIDATES)
def test_arrays_are_the_pipeline(name: str, kind: str) -> None:
    frame, everybody = people(1500, 0), people(700, 1, new=True)
    y = labels(frame, 2)
    frame, everybody = frame[KINDS[kind]], everybody[KINDS[kind]]
    numbers = [column for column in KINDS[kind] if column in KINDS["numbers"]]
    categories = [column for column in KINDS[kind] if column in KINDS["categories"]]
    most = MOST_CATEGORIES if "city" in categories else None
    pipeline = CANDIDATES[name](numbers, categories, 0, most).fit(frame, y)
    arrays = as_arrays(pipeline, numbers, categories, frame)
    assert isinstance(arrays, ArrayModel)
    for rows in (frame, everybody):
        np.testing.assert_allclose(arrays.decision_function(rows), pipeline.decision_function(rows), atol=1e-9)
        np.testing.assert_allclose(arrays.predict_proba(rows), pipeline.predict_proba(rows), atol=1e-12)
    together = arrays.decision_function(everybody)
    alone = [arrays.decision_function(everybody.iloc[[row]])[0] for row in range(0, 700, 29)]
    np.testing.assert_array_equal(alone, together[::29])
    np.testing.assert_array_equal(arrays.decision_function(everybody.iloc[::-1]), together[::-1])


def test_what_is_no_standard_model_is_not_read() -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = people(100, 0)[["age"]]
    other = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(
        frame, labels(people(100, 0), 1)
    )
    assert as_arrays(other, ["age"], [], frame) is None
