"""Fairness metrics and scorers for scikit-learn, where groups may be missing.

>>> import numpy as np
>>> from apod.metrics import gap
>>> gap([1, 1, 0, 0], [1, 0, 0, 0], sensitive_features=["a", "b", "a", "b"], notion="true_positive_rate_parity")
1.0

Rows whose group is not known (None, NaN, pd.NA) count towards no group. Several columns of `sensitive_features` are
several attributes: their gaps are added up. `sample_weight` says how many people a row stands for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import sklearn
from sklearn.metrics import make_scorer as sklearn_scorer

from apod.data.columns import positive_of
from apod.data.dataset import UNKNOWN, IntArray, category_codes, category_name
from apod.errors import InputError
from apod.fairness.counts import checked_weights
from apod.fairness.metrics import RATES, UndefinedRateWarning
from apod.fairness.notions import MEASURED, Notion, event_counts, find_notion, member_rates, ratio

__all__ = ["gap", "group_rates", "make_scorer", "selection_rate_ratio"]

FloatArray = npt.NDArray[np.float64]


def gap(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    notion: str = "equalized_odds",
    positive: object = None,
) -> float:
    """How far groups are apart by a notion: 0 is fair. NaN, with a warning, where no two groups can be compared.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Labels and decisions, of two classes or more.
    sensitive_features : array-like of shape (n,) or (n, k)
        The group of every row; None, NaN or pd.NA where it is not known. Gaps of several columns are added up.
    sample_weight : array-like of shape (n,), default=None
        How many people each row stands for.
    notion : str, default="equalized_odds"
        "equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity", "demographic_parity",
        "predictive_parity" or "selection_rate_ratio" (1 minus the ratio).
    positive : label, default=None
        Of two labels, the positive one; None: as in `APODClassifier`.
    """
    labels, decided, classes = _coded(y_true, y_pred, positive)
    weights = checked_weights("sample_weight", sample_weight, len(labels))
    compared = _notion(notion, classes)
    total = 0.0
    for codes, names in _attributes(sensitive_features, len(labels)):
        member = _members(codes, len(names), weights)
        rates = member_rates(compared, labels, decided[None], member[None])
        total += float(compared.gap(rates, skip_undefined=True)[0, 0]) if len(names) > 1 else float("nan")
    if np.isnan(total):
        text = f"Undefined, so NaN: the gap of {notion}. Fewer than two groups have anybody to measure on."
        warnings.warn(text, UndefinedRateWarning, stacklevel=2)
    return total


def selection_rate_ratio(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    positive: object = None,
) -> float:
    """The lowest selection rate over the highest: 1 is fair, below .8 is the four-fifths line. Arguments as `gap`."""
    found = gap(
        y_true,
        y_pred,
        sensitive_features=_one_attribute(sensitive_features),
        sample_weight=sample_weight,
        notion="selection_rate_ratio",
        positive=positive,
    )
    return 1 - found


def group_rates(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    positive: object = None,
) -> pd.DataFrame:
    """Every group's TPR, FPR, selection rate and precision, and how many people it has (by weight); of two labels.

    One row per group; `effective` is the number of equally weighted people who would tell as much.
    """
    labels, decided, classes = _coded(y_true, y_pred, positive)
    if classes > 2:
        raise InputError(f"There are {classes} labels, and TPR and FPR are of two: use gap.")
    weights = checked_weights("sample_weight", sample_weight, len(labels))
    ((codes, names),) = _attributes(_one_attribute(sensitive_features), len(labels))
    member = _members(codes, len(names), weights)
    found: dict[str, FloatArray] = {
        name: ratio(*(part[0, 0, 0, 0] for part in event_counts(notion, labels, decided[None], member[None])))
        for name, notion in RATES.items()
    }
    people, squares = member.sum(axis=0), (member**2).sum(axis=0)
    return pd.DataFrame(found | {"people": people, "effective": ratio(people**2, squares)}, index=list(names))


def make_scorer(
    notion: str = "equalized_odds", *, accuracy_weight: float = 0.0, positive: object = None
) -> Callable[..., float]:
    """A scorer for `GridSearchCV`, `cross_val_score` and the like: accuracy_weight x accuracy - gap, higher is better.

    Groups reach it by metadata routing, as they reach `fit`; missing ones are allowed:

    >>> import sklearn
    >>> from apod.metrics import make_scorer
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scorer = make_scorer("equalized_odds", accuracy_weight=1)
    >>> # GridSearchCV(APODClassifier().set_fit_request(sensitive_features=True), {"strength": [0, 0.2, 0.5]},
    >>> #              scoring=scorer).fit(X, y, sensitive_features=groups)

    With routing enabled the scorer requests `sensitive_features`; `set_score_request(sample_weight=True)` adds weights.
    """
    find_notion(notion)
    if isinstance(accuracy_weight, bool) or not 0 <= float(accuracy_weight) < float("inf"):
        raise InputError(f"accuracy_weight is {accuracy_weight!r}: pass a number from 0 up.")
    scorer = sklearn_scorer(_score, notion=notion, accuracy_weight=float(accuracy_weight), positive=positive)
    if sklearn.get_config()["enable_metadata_routing"]:
        return scorer.set_score_request(sensitive_features=True)  # type: ignore[no-any-return]
    return scorer  # type: ignore[no-any-return]


def _score(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    notion: str,
    accuracy_weight: float,
    positive: object,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    if sensitive_features is None:
        raise InputError(
            "The scorer got no sensitive_features: call sklearn.set_config(enable_metadata_routing=True) before you "
            "make it, and pass params={'sensitive_features': groups} (GridSearchCV: fit(X, y, sensitive_features=...))."
        )
    lost = gap(
        y_true,
        y_pred,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        notion=notion,
        positive=positive,
    )
    if not accuracy_weight:
        return -lost
    right = np.asarray(y_true) == np.asarray(y_pred)
    weights = checked_weights("sample_weight", sample_weight, len(right))
    return accuracy_weight * float(np.average(right, weights=weights)) - lost


def _notion(name: str, classes: int) -> Notion:
    found = find_notion(name)
    return found if classes == 2 else type(MEASURED[name])(classes)  # type: ignore[call-arg]


def _coded(y_true: npt.ArrayLike, y_pred: npt.ArrayLike, positive: object) -> tuple[IntArray, IntArray, int]:
    """Labels and decisions as codes, of two the positive one 1, and how many classes there are."""
    truth, decided = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim != 1 or truth.shape != decided.shape:
        raise InputError(f"y_true has shape {truth.shape} and y_pred {decided.shape}: pass one of each per row.")
    classes, codes = np.unique(np.concatenate([truth, decided]), return_inverse=True)
    names = [category_name("y_true", value) for value in classes.tolist()]
    if len(classes) == 2 and positive_of("y_true", names, positive) == 0:
        codes = 1 - codes
    if len(classes) == 1:  # everybody alike, the positive label unless another is said to be
        codes = codes + int(positive is None or positive_of("y_true", [*names, str(positive)], positive) == 0)
    labels, decisions = np.split(codes.astype(np.int64), 2)
    return labels, decisions, max(2, len(classes))


def _attributes(given: Any, n: int) -> list[tuple[IntArray, list[str]]]:
    """Codes and names of every column of groups; UNKNOWN where one is missing."""
    if given is None:
        raise InputError("sensitive_features is missing: pass the group of every row, None where it is not known.")
    if not isinstance(given, pd.Series | pd.DataFrame) and hasattr(given, "to_pandas"):
        given = given.to_pandas()
    table = given.to_frame() if isinstance(given, pd.Series) else given
    if not isinstance(table, pd.DataFrame):
        cells = np.asarray(table, dtype=object)
        table = pd.DataFrame(cells if cells.ndim > 1 else cells[:, None])
    if len(table) != n:
        raise InputError(f"y_true has {n} rows and sensitive_features has {len(table)}: pass one entry per row.")
    return [category_codes("sensitive_features", table.iloc[:, place]) for place in range(table.shape[1])]


def _one_attribute(given: Any) -> Any:
    if len(np.shape(given)) > 1 and np.shape(given)[1] != 1:
        raise InputError("These are numbers of one attribute: pass one column of groups at a time.")
    return given


def _members(codes: IntArray, count: int, weights: FloatArray | None) -> FloatArray:
    """(n, G) how many people of each group a row stands for; nobody where the group is not known."""
    member = (codes[:, None] == np.arange(max(count, 1))) & (codes != UNKNOWN)[:, None]
    return np.asarray(member * (np.ones(len(codes)) if weights is None else weights)[:, None])
