"""Fresh answers: the test is exact, chance passes rarely, and what is tested is what the correction changes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from correction_people import simulated_population
from scipy.stats import binom

from apod.fairness.notions import member_rates
from apod.method.correction_choice import Limits
from apod.method.correction_fit import FittedCorrection, fit_correction
from apod.method.verification import (
    LEVEL,
    SHRUNK_LEVEL,
    Tally,
    Verification,
    Verified,
    count_distribution,
    leading_changes,
    needed_count,
    plan_verification,
)

BOLD = Limits(accuracy=0.05, balanced=0.05, caution=0.0, reversal=0.5)


@pytest.fixture(scope="module")
def corrected() -> tuple[FittedCorrection, np.ndarray]:
    population, groups = simulated_population(3000, 0, shows=2.5)
    rows = np.random.default_rng(0).choice(1500, 60, replace=False)
    return fit_correction(population, {int(r): np.eye(2)[groups[r]] for r in rows}, BOLD, seed=0), groups


def test_the_number_of_successes_has_the_distribution_that_enumeration_gives() -> None:
    chance = np.array([0.2, 0.5, 0.9, 0.35])
    found = np.zeros(5)
    for outcome in product((0, 1), repeat=4):
        found[sum(outcome)] += np.prod(np.where(outcome, chance, 1 - chance))
    np.testing.assert_allclose(count_distribution(chance), found, atol=1e-15)


@pytest.mark.parametrize("n", [1, 5, 15, 40])
@pytest.mark.parametrize("chance", [0.1, 0.4, 0.7])
def test_the_needed_number_is_that_of_the_exact_binomial_test(n: int, chance: float) -> None:
    possible = [m for m in range(n + 1) if binom.sf(m - 1, n, chance) <= LEVEL]
    assert needed_count(np.full(n, chance), LEVEL) == (possible[0] if possible else None)


def test_what_is_tested_is_what_the_correction_does_to_the_gap(corrected: tuple[FittedCorrection, np.ndarray]) -> None:
    """The weighted sum over changed people is the fall of the gap, where shares are the true ones; what is overshot
    counts as fallen."""
    fitted, groups = corrected
    population, changes = fitted.population, leading_changes(fitted)
    people, decided = population.people, population.people.decisions
    after = decided.copy()
    after[changes.rows] = 1 - after[changes.rows]
    rates = member_rates(population.notion, people.labels, np.stack([decided, after]), np.eye(2)[groups][None])
    signed = rates[0, :, :, 0, 0] - rates[0, :, :, 0, 1]  # (2, k)
    cells = np.asarray(population.notion.cells(people.labels))
    cell = cells[changes.rows].argmax(axis=1)
    of_first = np.array([(groups[cells[:, c]] == 0).mean() for c in range(2)])
    share = np.where(changes.favoured[:, 0], of_first[cell], 1 - of_first[cell])
    favourable = changes.favoured[np.arange(len(cell)), groups[changes.rows]]
    moved = (favourable - share) / (cells.sum(axis=0) * of_first * (1 - of_first))[cell]
    assert moved.sum() == pytest.approx((np.sign(signed[0]) * (signed[0] - signed[1])).sum())


def test_a_correction_that_helps_passes_and_further_answers_leave_it_as_it_is(
    corrected: tuple[FittedCorrection, np.ndarray],
) -> None:
    fitted, groups = corrected
    plan = plan_verification(fitted)
    assert plan is not None
    drawn = plan.draw(40, np.ones(3000, dtype=np.bool_), np.random.default_rng(1))
    assert len({choice.row for choice in drawn}) == 40
    assert fitted.changed()[[choice.row for choice in drawn]].all()
    answers = {choice.row: np.eye(2)[groups[choice.row]] for choice in drawn}
    verified = plan.judge(answers)
    assert verified.verdict == "passed"
    assert verified.strength == fitted.strength
    said = verified.words(["women", "men"], ["no", "yes"])
    assert f"at least {verified.needed} were needed." in said
    assert sum(one.favourable for one in verified.tallies) == verified.favourable
    assert sum(one.asked for one in verified.tallies) == verified.asked == 40
    kept = fit_correction(fitted.population, answers, BOLD, seed=0, frozen=plan.frozen)
    np.testing.assert_array_equal(kept.changed(), fitted.changed() & kept.chosen.applied)


def test_where_groups_are_shuffled_among_the_changed_the_test_passes_at_most_as_often_as_its_level(
    corrected: tuple[FittedCorrection, np.ndarray],
) -> None:
    plan = plan_verification(corrected[0])
    assert plan is not None
    verdicts = []
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        drawn = plan.draw(15, np.ones(3000, dtype=np.bool_), rng)
        verdicts.append(plan.judge(_by_chance(plan, [choice.row for choice in drawn], rng)).verdict)
    error = np.sqrt((LEVEL + SHRUNK_LEVEL) / 1000)
    assert np.isin(verdicts, ["passed", "shrunk"]).mean() <= LEVEL + SHRUNK_LEVEL + 2 * error


def _by_chance(plan: Verification, rows: list[int], rng: np.random.Generator) -> dict[int, np.ndarray]:
    place = {int(row): at for at, row in enumerate(plan.changes.rows)}
    found = {}
    for row in rows:
        favourable = rng.random() < plan.changes.chance[place[row]]
        group = int(np.flatnonzero(plan.changes.favoured[place[row]] == favourable)[0])
        found[row] = np.eye(2)[group]
    return found


def test_two_answers_verify_nothing_and_unsure_ones_do_not_count(
    corrected: tuple[FittedCorrection, np.ndarray],
) -> None:
    plan = plan_verification(corrected[0])
    assert plan is not None
    two = {int(row): np.array([0.95, 0.05]) for row in plan.changes.rows[:2]}
    unsure = {int(row): np.array([0.8, 0.2]) for row in plan.changes.rows[2:30]}
    verified = plan.judge(two | unsure)
    assert (verified.verdict, verified.asked) == ("not verified", 2)


def test_the_verdict_is_said_in_words_with_the_groups_and_the_decision() -> None:
    one = Verified("passed", 15, 12, 9, 0.3, (Tally(0, (1,), 15, 12),))
    said = one.words(["Black", "White"], ["no", "yes"])
    assert said == "Of 15 people it would newly decide 'no', 12 are White; at least 9 were needed."
    both = Verified("failed", 3, 1, 3, 0.0, (Tally(0, (1,), 2, 1), Tally(1, (0,), 1, 0)))
    assert both.words(["Black", "White"], ["no", "yes"]) == (
        "Of 2 people it would newly decide 'no', 1 is White; of 1 person it would newly decide 'yes', 0 are Black. "
        "That is 1 of 3; at least 3 were needed. The base model is kept."
    )


def test_a_fingerprint_tells_frozen_corrections_apart(corrected: tuple[FittedCorrection, np.ndarray]) -> None:
    fitted, groups = corrected
    answers = {row: np.eye(2)[groups[row]] for row in range(80)}
    one, same = plan_verification(fitted), plan_verification(fitted)
    other = plan_verification(fit_correction(fitted.population, answers, BOLD, seed=0))
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.fingerprint == same.fingerprint != other.fingerprint
