"""Calibration: true probabilities come back, ranks stay, decisions at the model's threshold stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from apod.errors import InputError
from apod.models.scored import fit_calibration


def test_overconfident_scores_become_true_probabilities() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.02, 0.98, 40_000)
    labels = (rng.random(40_000) < truth).astype(int)
    overconfident = expit(2.5 * logit(truth) + 0.4)
    found = fit_calibration(overconfident, labels).probability(overconfident)
    assert np.abs(found - truth).max() < 0.02


def test_margins_of_a_decision_function_are_calibrated_like_an_unpenalised_logistic_regression() -> None:
    rng = np.random.default_rng(1)
    margin = 40 * rng.normal(size=20_000)
    labels = (rng.random(20_000) < expit(0.05 * margin - 0.3)).astype(int)
    found = fit_calibration(margin, labels, threshold=0.0, probabilities=False)
    truth = LogisticRegression(C=np.inf).fit(margin[:, None], labels)
    np.testing.assert_allclose(found.probability(margin), truth.predict_proba(margin[:, None])[:, 1], atol=0.005)


@pytest.mark.parametrize("labels", ["as scored", "reversed", "unrelated"])
def test_ranks_and_decisions_never_change(labels: str) -> None:
    rng = np.random.default_rng(2)
    scores = np.sort(rng.random(300))
    y = {"as scored": scores > 0.5, "reversed": scores < 0.5, "unrelated": rng.random(300) > 0.5}[labels].astype(int)
    found = fit_calibration(scores, y, threshold=0.4)
    probability = found.probability(scores)
    assert (np.diff(probability) > 0).all()
    np.testing.assert_array_equal(probability > found.cut, scores > 0.4)


def test_certain_scores_keep_finite_probabilities() -> None:
    found = fit_calibration([0.0, 0.1, 0.9, 1.0], [0, 0, 1, 1])
    assert np.isfinite(found.probability([0.0, 1.0])).all()


def test_scores_outside_0_and_1_and_a_single_label_are_refused() -> None:
    with pytest.raises(InputError, match="outside"):
        fit_calibration([0.2, 1.2], [0, 1])
    with pytest.raises(InputError, match="both labels"):
        fit_calibration([0.2, 0.4], [1, 1])
