"""Questions in turn: half random, nobody twice, the same for the same answers, and better than random ones alone."""

from __future__ import annotations

import numpy as np
import pytest
from correction_people import simulated_population

from apod.fairness.notions import member_rates
from apod.method.correction_fit import Population, sample_population
from apod.method.questions import FIRST_RANDOM, RANDOM_RULE, Asking, gap_targets


def interview(
    population: Population, groups: np.ndarray, count: int, seed: int, share: float = 0.5, batch: int = 1
) -> tuple[list[int], list[int]]:
    asking = Asking(population, population.people.labels[: population.training], seed, share)
    rng, asked, drawn = np.random.default_rng(seed), [], []
    while len(asked) < count:
        for choice in asking.choose(min(batch, count - len(asked)), (), rng):
            asked.append(choice.row)
            if choice.reason["rule"] == RANDOM_RULE:
                drawn.append(choice.row)
            asking.add_answer(choice.row, np.eye(2)[groups[choice.row]])
    return asked, drawn


@pytest.mark.parametrize("batch", [1, 5])
def test_half_of_the_questions_are_random_and_nobody_is_asked_twice(batch: int) -> None:
    population, groups = simulated_population(600, 0)
    asked, drawn = interview(population, groups, 30, seed=0, batch=batch)
    assert len(set(asked)) == 30
    assert max(asked) < population.training
    assert asked[:FIRST_RANDOM] == drawn[:FIRST_RANDOM]
    assert len(drawn) == 15
    assert np.bincount(population.people.labels[drawn]).tolist() in ([8, 7], [7, 8])


def test_the_same_answers_lead_to_the_same_questions() -> None:
    population, groups = simulated_population(600, 1)
    assert interview(population, groups, 20, seed=3) == interview(population, groups, 20, seed=3)


def test_unanswered_groups_change_no_question() -> None:
    population, groups = simulated_population(600, 2)
    asked, _ = interview(population, groups, 24, seed=0)
    other = 1 - groups
    other[asked] = groups[asked]
    assert interview(population, other, 24, seed=0)[0] == asked


def test_questions_out_are_not_asked_again_and_a_corrected_answer_counts_anew() -> None:
    population, groups = simulated_population(400, 3)
    asking = Asking(population, population.people.labels[:200], 0)
    rng = np.random.default_rng(0)
    for row in range(12):
        asking.add_answer(row, np.eye(2)[groups[row]])
    first = asking.choose(3, (), rng)
    again = asking.choose(3, [choice.row for choice in first], rng)
    assert not {choice.row for choice in first} & {choice.row for choice in again}
    asking.add_answer(0, np.eye(2)[1 - groups[0]])
    asking.forget(1)
    assert 1 not in asking._answered
    assert len(asking.choose(1, (), rng)) == 1


def test_who_cannot_be_told_is_not_asked_about_again() -> None:
    population, _ = simulated_population(40, 4)
    asking = Asking(population, population.people.labels[: population.training], 0)
    rng, asked = np.random.default_rng(0), []
    while chosen := asking.choose(1, (), rng):
        asked.append(chosen[0].row)
        asking.add_answer(chosen[0].row, None)
    assert sorted(asked) == list(range(population.training))


def test_the_gaps_that_questions_aim_at_are_those_of_the_members() -> None:
    population, _ = simulated_population(500, 5)
    members = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 500)).astype(np.float32)  # (D, n, G)
    people = population.people
    rates = member_rates(population.notion, people.labels, people.decisions[None], members.astype(np.float64))
    truth = (rates[:, 0, :, 0, 0] - rates[:, 0, :, 0, 1]).reshape(3, -1)
    np.testing.assert_allclose(gap_targets(population, members, slice(None)), truth, atol=1e-5)
    np.testing.assert_allclose(gap_targets(population, members[:, :, 0], slice(None)), truth, atol=1e-5)


def test_of_many_people_the_question_is_the_best_of_some_and_all_are_asked_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apod.method.questions.CANDIDATES", 20)
    population, groups = simulated_population(120, 6)
    asked, _ = interview(population, groups, 60, seed=0, batch=3)
    assert sorted(asked) == list(range(60))
    assert interview(population, groups, 30, seed=0, batch=3)[0] == asked[:30]


@pytest.mark.slow
def test_chosen_questions_estimate_the_gap_better_than_random_ones() -> None:
    """Mean squared error of the signed gaps over 16 populations, 40 answers each."""
    errors: dict[float, list[float]] = {0.5: [], 1.0: []}
    for seed in range(16):
        population, groups = simulated_population(1500, seed, shows=2.0)
        truth = gap_targets(population, np.eye(2, dtype=np.float32)[groups][None], slice(None))[0]
        for share, found in errors.items():
            asked, _ = interview(population, groups, 40, seed, share)
            rows, likelihood, posterior = sample_population(
                population, {row: np.eye(2)[groups[row]] for row in asked}, seed
            )
            members = np.concatenate([own for _, own in posterior.blocks(population.columns, rows, likelihood)])
            found_gaps = gap_targets(population, members.transpose(1, 0, 2), slice(None)).mean(axis=0)
            found.append(float(((found_gaps - truth) ** 2).sum()))
    assert np.mean(errors[0.5]) < np.mean(errors[1.0])
