"""A model's scores, probabilities, decisions and margins agree with each other and with the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

from apod.data import make_example
from apod.errors import InputError
from apod.models.scored import scored_model
from apod.models.standard import fit_standard


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_scores_and_decisions_are_the_models_own_and_margins_cross_zero_with_them(threshold: float) -> None:
    people = make_example(300)
    fitted = fit_standard(people.features, people.labels, 0, threshold=threshold)
    scored = scored_model(fitted, people.labels, people.features).score(people.features)
    np.testing.assert_array_equal(scored.scores, fitted.model.margin(people.features))
    np.testing.assert_array_equal(scored.decisions, scored.scores > threshold)
    np.testing.assert_array_equal(scored.margins > 0, scored.scores > threshold)
    np.testing.assert_allclose(scored.margins, logit(scored.eta) - logit(scored.eta[0]) + scored.margins[0], atol=1e-9)
    few = scored.take(np.array([3, 1]))
    np.testing.assert_array_equal(few.scores, scored.scores[[3, 1]])
    assert len(few) == 2


def test_scores_that_are_known_are_not_computed_again_and_f_a_may_read_other_columns() -> None:
    people = make_example(200)
    fitted = fit_standard(people.features, people.labels, 0)
    columns = pd.DataFrame({"age": np.arange(200.0)})
    model = scored_model(fitted, people.labels, columns)
    scored = model.score(people.features, columns, fitted.training_scores)
    np.testing.assert_array_equal(scored.scores, fitted.training_scores)
    assert scored.inputs.shape == (200, 1)


def test_a_threshold_no_probability_can_cross_is_refused() -> None:
    people = make_example(200)
    fitted = fit_standard(people.features, people.labels, 0, threshold=1.0)
    with pytest.raises(InputError, match="between 0 and 1"):
        scored_model(fitted, people.labels, people.features)
