"""What is mitigated: anything that scores people for a label; at its simplest, scores alone.

The life of a model here. It is fitted on the training part or comes fitted (`Fitted`), together with the scores it
gives to the training part: out of fold where it was fitted on those very people, so that they mean what scores of new
people mean. From then on it only scores. A calibration turns its scores into probabilities; a correction acts on
these, and at strength 0 the model's own output is returned as it is.

    standard     the better of a few standard models by cross-validation; the default   `standard.py`
    estimator    a scikit-learn classifier: cloned and fitted, or frozen                 `estimator.py`
    module       a torch module that returns logits, frozen                              `prediction.py`
    scores       a column of scores from elsewhere                                       `scores.py`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Model(Protocol):
    """A fitted model of a label.

    Invariants: `margin` is the model's own score of the second class, of more than two classes of each, bit for bit,
    finite, the same for the same row whoever else is in the batch; the model never changes; `fingerprint` differs where
    any score could.
    """

    @property
    def classes(self) -> npt.NDArray[Any] | tuple[Any, ...]:
        """The labels: of two the positive one last, of more in ascending order."""
        ...

    @property
    def threshold(self) -> float:
        """The score above which the model predicts the positive label; of more than two the highest score decides."""
        ...

    @property
    def probabilities(self) -> bool:
        """Whether scores lie in [0, 1]."""
        ...

    @property
    def fingerprint(self) -> str:
        """What a saved correction checks before it acts on a model."""
        ...

    def margin(self, rows: Any) -> Floats:
        """(n,) the model's own scores; (n, K) of more than two classes."""
        ...

    def embed(self, rows: Any) -> Floats | None:
        """(n, M) what f_a may read in the place of columns, None where the model has nothing of the kind."""
        ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model and what it says of the people it was fitted on."""

    model: Model
    training_scores: Floats  # (n,) or (n, K), out of fold where the model was fitted on these rows
    refitted: bool  # False: the model came fitted, and nobody knows whether these rows were among its own
    name: str  # in words, e.g. "histogram gradient boosting"
    accuracies: dict[str, float]  # cross-validated, by candidate; empty where there was no choice


def checked_scores(
    scores: npt.ArrayLike, rows: int, what: str, names: IntArray | None = None, classes: int = 2
) -> Floats:
    """(n,) finite scores, (n, K) of K > 2 classes, or an InputError that names the first row at fault: its position, or
    its entry in `names`."""
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != ((rows,) if classes == 2 else (rows, classes)):
        needed = "one score per row is" if classes == 2 else f"a score for each of {classes} labels is"
        raise InputError(f"{what} gave scores of shape {values.shape} for {rows} rows: {needed} needed.")
    bad = ~np.isfinite(values) if classes == 2 else ~np.isfinite(values).all(axis=1)
    if bad.any():
        first = int(bad.argmax() if names is None else names[bad.argmax()])
        raise InputError(
            f"{what} gave no finite score in {int(bad.sum())} row(s), first in row {first} (counting from "
            "0): leave those rows out, or let the model score them."
        )
    return values


NAME = "the given scores"


@dataclass(frozen=True, eq=False)
class ScoresModel:
    """A model known by its scores, P(positive label): `column` of a table, or the numbers themselves."""

    column: str | None = None
    threshold: float = 0.5
    classes: npt.NDArray[Any] | tuple[Any, ...] = (0, 1)  # the positive label last

    def margin(self, rows: Any) -> Floats:
        """(n,) the scores as they were given; InputError where one is missing or outside [0, 1]."""
        return probabilities_of(self._values(rows), self._what)

    def embed(self, rows: Any) -> None:
        """Nothing: f_a reads the other columns."""

    @property
    def probabilities(self) -> bool:
        """Whether scores lie in [0, 1]."""
        return True

    @property
    def fingerprint(self) -> str:
        """Of the column's name alone: another model's scores in it cannot be told from this one's."""
        return f"scores in {self.column}"

    @property
    def _what(self) -> str:
        return "The scores" if self.column is None else f"The column {self.column!r}"

    def _values(self, rows: Any) -> Any:
        if np.ndim(rows) == 1 and not hasattr(rows, "columns"):
            return rows
        if self.column is None:
            raise InputError("The scores are not one number per row: pass a column of probabilities.")
        if self.column not in getattr(rows, "columns", ()):
            raise InputError(f"There is no column {self.column!r} with the model's scores: add it, or name another.")
        return rows[self.column]


def fit_scores(
    rows: Any, column: str | None = None, threshold: float = 0.5, classes: npt.NDArray[Any] | tuple[Any, ...] = (0, 1)
) -> Fitted:
    """The model behind these scores: `rows` is a table that has the column, or the scores themselves."""
    if not 0 < threshold < 1:
        raise InputError(f"The threshold is {threshold:g}: scores between 0 and 1 need one between 0 and 1.")
    model = ScoresModel(column, threshold, classes)
    return Fitted(model, model.margin(rows), False, NAME, {})


def threshold_for(scores: Floats, share: float, weights: Floats | None = None) -> float:
    """The score above which this share of people lies, by weight and as nearly as ties allow; somebody, never all."""
    values, place = np.unique(-scores, return_inverse=True)  # highest first
    if len(values) < 2:
        raise InputError("All scores are the same: no threshold selects some people and not others.")
    reached = np.cumsum(np.bincount(place, weights, minlength=len(values)))
    best = int(np.abs(reached[:-1] / reached[-1] - share).argmin())
    return float(-(values[best] + values[best + 1]) / 2)


def selecting(fitted: Fitted, rate: float | None, people: int, weights: Floats | None = None) -> Fitted:
    """The model with the threshold that selects this share of the training part, or so many of `people` in all.

    Scores of the training part are out of fold, so that new people are selected as often. None: the model's own.
    """
    if rate is None:
        return fitted
    if fitted.training_scores.ndim > 1:
        raise InputError("A selection rate is of two labels: of more, leave it out.")
    if rate >= people:
        raise InputError(f"--selection-rate is {rate:g} and there are {people} people: select fewer than all.")
    cut = threshold_for(fitted.training_scores, rate if rate < 1 else rate / people, weights)
    model: Any = fitted.model
    return replace(fitted, model=replace(model, threshold=cut))


def probabilities_of(values: Any, what: str) -> Floats:
    """(n,) numbers between 0 and 1, or an InputError that names the first row at fault, not its value."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} holds something that is not a number: pass probabilities, one per row.") from None
    scores = checked_scores(numbers, len(numbers), what)
    outside = (scores < 0) | (scores > 1)
    if outside.any():
        raise InputError(
            f"{what}: {int(outside.sum())} score(s) outside [0, 1], first in row {int(outside.argmax())} (counting "
            "from 0): pass probabilities."
        )
    return scores
