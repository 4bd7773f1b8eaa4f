"""Scores alone: a model that lives elsewhere is known by a column of what it said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.errors import InputError
from apod.models.model import Fitted, Floats, checked_scores

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
