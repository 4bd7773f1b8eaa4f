"""Whether a model that came fitted was trained on the very people it is judged on here.

Its scores of them would be too good: a correction fitted on these would be too small, its promised accuracy too high.
Nobody can tell for certain, so there is one rule, which only flagrant cases meet: the model is right about nearly
everybody, and far more often than the better standard model is out of fold. A model that fits its training rows less
closely (boosting with few trees, a linear model) is not noticed; an honest one that is that much better is suspected
wrongly, and only a warning is given.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from apod.models.model import Fitted, IntArray
from apod.models.standard import fit_standard

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
    right = float(np.mean((fitted.training_scores > fitted.model.threshold) == labels))
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
