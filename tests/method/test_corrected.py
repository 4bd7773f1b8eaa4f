"""A corrected model: itself at strength 0; above it, scores cross the threshold where decisions change."""

from __future__ import annotations

import numpy as np
import pytest

from apod.data import make_example, split_rows
from apod.errors import InputError
from apod.fairness.notions import EQUALIZED_ODDS
from apod.method.corrected import CorrectedModel, ModelPool, corrected, model_pool
from apod.method.correction_choice import Limits
from apod.method.correction_fit import STRENGTHS
from apod.method.model_mitigation import ModelMitigation
from apod.models.scored import Calibration
from apod.models.standard import fit_standard


@pytest.fixture(scope="module")
def fitted() -> tuple[CorrectedModel, ModelPool, ModelMitigation]:
    people = make_example(900)
    parts = split_rows(people.key, len(people), people.task.split, 0)
    train, rest = parts.train, parts.validation
    model = fit_standard(people.features.iloc[train], people.labels[train], 0)
    pool = model_pool(
        model, (people.features.iloc[train], people.labels[train]), (people.features.iloc[rest], people.labels[rest])
    )
    loop = ModelMitigation(
        pool.people,
        pool.labels,
        pool.training,
        notion=EQUALIZED_ODDS,
        n_groups=2,
        cut=pool.scored.cut,
        limits=Limits(caution=0),
        seed=0,
    )
    for row in range(60):
        loop.add_answer(0, row, int(people.groups[train[row]]))
    loop.refit()
    return corrected(pool.scored, loop.fitted), pool, loop


def test_at_strength_zero_scores_are_the_models_own_bit_for_bit(
    fitted: tuple[CorrectedModel, ModelPool, ModelMitigation],
) -> None:
    model, pool, _ = fitted
    features = make_example(200).features
    own = pool.scored.model.margin(features)
    people = model.score_people(features)
    assert np.array_equal(model.at(0).scores(people), own)
    assert np.array_equal(model.at(0).decisions(people)[0], own > pool.scored.model.threshold)


@pytest.mark.parametrize("strength", [1e-6, 0.05, 0.3, 1.5])
def test_scores_cross_the_threshold_exactly_where_decisions_change(
    fitted: tuple[CorrectedModel, ModelPool, ModelMitigation], strength: float
) -> None:
    model, pool, _ = fitted
    moved = model.at(strength)
    assert np.array_equal(moved.scores(pool.people) > pool.scored.model.threshold, moved.decisions(pool.people)[0] == 1)


def test_decisions_are_the_sign_of_probability_less_cut_less_push(
    fitted: tuple[CorrectedModel, ModelPool, ModelMitigation],
) -> None:
    model, pool, loop = fitted
    assert loop.fitted is not None
    strengths = np.array([0.02, 0.4, 1.5])
    margins = 2 * (pool.people.eta - pool.scored.cut) - strengths[:, None] * model.pushes(pool.people)
    assert np.array_equal(model.decisions(pool.people, strengths) == 1, margins > 0)


def test_the_chosen_strength_changes_the_decisions_that_the_choice_was_judged_by(
    fitted: tuple[CorrectedModel, ModelPool, ModelMitigation],
) -> None:
    model, pool, loop = fitted
    assert loop.fitted is not None
    assert loop.fitted.chosen.applied
    assert model.strength in STRENGTHS
    changed = model.decisions(pool.people)[0] != pool.people.decisions
    assert changed.any()
    assert np.array_equal(changed, loop.fitted.changed())


def test_scores_are_continuous_in_the_strength(fitted: tuple[CorrectedModel, ModelPool, ModelMitigation]) -> None:
    model, pool, _ = fitted
    assert np.allclose(model.at(1e-9).scores(pool.people), pool.people.scores, atol=1e-7)


def test_without_answers_there_is_strength_zero_alone(
    fitted: tuple[CorrectedModel, ModelPool, ModelMitigation],
) -> None:
    plain = corrected(fitted[1].scored, None)
    assert plain.strengths.tolist() == [0.0]
    assert np.array_equal(plain.decisions(fitted[1].people)[0], fitted[1].people.decisions)
    with pytest.raises(InputError, match="only strength 0 is available"):
        plain.at(0.1)
    with pytest.raises(InputError, match="pass a number from 0 up"):
        plain.at(float("nan"))


@pytest.mark.parametrize(
    "calibration",
    [Calibration((1.3, 0.4), -0.2, True), Calibration((0.05, 2.0), 1.0, True), Calibration((3.0,), 0.5, False)],
)
def test_scores_of_probabilities_invert_the_calibration(calibration: Calibration) -> None:
    scores = np.array([1e-6, 0.01, 0.2, 0.5, 0.77, 0.999])
    assert np.allclose(calibration.score(calibration.probability(scores)), scores, rtol=1e-9, atol=1e-12)
    assert np.isfinite(calibration.score([-0.3, 0.0, 1.0, 1.4])).all()
