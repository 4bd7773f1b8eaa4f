"""What is mitigated: anything that scores people for a binary label.

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

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from apod.errors import InputError

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Model(Protocol):
    """A fitted model of a binary label.

    Invariants: `margin` is the model's own score of the second class, bit for bit, finite, the same for the same row
    whoever else is in the batch; the model never changes; `fingerprint` differs where any score could.
    """

    @property
    def classes(self) -> npt.NDArray[Any] | tuple[Any, ...]:
        """The two labels, the positive one last."""
        ...

    @property
    def threshold(self) -> float:
        """The score above which the model predicts the positive label."""
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
        """(n,) the model's own scores."""
        ...

    def embed(self, rows: Any) -> Floats | None:
        """(n, M) what f_a may read in the place of columns, None where the model has nothing of the kind."""
        ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model and what it says of the people it was fitted on."""

    model: Model
    training_scores: Floats  # (n,) out of fold where the model was fitted on these rows
    refitted: bool  # False: the model came fitted, and nobody knows whether these rows were among its own
    name: str  # in words, e.g. "histogram gradient boosting"
    accuracies: dict[str, float]  # cross-validated, by candidate; empty where there was no choice


def checked_scores(scores: npt.ArrayLike, rows: int, what: str, names: IntArray | None = None) -> Floats:
    """(n,) finite scores, or an InputError that names the first row at fault: its position, or its entry in `names`."""
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (rows,):
        raise InputError(f"{what} gave scores of shape {values.shape} for {rows} rows: one score per row is needed.")
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(bad.argmax() if names is None else names[bad.argmax()])
        raise InputError(
            f"{what} gave no finite score in {int(bad.sum())} row(s), first in row {first} (counting from "
            "0): leave those rows out, or let the model score them."
        )
    return values
