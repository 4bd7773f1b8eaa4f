"""How many answers are enough: what is foreseen is what simulation shows."""

from __future__ import annotations

import numpy as np
import pytest
from correction_people import simulated_population
from scipy.integrate import quad
from scipy.stats import chi2, norm

from apod.errors import InputError
from apod.fairness.notions import EQUALIZED_ODDS
from apod.method.correction_choice import Limits
from apod.method.correction_fit import FittedCorrection, fit_correction
from apod.method.plan import (
    answers_to_confirm,
    confirmation,
    correction_outlook,
    difference_variances,
    expected_gain,
    outlook_words,
    plan_budget,
    smallest_gap,
)
from apod.method.verification import LEVEL, needed_count

SHARE, RATES = 0.35, np.array([0.6, 0.2])


def people(n: int, rng: np.random.Generator, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, decisions and groups: label 1 is decided 1 at RATES[0] on average, label 0 at RATES[1]."""
    labels, groups = rng.integers(0, 2, n), (rng.random(n) < SHARE).astype(np.int64)
    place = 1 - labels
    rate = RATES[place] + gaps[place] * np.where(groups == 1, 1 - SHARE, -SHARE)
    return labels, (rng.random(n) < rate).astype(np.int64), groups


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)])
def test_the_smallest_gap_is_found_with_the_stated_probability_at_least(shares: tuple[float, float]) -> None:
    rng, answers = np.random.default_rng(0), 200
    labels, decisions, _ = people(100_000, rng, np.zeros(2))
    gap = smallest_gap(EQUALIZED_ODDS, labels, decisions, SHARE, answers)
    variances = difference_variances(EQUALIZED_ODDS, labels, decisions, SHARE, answers)
    found = {}
    for size in (0.0, gap):
        hits = []
        for _ in range(600):
            labels, decisions, groups = people(2 * answers, rng, size * np.array(shares))
            rows = [np.flatnonzero(labels == label)[: answers // 2] for label in (1, 0)]
            signed = [decisions[r][groups[r] == 1].mean() - decisions[r][groups[r] == 0].mean() for r in rows]
            hits.append((np.array(signed) ** 2 / variances).sum() > chi2.ppf(0.95, 2))
        found[size] = np.mean(hits)
    assert found[0.0] <= 0.09
    assert found[gap] >= 0.76


def test_the_worst_way_to_share_a_gap_is_found_with_just_the_stated_probability() -> None:
    """Shared in proportion to the variances, the gap is hardest to see."""
    rng, answers = np.random.default_rng(1), 200
    labels, decisions, _ = people(100_000, rng, np.zeros(2))
    gap = smallest_gap(EQUALIZED_ODDS, labels, decisions, SHARE, answers)
    variances = difference_variances(EQUALIZED_ODDS, labels, decisions, SHARE, answers)
    signed = gap * variances / variances.sum() + rng.normal(size=(20_000, 2)) * np.sqrt(variances)
    assert ((signed**2 / variances).sum(axis=1) > chi2.ppf(0.95, 2)).mean() == pytest.approx(0.8, abs=0.01)


def test_a_plan_says_the_smallest_gap_and_that_as_many_answers_as_it_names_tell_a_smaller_one() -> None:
    labels, decisions, _ = people(4000, np.random.default_rng(5), np.zeros(2))
    plan = plan_budget(EQUALIZED_ODDS, labels, decisions, 1 - SHARE, 100)
    assert plan.smallest_gap == pytest.approx(smallest_gap(EQUALIZED_ODDS, labels, decisions, SHARE, 100))
    for gap, answers in plan.needed.items():
        assert smallest_gap(EQUALIZED_ODDS, labels, decisions, SHARE, answers) <= float(gap)
        assert smallest_gap(EQUALIZED_ODDS, labels, decisions, SHARE, answers - 1) > float(gap)
    assert plan.to_dict()["share_assumed"] is False
    assert "assumed" in plan_budget(EQUALIZED_ODDS, labels, decisions, None, 100).words()[0]
    assert "no gap, however large" in plan_budget(EQUALIZED_ODDS, labels, decisions, 0.02, 10).words()[1]


def test_four_times_the_answers_see_half_the_gap_and_a_share_out_of_range_is_refused() -> None:
    labels, decisions, _ = people(4000, np.random.default_rng(2), np.zeros(2))
    one, four = (smallest_gap(EQUALIZED_ODDS, labels, decisions, SHARE, n) for n in (50, 200))
    assert one == pytest.approx(2 * four)
    with pytest.raises(InputError, match="between 0 and 1, got 1"):
        smallest_gap(EQUALIZED_ODDS, labels, decisions, 1.0, 50)


@pytest.mark.parametrize(("expected", "chance"), [(0.75, 0.4), (0.6, 0.5), (0.95, 0.7)])
def test_so_many_answers_confirm_with_the_stated_probability(expected: float, chance: float) -> None:
    n = answers_to_confirm(expected, chance)
    assert n is not None
    rng = np.random.default_rng(3)
    needed = needed_count(np.full(n, chance), LEVEL)
    assert needed is not None
    passed = (rng.binomial(n, expected, 20_000) >= needed).mean()
    assert 0.79 <= passed <= 0.9
    fewer = needed_count(np.full(n - 1, chance), LEVEL)
    assert fewer is None or (rng.binomial(n - 1, expected, 20_000) >= fewer).mean() < 0.81


def test_what_is_not_expected_to_help_is_confirmed_by_no_number_of_answers() -> None:
    assert answers_to_confirm(0.5, 0.5) is None
    assert answers_to_confirm(0.501, 0.5) is None


def test_a_gap_that_shows_clearly_takes_few_answers_to_confirm_and_one_that_does_not_takes_more() -> None:
    found = []
    for shows in (3.0, 0.8):
        population, groups = simulated_population(3000, 0, shows=shows)
        rows = np.random.default_rng(0).choice(1500, 80, replace=False)
        answers = {int(r): np.eye(2)[groups[r]] for r in rows}
        own = confirmation(fit_correction(population, answers, Limits(0.05, 0.05, 0.0), seed=0))
        assert own.expected > own.chance
        found.append(own.answers)
    assert found[0] is not None
    assert found[1] is None or found[0] < found[1]


BOLD = Limits(accuracy=0.05, balanced=0.05, caution=0.6, reversal=0.5)


@pytest.fixture(scope="module")
def fitted() -> FittedCorrection:
    population, groups = simulated_population(2000, 0, shows=1.5)
    rows = np.random.default_rng(0).choice(1000, 30, replace=False)
    return fit_correction(population, {int(row): np.eye(2)[groups[row]] for row in rows}, BOLD, seed=0)


def test_more_answers_are_never_expected_to_gain_less_and_none_gain_nothing(fitted: FittedCorrection) -> None:
    gains = [expected_gain(fitted, BOLD, more) for more in (0, 1, 10, 100, 1000)]
    assert gains[0] == 0
    assert all(gain is not None and gain >= 0 for gain in gains)
    assert gains == sorted(gains)
    assert gains[-1] > gains[1]


def test_answers_without_end_gain_what_knowing_the_fall_of_the_gap_is_worth(fitted: FittedCorrection) -> None:
    """The better of correcting and not, once every draw's fall is known: by integration over its normal."""
    way, notion = fitted.chosen.direction, fitted.population.notion
    worth, now = [], 0.0
    for place in range(fitted.falls.mean.shape[1]):
        lost = fitted.costs.accuracy[way, place] + fitted.costs.accuracy_error[way, place]
        balanced = fitted.costs.balanced[way, place] + fitted.costs.balanced_error[way, place]
        if lost > 0.05 or balanced > 0.05 or fitted.falls.reverses[way, place] > 0.5:
            continue
        rates = fitted.paths.rates[way, place]
        fall = [
            notion.gap(base[:, None]) - notion.gap(own[:, None])
            for base, own in zip(fitted.paths.base, rates, strict=True)
        ]
        mean, total, own = fitted.falls.mean[way, place], fitted.falls.deviation[way, place] ** 2, np.var(fall)
        centre = mean - 0.6 * np.sqrt(total - own)
        density = norm(centre, np.sqrt(own)).pdf
        worth.append(quad(lambda z, density=density: z * density(z), 0, centre + 10 * np.sqrt(own))[0])
        now = max(now, mean - 0.6 * np.sqrt(total))
    assert expected_gain(fitted, BOLD, 10**9) == pytest.approx(max(worth) - now, rel=1e-3)


def test_where_nothing_is_affordable_no_gain_can_be_told(fitted: FittedCorrection) -> None:
    assert expected_gain(fitted, Limits(accuracy=-1.0), 100) is None


def test_the_outlook_of_a_correction_says_what_so_many_answers_tell_and_what_would_confirm_it(
    fitted: FittedCorrection,
) -> None:
    found, people = correction_outlook(fitted, BOLD, 300, 270), fitted.population.people
    share = fitted.paths.expected.mean(axis=0).sum(axis=0)
    gap = smallest_gap(EQUALIZED_ODDS, people.labels, people.decisions, share.min() / share.sum(), 300)
    assert found["smallest_gap"] == pytest.approx(gap)
    assert found["confirming_answers"] == confirmation(fitted).answers
    assert found["gain"] == expected_gain(fitted, BOLD, 270)
    said = " ".join(outlook_words(found))
    assert f"300 random answers alone tell a gap of {100 * gap:.0f} points or more from none" in said
    assert ("not even 1,000" if found["confirming_answers"] is None else "would confirm the leading correction") in said
