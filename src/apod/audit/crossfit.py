"""Proxies for an audit: who probably belongs to which group, guessed without looking at their own answer.

Cross-fitting: the answers are split into folds, and people of a fold get their proxies from a model of the other
folds; everybody else from the mean of all models. So a proxy is never better on those who answered than on others,
which is what the intervals rest on.
"""

from __future__ import annotations

import numpy as np

from apod.audit.shares import FloatArray
from apod.data.dataset import IntArray

FOLDS = 5
COMPONENTS = 20
RIDGE = 30.0
"""Strong: with a hundred answers and twenty inputs a weaker one learns noise."""

_NEWTON_STEPS = 12


def components(features: FloatArray, most: int = COMPONENTS) -> FloatArray:
    """The leading principal components of standardised features, (n, k): inputs few enough for few answers."""
    spread = features.std(axis=0)
    kept = spread > 1e-9
    if not kept.any():
        return np.zeros((len(features), 1))
    scaled = (features[:, kept] - features[:, kept].mean(axis=0)) / spread[kept]
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    leading = vectors[:, np.argsort(values)[::-1][:most]]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])  # eigh leaves them open
    return np.asarray(scaled @ (leading * signs), dtype=np.float64)


def fit_logistic(inputs: FloatArray, targets: FloatArray, used: FloatArray, ridge: float = RIDGE) -> FloatArray:
    """Weights (b, k + 1), intercept last, of b ridge logistic regressions at once.

    inputs (b, n, k) · targets (b, n) in [0, 1] · used (b, n) weight of each row, 0 = left out
    """
    augmented = np.concatenate([inputs, np.ones((*inputs.shape[:-1], 1))], axis=-1)  # (b, n, k + 1)
    penalty = np.full(augmented.shape[-1], ridge)
    penalty[-1] = 0.5  # next to nothing, so that answers of one group alone leave a finite intercept
    weights = np.zeros((len(inputs), augmented.shape[-1]))
    transposed = np.swapaxes(augmented, 1, 2)
    for _ in range(_NEWTON_STEPS):
        chance = _sigmoid((augmented @ weights[..., None])[..., 0])
        slope = (transposed @ (used * (chance - targets))[..., None])[..., 0] + penalty * weights
        curvature = transposed @ (augmented * (used * np.maximum(chance * (1 - chance), 1e-6))[..., None])
        weights = weights - np.linalg.solve(curvature + np.diag(penalty), slope[..., None])[..., 0]
    return weights


def cross_fitted(
    inputs: FloatArray, rows: IntArray, targets: FloatArray, rng: np.random.Generator, folds: int = FOLDS
) -> FloatArray:
    """P(group) of everybody, (..., n, g), for one audit or a batch of them.

    inputs (n, k) · rows (..., m) of those who answered · targets (..., m, g) their answers
    """
    batch, m, groups = targets.shape[:-2], targets.shape[-2], targets.shape[-1]
    rows, targets = rows.reshape(-1, m), targets.reshape(-1, m, groups)
    folds = max(2, min(folds, m))
    fold = np.argsort(rng.random(rows.shape), axis=1) % folds  # (b, m)
    used = (fold[:, None] != np.arange(folds)[:, None]).astype(np.float64)  # (b, folds, m)
    own = np.repeat(inputs[rows], folds, axis=0)  # (b * folds, m, k)
    # two groups need one model; beyond, one against the rest, brought to sum to one
    guessed = []
    for group in range(1, 2) if groups == 2 else range(groups):
        weights = fit_logistic(own, np.repeat(targets[..., group], folds, axis=0), used.reshape(-1, m))
        everybody = _sigmoid(weights[:, :-1] @ inputs.T + weights[:, -1:])  # (b * folds, n)
        everybody = everybody.reshape(len(rows), folds, -1)
        chance = everybody.mean(axis=1)  # (b, n)
        audits = np.arange(len(rows))[:, None]
        chance[audits, rows] = everybody[audits, fold, rows]
        guessed.append(chance)
    proxies = np.stack([1 - guessed[0], guessed[0]] if groups == 2 else guessed, axis=-1)
    proxies /= proxies.sum(axis=-1, keepdims=True)
    return proxies.reshape(*batch, *proxies.shape[1:])


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
