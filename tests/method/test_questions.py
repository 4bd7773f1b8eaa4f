"""What an answer tells: the formula against answering both ways and weighing the draws anew."""

from __future__ import annotations

import numpy as np
import pytest

from apod.method.questions import Informativeness, effective_draws, most_informative, random_of_stratum, reweighted


@pytest.fixture
def case() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(40))
    return rng.dirichlet(np.ones(3), size=(40, 9)), rng.normal(size=(40, 2)), weights  # (D, n, G), (D, t), (D,)


def variance(targets: np.ndarray, weights: np.ndarray) -> float:
    return float((weights @ (targets - weights @ targets) ** 2).sum())


def expected_fall(members: np.ndarray, targets: np.ndarray, weights: np.ndarray, person: int) -> float:
    """By trying every answer: how probable it is, and what variance it would leave."""
    left = 0.0
    for group in range(members.shape[2]):
        likely = members[:, person, group]
        left += (weights @ likely) * variance(targets, reweighted(weights, likely))
    return variance(targets, weights) - left


def test_the_gain_of_a_question_is_the_expected_fall_of_the_variance(case: tuple[np.ndarray, ...]) -> None:
    members, targets, weights = case
    gains = Informativeness(members, targets, weights).gains()
    truth = [expected_fall(members, targets, weights, person) for person in range(9)]
    np.testing.assert_allclose(gains, truth, rtol=1e-9)


def test_two_groups_need_one_of_the_two_probabilities(case: tuple[np.ndarray, ...]) -> None:
    members, targets, weights = case
    two = np.stack([members[..., 0], 1 - members[..., 0]], axis=2)
    short, full = Informativeness(two[..., 1], targets, weights), Informativeness(two, targets, weights)
    np.testing.assert_allclose(short.gains(), full.gains(), rtol=1e-9)
    for one in (short, full):
        one.expect_answer(3)
        one.expect_answer(5)
    np.testing.assert_allclose(short.gains(), full.gains(), rtol=1e-9)


def test_an_expected_answer_leaves_the_average_covariance_that_the_two_answers_would(
    case: tuple[np.ndarray, ...],
) -> None:
    members, targets, weights = case
    asked = Informativeness(members, targets, weights)
    asked.expect_answer(4)
    left = np.zeros((9, 3, 2))
    for group in range(3):
        likely = members[:, 4, group]
        after = reweighted(weights, likely)
        centred = (targets - after @ targets) * after[:, None]
        left += (weights @ likely) * np.einsum("dt,dna->nat", centred, members)
    np.testing.assert_allclose(asked._covariance, left, atol=1e-12)


def test_a_batch_is_not_the_same_question_many_times() -> None:
    hidden = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=float)  # what the draws disagree about
    copies = 0.5 + 0.45 * hidden[:, :1] + np.zeros((4, 5))
    other = 0.5 + 0.4 * hidden[:, 1:]
    scored = Informativeness(np.hstack([copies, other]), hidden, np.full(4, 0.25))
    chosen = most_informative(scored, np.ones(6, dtype=bool), 2)
    assert chosen == [0, 5]


def test_questions_already_out_are_counted_and_nobody_is_asked_twice(case: tuple[np.ndarray, ...]) -> None:
    members, targets, weights = case
    askable = np.ones(9, dtype=bool)
    askable[[2, 7]] = False
    chosen = most_informative(Informativeness(members, targets, weights), askable, 20, out=[2])
    assert sorted(chosen) == [0, 1, 3, 4, 5, 6, 8]


def test_random_questions_keep_strata_equal_and_know_their_probability() -> None:
    strata = np.array([0] * 90 + [1] * 10)
    askable, asked, rng = np.ones(100, dtype=bool), [], np.random.default_rng(0)
    for _ in range(8):
        person, probability = random_of_stratum(strata, len(asked), askable, rng)
        assert probability == 1 / (askable & (strata == strata[person])).sum()
        askable[person] = False
        asked.append(person)
    assert np.bincount(strata[asked]).tolist() == [4, 4]


def test_equal_weights_count_every_draw() -> None:
    assert effective_draws(np.full(50, 1 / 50)) == pytest.approx(50)
    assert effective_draws(np.eye(50)[0]) == pytest.approx(1)
