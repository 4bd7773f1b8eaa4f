"""A model with all that a correction needs of it: calibrated probabilities, decisions, inputs for f_a."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from apod.data.encode import TableEncoder
from apod.errors import InputError
from apod.models.calibration import Calibration, fit_calibration
from apod.models.model import Fitted, Floats, IntArray, Model

NEAREST_TO_CERTAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Scored:
    """People as a model and its correction see them."""

    inputs: npt.NDArray[np.float32]  # (n, d) what f_a reads
    scores: Floats  # (n,) the model's own
    eta: Floats  # (n,) calibrated P(y = 1)
    decisions: IntArray  # (n,) of the model, 0 or 1
    margins: Floats  # (n,) calibrated log odds above the threshold

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: IntArray) -> Scored:
        """These people."""
        return Scored(self.inputs[rows], self.scores[rows], self.eta[rows], self.decisions[rows], self.margins[rows])

    def followed_by(self, others: Scored) -> Scored:
        """These people and then the others."""
        both = zip(vars(self).values(), vars(others).values(), strict=True)
        return Scored(*(np.concatenate(pair) for pair in both))


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """A frozen model, its calibration, and the encoding of what f_a reads."""

    model: Model
    calibration: Calibration
    encoder: TableEncoder

    @property
    def cut(self) -> float:
        """The calibrated probability at which the model's decision changes."""
        return self.calibration.cut

    def score(self, X: Any, columns: Any | None = None, scores: Floats | None = None) -> Scored:
        """Score people; f_a reads `columns`, or X itself. `scores` are theirs where they are known: out of fold."""
        own = self.model.margin(X) if scores is None else scores
        eta = self.calibration.probability(own)
        inside = eta.clip(NEAREST_TO_CERTAIN, 1 - NEAREST_TO_CERTAIN)
        return Scored(
            inputs=self.encoder.transform(X if columns is None else columns),
            scores=own,
            eta=eta,
            decisions=(own > self.model.threshold).astype(np.int64),
            margins=np.asarray(logit(inside) - logit(self.cut)),
        )


def scored_model(fitted: Fitted, labels: IntArray, columns: Any) -> ScoredModel:
    """Calibrate a model on the scores it gave to these people out of fold; `columns` are what f_a reads of them."""
    threshold, probabilities = fitted.model.threshold, fitted.model.probabilities
    if probabilities and not 0 < threshold < 1:
        raise InputError(f"The threshold is {threshold:g}: probabilities need one between 0 and 1.")
    calibration = fit_calibration(fitted.training_scores, labels, threshold, probabilities=probabilities)
    return ScoredModel(fitted.model, calibration, TableEncoder().fit(columns))
