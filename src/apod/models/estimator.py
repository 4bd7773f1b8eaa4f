"""A scikit-learn classifier, or anything that behaves like one: cloned and fitted, or frozen and only asked.

X goes to the model as the user gave it. At strength 0 the user's own output is returned, bit for bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.errors import InputError
from apod.models.model import Fitted, Floats, IntArray, checked_scores

FOLDS = 5
PROBE_ROWS = 64


def _as_given(rows: Any) -> Any:
    return rows


@dataclass(frozen=True, eq=False)
class EstimatorModel:
    """A fitted classifier. Scores are P(second class), or the decision function where it has no probabilities."""

    estimator: Any
    classes: npt.NDArray[Any]  # (2,) the positive label last
    threshold: float
    prepare: Callable[[Any], Any] = field(default=_as_given)
    probe: Any = None  # rows whose scores tell this model from another

    def margin(self, rows: Any) -> Floats:
        """(n,) the estimator's own scores of the second class."""
        return score(self.estimator, self.prepare(rows))

    def embed(self, rows: Any) -> None:
        """Nothing: f_a reads the columns."""

    @cached_property
    def fingerprint(self) -> str:
        """Of the estimator's kind and settings, and of its scores on the probe."""
        digest = hashlib.sha256(repr(self.estimator).encode())
        if self.probe is not None:
            digest.update(self.margin(self.probe).tobytes())
        return digest.hexdigest()


def fit_estimator(estimator: Any, X: Any, y: npt.NDArray[Any], seed: int, threshold: float | None = None) -> Fitted:
    """Mitigate this classifier: a FrozenEstimator as it is, any other cloned, fitted, and scored out of fold."""
    from sklearn.base import clone

    classes = np.unique(y)
    if len(classes) != 2:
        raise InputError(f"The labels have {len(classes)} different values: two are needed.")
    cut = default_threshold(estimator) if threshold is None else threshold
    name, probe = type(estimator).__name__, take(X, np.arange(min(PROBE_ROWS, rows_of(X))))
    if is_frozen(estimator):
        check_classes(estimator, classes)
        model = EstimatorModel(estimator, classes, cut, probe=probe)
        return Fitted(model, model.margin(X), False, name, {})
    own = np.asarray(out_of_fold(estimator, X, y, seed, FOLDS))
    model = EstimatorModel(clone(estimator).fit(X, y), classes, cut, probe=probe)
    return Fitted(model, own, True, name, {name: float(np.mean((own > cut) == (y == classes[1])))})


def out_of_fold(estimator: Any, X: Any, y: npt.NDArray[Any], seed: int, folds: int) -> Floats:
    """(n,) everybody's score by a clone fitted on the other folds; folds have equal shares of both labels."""
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    smallest = int(np.unique(y, return_counts=True)[1].min())
    if smallest < 2:
        raise InputError("One label has a single person in the training part: at least two of each are needed.")
    scores = np.empty(len(y))
    for train, rest in StratifiedKFold(min(folds, smallest), shuffle=True, random_state=seed).split(y, y):
        scores[rest] = score(clone(estimator).fit(take(X, train), y[train]), take(X, rest))
    return scores


def score(estimator: Any, rows: Any) -> Floats:
    """(n,) P(second class) by `predict_proba`, else `decision_function`."""
    what = type(estimator).__name__
    if hasattr(estimator, "predict_proba"):
        found = np.asarray(estimator.predict_proba(rows))
        if found.ndim != 2 or found.shape[1] != 2:
            raise InputError(f"{what}.predict_proba has shape {found.shape}: two classes are needed.")
        return checked_scores(found[:, 1], rows_of(rows), what)
    if hasattr(estimator, "decision_function"):
        return checked_scores(estimator.decision_function(rows), rows_of(rows), what)
    raise InputError(f"{what} has neither predict_proba nor decision_function: wrap it in CalibratedClassifierCV.")


def gives_probabilities(estimator: Any) -> bool:
    """Whether scores lie in [0, 1]."""
    return hasattr(estimator, "predict_proba")


def default_threshold(estimator: Any) -> float:
    """Where scikit-learn's `predict` decides."""
    return 0.5 if gives_probabilities(estimator) else 0.0


def is_frozen(estimator: Any) -> bool:
    """Whether it is wrapped in scikit-learn's FrozenEstimator, and so never refitted."""
    from sklearn.frozen import FrozenEstimator

    return isinstance(estimator, FrozenEstimator)


def check_classes(estimator: Any, classes: npt.NDArray[Any]) -> None:
    """InputError where a fitted model was trained for other labels than these."""
    own = getattr(estimator, "classes_", None)
    if own is not None and not np.array_equal(np.asarray(own), classes):
        raise InputError(
            f"The model predicts {np.asarray(own).tolist()} and the labels are {classes.tolist()}: pass labels as the "
            "model knows them."
        )


def take(X: Any, rows: IntArray) -> Any:
    """These rows of a table, an array or a list."""
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, rows)


def rows_of(X: Any) -> int:
    """How many people a table, an array or a list holds."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
