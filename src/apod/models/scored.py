"""Scores to probabilities that mean something, and a model with all that a correction needs of it.

    probabilities s:    c(s) = sigmoid(a log s - b log(1 - s) + m),   a, b > 0     (beta calibration)
    any other scores:   c(s) = sigmoid(a s + m),                      a > 0        (Platt)
    more than 2 labels: c(s) = softmax(a log s), or softmax(a s),     a > 0        (temperature)

Who is ranked above whom stays as the model says, and of many labels which is the most probable, so the model's own
decisions stay as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp, softmax

from apod.data.encode import ReadAs, TableEncoder
from apod.errors import InputError
from apod.models.model import Fitted, IntArray, Model

Floats = npt.NDArray[np.float64]

LEAST_SLOPE = 0.05
"""Of each slope, in units of a calibrated model's: strictly increasing, even where scores say nothing."""
PRIOR_SD = 0.3
NEAREST_SCORE = 1e-12
INVERSE_STEPS = 60
"""Halvings of an interval of about 100: to the last bits of a double."""


@dataclass(frozen=True)
class Calibration:
    """A strictly increasing map from a model's scores to probabilities of the positive label."""

    slopes: tuple[float, ...]
    offset: float
    probabilities: bool  # whether the scores lie in [0, 1]
    threshold: float = 0.5  # of the model's own decisions, as a score

    def probability(self, scores: npt.ArrayLike) -> Floats:
        """(n,) P(y = 1) of these scores."""
        features = _features(np.asarray(scores, np.float64), self.probabilities)
        return np.asarray(expit((features * self.slopes).sum(axis=1) + self.offset))

    def score(self, probabilities: npt.ArrayLike) -> Floats:
        """(n,) the scores that mean these probabilities: the inverse, of probabilities cut to (0, 1)."""
        wanted = logit(np.clip(np.asarray(probabilities, np.float64), NEAREST_SCORE, 1 - NEAREST_SCORE))
        if not self.probabilities:
            return np.asarray((wanted - self.offset) / self.slopes[0])
        return np.asarray(expit(_inverse_log_odds(wanted - self.offset, *self.slopes)))

    @property
    def cut(self) -> float:
        """The probability at which the model's decision changes."""
        return float(self.probability([self.threshold])[0])


def fit_calibration(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    threshold: float = 0.5,
    *,
    probabilities: bool = True,
    weights: Floats | None = None,
) -> Calibration:
    """The map under which the labels are most likely; scores (n,) out of fold, labels (n,) 0 or 1.

    A prior (a normal of sd 0.3 around slope 1, offset 0) keeps it near the scores where people are few.
    """
    values, y = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    if not 0 < y.mean() < 1:
        raise InputError("All labels are the same: a calibration needs people of both labels.")
    features = _features(values, probabilities)
    unit = 1.0 if probabilities else 1.0 / max(float(values.std()), 1e-300)
    start = np.array([unit] * features.shape[1] + [0.0])
    spread = PRIOR_SD * np.array([unit] * features.shape[1] + [1.0])
    signs = 2 * y - 1

    def loss(parameters: Floats) -> tuple[float, Floats]:
        margins = features @ parameters[:-1] + parameters[-1]
        away = (parameters - start) / spread
        slope, each = -signs * expit(-signs * margins), np.logaddexp(0, -signs * margins)
        if weights is not None:
            slope, each = slope * weights, each * weights
        gradient = np.append(slope @ features, slope.sum()) + away / spread
        return float(each.sum() + 0.5 * away @ away), gradient

    bounds = [(LEAST_SLOPE * unit, None)] * features.shape[1] + [(None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Calibration(tuple(map(float, found.x[:-1])), float(found.x[-1]), probabilities, float(threshold))


def _features(values: Floats, probabilities: bool) -> Floats:
    if not probabilities:
        return values[:, None]
    if values.size and (values.min() < 0 or values.max() > 1):
        raise InputError("A score lies outside [0, 1]: pass probabilities, or say that they are margins.")
    inside = values.clip(NEAREST_SCORE, 1 - NEAREST_SCORE)
    return np.stack([np.log(inside), -np.log1p(-inside)], axis=1)


def _inverse_log_odds(target: Floats, rising: float, falling: float) -> Floats:
    """(n,) the z with rising x log sigmoid(z) - falling x log sigmoid(-z) = target, by halving: it is increasing in z.

    The sum of the two terms lies between min(a, b) z and max(a, b) z up to (a + b) log 2, which brackets z.
    """
    least = min(rising, falling)
    reach = (np.abs(target) + (rising + falling) * np.log(2)) / least
    low, high = -reach, reach
    for _ in range(INVERSE_STEPS):
        middle = (low + high) / 2
        value = -rising * np.logaddexp(0, -middle) + falling * np.logaddexp(0, middle)
        low, high = np.where(value < target, middle, low), np.where(value < target, high, middle)
    return np.asarray((low + high) / 2)


SLOPE_SD = 0.5
"""Of the logarithm of the slope of many labels, before anything is known."""


@dataclass(frozen=True)
class ClassCalibration:
    """A temperature: it maps a model's scores of more than two labels to probabilities, and keeps their order."""

    slope: float
    probabilities: bool  # whether the scores are probabilities

    def probability(self, scores: npt.ArrayLike) -> Floats:
        """(n, K) P(label) of these scores (n, K)."""
        return np.asarray(softmax(self.slope * _class_features(np.asarray(scores), self.probabilities), axis=1))

    def score(self, probabilities: Floats) -> Floats:
        """(n, K) the scores that mean these probabilities; where scores are none, up to a constant of each row."""
        logs = np.log(probabilities.clip(NEAREST_SCORE)) / self.slope
        if not self.probabilities:
            return np.asarray(logs)
        return np.asarray(softmax(np.where(probabilities > 0, logs, -np.inf), axis=1))

    @property
    def cut(self) -> float:
        """None: the most probable label is decided for."""
        return float("nan")


def fit_class_calibration(
    scores: Floats, labels: IntArray, *, probabilities: bool, weights: Floats | None = None
) -> ClassCalibration:
    """The temperature under which the labels are most likely; scores (n, K) out of fold, labels and weights (n,).

    A prior (log-normal around slope 1) keeps it near the scores where people are few.
    """
    features = _class_features(scores, probabilities)
    unit = 1.0 if probabilities else 1.0 / max(float(features.std()), 1e-300)
    own = features[np.arange(len(labels)), labels]

    def loss(place: Floats) -> float:
        slope = unit * np.exp(place[0])
        each = logsumexp(slope * features, axis=1) - slope * own
        return float((each if weights is None else weights * each).sum() + 0.5 * (place[0] / SLOPE_SD) ** 2)

    found = minimize(loss, np.zeros(1), method="L-BFGS-B", bounds=[(-3.0, 3.0)])
    return ClassCalibration(float(unit * np.exp(found.x[0])), probabilities)


def _class_features(scores: Floats, probabilities: bool) -> Floats:
    return np.asarray(np.log(scores.clip(NEAREST_SCORE)) if probabilities else scores, dtype=np.float64)


NEAREST_TO_CERTAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Scored:
    """People as a model and its correction see them."""

    inputs: npt.NDArray[np.float32]  # (n, d) what f_a reads
    scores: Floats  # (n,) the model's own; (n, K) of more than two labels
    eta: Floats  # (n,) calibrated P(y = 1); (n, K) of every label
    decisions: IntArray  # (n,) of the model, codes of the labels
    margins: Floats  # (n,) calibrated log odds above the threshold; of many labels, of the decision against the next

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
    calibration: Calibration | ClassCalibration
    encoder: TableEncoder

    @property
    def cut(self) -> float:
        """The calibrated probability at which the model's decision changes."""
        return self.calibration.cut

    def score(self, X: Any, columns: Any | None = None, scores: Floats | None = None) -> Scored:
        """Score people; f_a reads `columns`, or X itself. `scores` are theirs where they are known: out of fold."""
        own = self.model.margin(X) if scores is None else scores
        eta = self.calibration.probability(own)
        if eta.ndim == 2:
            return self._score_classes(X if columns is None else columns, own, eta)
        inside = eta.clip(NEAREST_TO_CERTAIN, 1 - NEAREST_TO_CERTAIN)
        return Scored(
            inputs=self.encoder.transform(X if columns is None else columns),
            scores=own,
            eta=eta,
            decisions=(own > self.model.threshold).astype(np.int64),
            margins=np.asarray(logit(inside) - logit(self.cut)),
        )

    def _score_classes(self, columns: Any, own: Floats, eta: Floats) -> Scored:
        logs = np.sort(np.log(eta.clip(NEAREST_TO_CERTAIN)), axis=1)
        return Scored(
            inputs=self.encoder.transform(columns),
            scores=own,
            eta=eta,
            decisions=own.argmax(axis=1).astype(np.int64),
            margins=np.asarray(logs[:, -1] - logs[:, -2]),
        )


def scored_model(
    fitted: Fitted,
    labels: IntArray,
    columns: Any,
    read_as: Mapping[str, ReadAs] | None = None,
    weights: Floats | None = None,
) -> ScoredModel:
    """Calibrate a model on the scores it gave to these people out of fold; `columns` are what f_a reads of them."""
    threshold, probabilities = fitted.model.threshold, fitted.model.probabilities
    if probabilities and not 0 < threshold < 1:
        raise InputError(f"The threshold is {threshold:g}: probabilities need one between 0 and 1.")
    calibration: Calibration | ClassCalibration
    if fitted.training_scores.ndim == 2:
        calibration = fit_class_calibration(
            fitted.training_scores, labels, probabilities=probabilities, weights=weights
        )
    else:
        calibration = fit_calibration(
            fitted.training_scores, labels, threshold, probabilities=probabilities, weights=weights
        )
    return ScoredModel(fitted.model, calibration, TableEncoder().fit(columns, read_as=read_as))
