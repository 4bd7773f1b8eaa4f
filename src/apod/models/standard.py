"""The default model, the better of a few; and whether a fitted one was trained on the people it is judged on.

A later candidate has to be better than chance alone would make it: with few rows the simpler model wins. Missing values
are welcome, categories stay categories. The choice and the scores of the training part come from the same folds:
everybody is scored by a model that has not seen them.

Its scores of them would be too good: a correction fitted on these would be too small, its promised accuracy too high.
Nobody can tell for certain, so there is one rule, which only flagrant cases meet: the model is right about nearly
everybody, and far more often than the better standard model is out of fold. A model that fits its training rows less
closely (boosting with few trees, a linear model) is not noticed; an honest one that is that much better is suspected
wrongly, and only a warning is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from apod.data.dataset import as_frame, is_number
from apod.data.encode import EMBEDDED, embedded_blocks
from apod.models.estimator import FOLDS, EstimatorModel, fit_weighted, out_of_fold
from apod.models.estimator import right as rightly
from apod.models.model import Fitted, Floats, IntArray
from apod.models.standard_arrays import as_arrays

MOST_CATEGORIES = 254
"""Of one column that keep a category of their own; the rest share one."""

SMALL_TREES: Mapping[str, float | bool] = MappingProxyType(
    {"learning_rate": 0.06, "max_leaf_nodes": 8, "max_iter": 120, "early_stopping": False}
)
"""More accurate than scikit-learn's defaults on every table tried, and faster."""

Recipe = Callable[..., Any]
"""Names of the columns of numbers and of categories, a seed, and after how many categories of a column to share one."""


def logistic_regression(
    numbers: list[str], categories: list[str], seed: int, most: int | None = MOST_CATEGORIES
) -> Any:
    """Standardised numbers (missing: the median, and a column that says so), one-hot categories.

    The columns of an embedding share a prior, and keep their proportions: none is told from chance by itself. Columns
    beside an embedding keep the prior that they have without one.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    blocks = embedded_blocks(numbers)
    scaler = _scaler(blocks) if blocks else StandardScaler()
    narrow = WIDE_SPREAD / len(numbers) if not blocks and len(numbers) >= EMBEDDED else 1.0
    filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=most, sparse_output=False)
    columns = ColumnTransformer([("numbers", make_pipeline(filled, scaler), numbers), ("categories", hot, categories)])
    return make_pipeline(columns, LogisticRegression(C=narrow, max_iter=1000))


def _scaler(blocks: Sequence[IntArray]) -> Any:
    """What makes the columns of an embedding so small that all of them together move the logit by a variance of
    `EMBEDDED_SPREAD` before anything is learnt, where any other column moves it by 1."""
    from apod.models.embedding_steps import BlockScaler

    return BlockScaler(tuple(tuple(block.tolist()) for block in blocks), EMBEDDED_SPREAD)


def gradient_boosting(numbers: list[str], categories: list[str], seed: int, most: int | None = MOST_CATEGORIES) -> Any:
    """Histogram gradient boosting with small trees; categories are split as sets, missing cells go where they fit."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
        max_categories=most,
    )
    columns = ColumnTransformer([("categories", codes, categories), ("numbers", "passthrough", numbers)])
    booster = HistGradientBoostingClassifier(
        categorical_features=list(range(len(categories))), random_state=seed, **SMALL_TREES
    )
    return make_pipeline(columns, booster)


CANDIDATES: Mapping[str, Recipe] = MappingProxyType(
    {
        "logistic regression": logistic_regression,
        "histogram gradient boosting": gradient_boosting,
    }
)
"""The standard models, by name in words, the simplest first."""

EMBEDDED_SPREAD, WIDE_SPREAD = 1.0, 3.0
"""Variance of the logit that all columns of an embedding bring, or of a table as wide, before anything is known."""
FEWEST_KNOWN = 10
"""Values of a column of numbers that are not missing, for a model to read it: in every fold there are some then."""
ONE_THREAD_ROWS = 50_000
"""Up to so many rows one thread fits: others would mostly wait for each other, with all cores busy."""
CLEARLY = 1.5
"""Standard errors of the difference by which a candidate has to beat a simpler one."""


def fit_standard(
    X: Any,
    y: IntArray,
    seed: int,
    *,
    candidates: Mapping[str, Recipe] = CANDIDATES,
    threshold: float = 0.5,
    unread: Sequence[str] = (),
    weights: Floats | None = None,
) -> Fitted:
    """The candidate with the best cross-validated accuracy, simpler ones first, fitted on all rows.

    Columns that are `unread` may be in X, and are not looked at. weights (n,): how many people a row stands for.
    """
    frame = plain_frame(X)
    if len(frame) > ONE_THREAD_ROWS:
        return _fit_best(frame, y, seed, candidates, threshold, unread, weights)
    with threadpool_limits(1):
        return _fit_best(frame, y, seed, candidates, threshold, unread, weights)


def _fit_best(
    frame: pd.DataFrame,
    y: IntArray,
    seed: int,
    candidates: Mapping[str, Recipe],
    threshold: float,
    unread: Sequence[str],
    weights: Floats | None,
) -> Fitted:
    every = [name for name in frame.columns if is_number(frame[name]) and name not in unread]
    categories = [name for name in frame.columns if name not in every and name not in unread]
    numbers = [name for name in every if frame[name].notna().sum() >= min(FEWEST_KNOWN, len(frame))]
    simplest = {name: candidates[name] for name in list(candidates)[:1]}
    if not numbers and not categories:
        numbers, candidates = every, simplest
    if len(numbers) >= EMBEDDED or embedded_blocks(
        numbers
    ):  # made for a linear model, and trees take many times as long
        candidates = simplest
    crowded = any(frame[name].nunique() > MOST_CATEGORIES for name in categories)
    most = MOST_CATEGORIES if crowded else None  # counting categories takes longer than fitting
    scores: dict[str, npt.NDArray[np.float64]] = {}
    for name, recipe in candidates.items():
        scores[name] = out_of_fold(recipe(numbers, categories, seed, most), frame, y, seed, FOLDS, weights=weights)
    right = {name: rightly(own, threshold, y) for name, own in scores.items()}
    best, *others = candidates
    for name in others:
        best = name if clearly_better(right[name], right[best], weights) else best
    accuracies = {name: float(np.average(own, weights=weights)) for name, own in right.items()}
    fitted = fit_weighted(candidates[best](numbers, categories, seed, most), frame, y, weights)
    predictor = as_arrays(fitted, numbers, categories, frame) or fitted
    model = EstimatorModel(predictor, np.arange(int(y.max()) + 1), threshold, prepare=plain_frame)
    return Fitted(model, scores[best], True, best, accuracies)


def clearly_better(right: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_], weights: Floats | None = None) -> bool:
    """Whether one model is right more often than another, by more than `CLEARLY` standard errors of the difference."""
    gains = right.astype(np.float64) - other
    gains = gains if weights is None else gains * weights
    return bool(gains.sum() > CLEARLY * np.sqrt((gains**2).sum()))


def plain_frame(X: Any) -> pd.DataFrame:
    """Numbers as doubles (missing: NaN), all else as text (missing: NaN), the types scikit-learn reads everywhere."""
    frame = as_frame(X)
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if is_number(column):
            columns[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            text = column.astype(object).where(column.notna(), np.nan)
            columns[name] = text.map(str, na_action="ignore").to_numpy(dtype=object)
    return pd.DataFrame(columns, index=frame.index)


NEARLY_ALL = 0.98
FAR_BETTER = 0.05
MOST_ROWS = 5000
"""Cross-validated for the comparison: enough to tell a difference of five points."""


class TrainedOnWarning(UserWarning):
    """A frozen model seems to have been trained on the rows that it is to be corrected on."""


def warn_if_trained_on(fitted: Fitted, X: Any, labels: IntArray, seed: int) -> None:
    """Warn where a model that came fitted is right about at least 98 % of these people, and 5 points more often than
    the better of the standard models, cross-validated on (at most 5,000 of) them."""
    if fitted.refitted:
        return
    right = float(rightly(fitted.training_scores, fitted.model.threshold, labels).mean())
    if right < NEARLY_ALL:
        return
    some = slice(None, None, max(1, len(labels) // MOST_ROWS))
    frame = X.iloc[some] if hasattr(X, "iloc") else X[some]
    if np.unique(labels[some], return_counts=True)[1].min() < 2:
        return
    standard = max(fit_standard(frame, labels[some], seed).accuracies.values())
    if right - standard > FAR_BETTER:
        warnings.warn(
            f"The frozen model is right about {100 * right:.1f} % of these rows, a standard model about "
            f"{100 * standard:.1f} % out of fold: if it was trained on them, pass rows it has not seen.",
            TrainedOnWarning,
            stacklevel=4,
        )
