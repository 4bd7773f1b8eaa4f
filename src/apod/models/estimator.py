"""A scikit-learn classifier, or anything that behaves like one: cloned and fitted, or frozen and only asked.

X goes to the model as the user gave it. At strength 0 the user's own output is returned, bit for bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.errors import InputError
from apod.models.model import Fitted, Floats, IntArray, checked_scores
from apod.models.prediction import LogitModule, fingerprint_of, frozen, mute, on_rows, own_classes

FOLDS = 5
PROBE_ROWS = 64


class RefitWarning(UserWarning):
    """A fitted estimator was given without FrozenEstimator: a clone of it is fitted again."""


def _as_given(rows: Any) -> Any:
    return rows


@dataclass(frozen=True, eq=False)
class EstimatorModel:
    """A fitted classifier. Scores are P(positive label), or the decision function where it has no probabilities.

    Of more than two labels they are the probabilities, or the decision function, of each.
    """

    estimator: Any
    classes: npt.NDArray[Any]  # (2,) the positive label last; (K,) in ascending order
    threshold: float
    prepare: Callable[[Any], Any] = field(default=_as_given)
    probe: Any = None  # rows whose scores tell this model from another
    column: int = 1  # where the estimator has the positive label

    def margin(self, rows: Any) -> Floats:
        """(n,) the estimator's own scores of the positive label; (n, K) of more than two."""
        return score(self.estimator, self.prepare(rows), self.column, classes=len(self.classes))

    def embed(self, rows: Any) -> None:
        """Nothing: f_a reads the columns."""

    @property
    def probabilities(self) -> bool:
        """Whether scores lie in [0, 1]."""
        return gives_probabilities(self.estimator)

    @cached_property
    def fingerprint(self) -> str:
        """Of all that was learnt and set, whoever holds the model and wherever it was stored meanwhile."""
        return content_fingerprint(self.estimator)


def content_fingerprint(estimator: Any) -> str:
    """Of a fitted model's content, the same for a copy of it; of a frozen one, of what is in it."""
    from sklearn.frozen import FrozenEstimator

    asked = frozen(estimator)
    inner = asked.estimator if isinstance(asked, FrozenEstimator) else asked
    if isinstance(inner, LogitModule):
        state = {name: value.detach().cpu().numpy() for name, value in inner.module.state_dict().items()}
        return fingerprint_of([repr(inner.module), sorted(state.items())])
    return fingerprint_of(inner)


def fit_estimator(
    estimator: Any,
    X: Any,
    y: npt.NDArray[Any],
    seed: int,
    threshold: float | None = None,
    positive: Any = None,
    weights: Floats | None = None,
) -> Fitted:
    """Mitigate this classifier: a FrozenEstimator or torch module as it is, any other cloned, fitted, scored out of
    fold. `positive` is the label that counts as positive of two; None: the later of them in order."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise InputError("The labels have 1 different value: two at least are needed.")
    place = 1 if positive is None else int(np.flatnonzero(classes == positive)[0])
    name = name_of(estimator)
    if mute(estimator):
        raise InputError(f"{name} has neither predict_proba nor decision_function: wrap it in CalibratedClassifierCV.")
    cut = default_threshold(estimator) if threshold is None else threshold
    probe = take(X, np.arange(min(PROBE_ROWS, rows_of(X))))
    ordered = classes[[1 - place, place]] if len(classes) == 2 else classes
    if is_frozen(estimator):
        check_classes(estimator, classes)
        model = EstimatorModel(frozen(estimator), ordered, cut, probe=probe, column=place)
        return Fitted(model, model.margin(X), False, name, {})
    _warn_of_refit(estimator, name)
    # first: what it cannot be fitted on is its own error, whatever the folds
    fitted = fit_weighted(_clone(estimator), X, y, weights)
    own = out_of_fold(estimator, X, y, seed, FOLDS, place, weights)
    model = EstimatorModel(fitted, ordered, cut, probe=probe, column=place)
    return Fitted(model, own, True, name, {name: float(right(own, cut, np.searchsorted(classes, y), place).mean())})


def right(scores: Floats, threshold: float, codes: IntArray, positive: int = 1) -> npt.NDArray[np.bool_]:
    """(n,) whether scores (n,) or (n, K) decide for the labels that people have, codes into the classes."""
    if scores.ndim == 2:
        return np.asarray(scores.argmax(axis=1) == codes)
    return np.asarray((scores > threshold) == (codes == positive))


def fit_weighted(estimator: Any, X: Any, y: npt.NDArray[Any], weights: Floats | None) -> Any:
    """The estimator, fitted; with `weights` (n,) of the rows, which it must be able to take."""
    import sklearn
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if weights is None:
        return estimator.fit(X, y)
    last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if not has_fit_parameter(last[1], "sample_weight"):
        raise InputError(f"{name_of(last[1])} takes no sample_weight: choose a model that does, or leave weights out.")
    with sklearn.config_context(enable_metadata_routing=False):  # weights are for the last step, whatever is routed
        return estimator.fit(X, y, **{f"{last[0]}__sample_weight" if last[0] else "sample_weight": weights})


def out_of_fold(
    estimator: Any,
    X: Any,
    y: npt.NDArray[Any],
    seed: int,
    folds: int,
    column: int = 1,
    weights: Floats | None = None,
) -> Floats:
    """(n,) everybody's score by a clone fitted on the other folds, (n, K) of more than two labels; folds have equal
    shares of all labels."""
    from sklearn.model_selection import StratifiedKFold

    values, counts = np.unique(y, return_counts=True)
    smallest, classes = int(counts.min()), len(values)
    if smallest < 2:
        which = "One label" if classes == 2 else f"The label {values[counts.argmin()]!s}"
        raise InputError(f"{which} has a single person in the training part: at least two of each are needed.")
    scores = np.empty(len(y) if classes == 2 else (len(y), classes))
    for train, rest in StratifiedKFold(min(folds, smallest), shuffle=True, random_state=seed).split(y, y):
        own = None if weights is None else weights[train]
        fitted = fit_weighted(_clone(estimator), take(X, train), y[train], own)
        scores[rest] = score(fitted, take(X, rest), column, rest, classes)
    return scores


def score(estimator: Any, rows: Any, column: int = 1, names: IntArray | None = None, classes: int = 2) -> Floats:
    """(n,) P(second class) by `predict_proba`, else `decision_function`; of the first class where `column` is 0.

    names (n,): what the rows are called in an error, their positions unless given · (n, K) of more than two classes.
    """
    what, count = name_of(estimator), rows_of(rows)
    if gives_probabilities(estimator):
        found = np.asarray(on_rows(estimator, "predict_proba", rows, count, what, names))
        if found.ndim != 2 or found.shape[1] != classes:
            many = "two" if classes == 2 else str(classes)
            raise InputError(f"{what}.predict_proba has shape {found.shape}: {many} classes are needed.")
        return checked_scores(found[:, column] if classes == 2 else found, count, what, names, classes)
    if hasattr(estimator, "decision_function"):
        found = np.asarray(on_rows(estimator, "decision_function", rows, count, what, names))
        return checked_scores(found if column == 1 or classes > 2 else -found, count, what, names, classes)
    raise InputError(f"{what} has neither predict_proba nor decision_function: wrap it in CalibratedClassifierCV.")


def gives_probabilities(estimator: Any) -> bool:
    """Whether scores lie in [0, 1]."""
    return hasattr(frozen(estimator), "predict_proba")


def default_threshold(estimator: Any) -> float:
    """Where scikit-learn's `predict` decides."""
    return 0.5 if gives_probabilities(estimator) else 0.0


def is_frozen(estimator: Any) -> bool:
    """Whether it is never refitted: wrapped in scikit-learn's FrozenEstimator, or a torch module."""
    from sklearn.frozen import FrozenEstimator

    return isinstance(estimator, FrozenEstimator) or isinstance(frozen(estimator), LogitModule)


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator was fitted already, by scikit-learn's signs of it."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if callable(own := getattr(estimator, "is_fitted", None)):  # CatBoost
        return bool(own())
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def check_classes(estimator: Any, classes: npt.NDArray[Any]) -> None:
    """InputError where a fitted model was trained for other labels than these."""
    own = own_classes(estimator)
    if own is not None and not np.array_equal(own, classes):
        raise InputError(
            f"The model predicts {own.tolist()} and the labels are {classes.tolist()}: pass labels as the model knows "
            "them."
        )


def name_of(estimator: Any) -> str:
    """What an estimator is called: of a frozen one, what is in it."""
    asked = frozen(estimator)
    inner = asked.module if isinstance(asked, LogitModule) else estimator
    return type(inner.estimator if is_frozen(inner) and hasattr(inner, "estimator") else inner).__name__


def take(X: Any, rows: IntArray) -> Any:
    """These rows of a table, an array or a list."""
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, rows)


def rows_of(X: Any) -> int:
    """How many people a table, an array or a list holds."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _clone(estimator: Any) -> Any:
    from sklearn.base import clone

    try:
        return clone(estimator)
    except TypeError:
        raise InputError(
            f"{name_of(estimator)} is no scikit-learn estimator that can be cloned: wrap a fitted model in "
            "sklearn.frozen.FrozenEstimator, or give it get_params and set_params."
        ) from None


def _warn_of_refit(estimator: Any, name: str) -> None:
    if is_fitted(_checked(estimator, name)):
        warnings.warn(
            f"{name} is fitted already, and a clone of it is fitted again on these rows: wrap it in "
            "sklearn.frozen.FrozenEstimator to keep it as it is.",
            RefitWarning,
            stacklevel=5,
        )


def _checked(estimator: Any, name: str) -> Any:
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise InputError(
            f"The estimator {name} cannot be fitted: pass an instance of a classifier, or wrap a fitted model in "
            "sklearn.frozen.FrozenEstimator."
        )
    return estimator
