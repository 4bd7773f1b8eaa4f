"""Corrections of more than two labels: their paths are what deciding everybody anew gives, and they narrow the gap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from apod.fairness.counts import group_counts
from apod.fairness.many_labels import counted_decisions, notion_for, pair_events
from apod.fairness.metrics import metric_table
from apod.fairness.notions import NOTIONS, Notion
from apod.heads.correction import ClassCorrection, class_push, fit_bias_scores, onto_simplex, path_decisions
from apod.method.class_paths import class_costs, make_moves, trace_class_paths
from apod.method.correction_choice import Limits
from apod.method.correction_costs import Judged
from apod.method.correction_fit import FittedCorrection, Population, fit_correction, make_population
from apod.method.gap_interval import estimate_gap
from apod.method.posterior import DEFAULT_PRIOR, People, fit_reader
from apod.method.questions import gap_targets
from apod.method.verification import leading_changes

K = 4
AT = np.array([0.05, 0.2, 0.8, 2.0])


def simulate(n: int, seed: int) -> tuple[People, np.ndarray, np.ndarray]:
    """People with four labels, P(label | x), and groups that show in the second column, as do two of the labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    groups = (rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 1]))).astype(np.int64)
    eta = softmax(np.stack([x[:, 0], x[:, 2] + 0.9 * x[:, 1], x[:, 3], x[:, 4] - 0.9 * x[:, 1]], axis=1) * 1.4, axis=1)
    labels = np.array([rng.choice(K, p=row) for row in eta])
    logs = np.sort(np.log(eta), axis=1)
    return People(x, labels, eta.argmax(axis=1), logs[:, -1] - logs[:, -2]), eta, groups


@pytest.fixture(scope="module")
def known() -> tuple[Population, np.ndarray]:
    people, eta, groups = simulate(1500, 0)
    notion = notion_for("true_positive_rate_parity", K)
    return make_population(notion, people, eta, float("nan"), 1000, 2, 0), groups


@pytest.fixture(scope="module")
def fitted(known: tuple[Population, np.ndarray]) -> FittedCorrection:
    population, groups = known
    answers = {row: np.eye(2)[groups[row]] for row in range(0, 1000, 5)}
    return fit_correction(population, answers, Limits(0.03, 0.04, 0.3), 0)


def random_case(name: str, n: int = 80) -> tuple[Notion, Judged, np.ndarray, np.ndarray, np.ndarray]:
    people, eta, _ = simulate(n, 3)
    rng = np.random.default_rng(1)
    notion = notion_for(name, K)
    member = rng.dirichlet([2, 1, 1], (n, 2))  # two draws of three groups
    scores = fit_bias_scores(notion, eta, member[:, 0]).of(eta, member[:, 0])
    directions = rng.normal(size=(3, counted_decisions(notion).size, 3))
    return notion, Judged(people.labels, people.decisions), eta, scores, directions


@pytest.mark.parametrize("name", NOTIONS)
def test_paths_and_costs_are_those_of_everybody_decided_anew(name: str) -> None:
    notion, people, eta, scores, directions = random_case(name)
    member = np.random.default_rng(2).dirichlet([2, 1, 1], (80, 2))
    moves = make_moves(people.decisions, eta, scores, directions, notion, AT)
    blocks = [(slice(0, 30), member[:30]), (slice(30, 80), member[30:])]
    paths = trace_class_paths(notion, people, moves, len(AT), (2, 3), blocks)
    lost = class_costs(people, moves, len(AT), K)
    for a, direction in enumerate(directions):
        push = class_push(scores, direction[None], counted_decisions(notion), K)[0]
        for r, strength in enumerate(AT):
            now = _decided_one_by_one(people.decisions, eta - strength * push)
            inside, happened = pair_events(notion, people.labels, now)
            for d in range(2):
                want = (happened.T @ member[:, d]) / (inside.T @ member[:, d])
                np.testing.assert_allclose(paths.rates[a, r, d], want, atol=1e-6)
            accuracy = [(people.labels == one).mean() for one in (people.decisions, now)]
            assert lost.accuracy[a, r] == pytest.approx(accuracy[0] - accuracy[1])
            recalls = [
                np.mean([(one == people.labels)[people.labels == y].mean() for y in range(K)])
                for one in (people.decisions, now)
            ]
            assert lost.balanced[a, r] == pytest.approx(recalls[0] - recalls[1])
            assert lost.changed[a, r] == pytest.approx((now != people.decisions).mean())
            assert ((moves.band[a] <= r) == (now != people.decisions)).all()


def test_a_weight_of_two_counts_as_two_people_do() -> None:
    notion, people, eta, scores, directions = random_case("equalized_odds")
    twice = np.repeat(np.arange(80), np.where(np.arange(80) % 3 == 0, 2, 1))
    weights = np.where(np.arange(80) % 3 == 0, 2.0, 1.0)
    once = make_moves(people.decisions, eta, scores, directions, notion, AT)
    own = class_costs(Judged(people.labels, people.decisions, weights), once, len(AT), K)
    again = make_moves(people.decisions[twice], eta[twice], scores[twice], directions, notion, AT)
    want = class_costs(people.take(twice), again, len(AT), K)
    for name in ("accuracy", "balanced", "changed"):
        np.testing.assert_allclose(getattr(own, name), getattr(want, name), atol=1e-12)
    assert (own.accuracy_error >= want.accuracy_error - 1e-12).all()


def _decided_one_by_one(decided: np.ndarray, values: np.ndarray) -> np.ndarray:
    found = decided.copy()
    for i, row in enumerate(values):
        for label, value in enumerate(row):
            if value > row[found[i]]:
                found[i] = label
    return found


def test_with_two_labels_the_rule_is_that_of_two_labels() -> None:
    rng = np.random.default_rng(5)
    eta, member = rng.random(200), rng.dirichlet([1, 1], 200)
    notion = NOTIONS["equalized_odds"]
    scores, direction = fit_bias_scores(notion, eta, member), rng.normal(size=(2, 2))
    from apod.heads.correction import Correction

    decided = (eta > 0.5).astype(np.int64)
    both = np.stack([1 - eta, eta], axis=1)
    for strength in (0.0, 0.1, 0.5):
        want = Correction(scores, direction, 0.5).decisions(decided, eta, member, strength)
        found = ClassCorrection(scores, direction, counted_decisions(notion)).decisions(decided, both, member, strength)
        assert (want == found).all()


def test_who_has_left_the_models_decision_never_returns_to_it() -> None:
    rng = np.random.default_rng(6)
    eta, push = rng.dirichlet(np.ones(5), 500), rng.normal(size=(500, 5))
    along = path_decisions(eta.argmax(axis=1), eta, push, np.linspace(0, 3, 60))
    away = along != along[0]
    assert (away[:-1] <= away[1:]).all()


def test_corrected_probabilities_are_the_nearest_ones() -> None:
    rng = np.random.default_rng(7)
    for values in rng.normal(size=(20, 4)):
        found = onto_simplex(values[None])[0]
        assert found.sum() == pytest.approx(1)
        assert (found >= 0).all()
        others = rng.dirichlet(np.ones(4) / 2, 400)
        assert (np.linalg.norm(others - values, axis=1) >= np.linalg.norm(found - values) - 1e-12).all()


def test_f_a_reads_label_right_or_wrong_of_each_label_and_margin() -> None:
    people, _, _ = simulate(300, 8)
    reader = fit_reader(people, 0, classes=K)
    columns, p = reader.columns(people), reader.ordinary_count
    assert columns.shape[1] == p + 2 * K + 1
    assert DEFAULT_PRIOR.grid(p, classes=K)[0].shape[1] == columns.shape[1]
    np.testing.assert_allclose(columns[:, p + 1 :].mean(axis=0), 0, atol=1e-12)
    for label in range(K):
        mine = people.labels == label
        right = people.decisions[mine] == label
        np.testing.assert_allclose(columns[mine, p + K + label], right - right.mean())
        assert (columns[~mine, p + K + label] == 0).all()


def test_signed_gaps_by_draws_are_those_of_the_counts(known: tuple[Population, np.ndarray]) -> None:
    population, groups = known
    found = gap_targets(population, (groups == 0).astype(np.float32)[None], slice(None))[0]
    right = population.people.labels == population.people.decisions
    for label in range(K):
        rates = [right[(groups == g) & (population.people.labels == label)].mean() for g in (0, 1)]
        assert found[label] == pytest.approx(rates[0] - rates[1], abs=1e-6)


def test_the_chosen_correction_narrows_the_true_gap(
    known: tuple[Population, np.ndarray], fitted: FittedCorrection
) -> None:
    population, groups = known
    people, gap = population.people, metric_table(population.notion)["gap"]
    assert fitted.chosen.applied
    before, after = (
        float(gap(group_counts(people.labels, decided, groups, 2, K)))
        for decided in (people.decisions, fitted.decided())
    )
    assert after < 0.75 * before
    low, high = (getattr(fitted.estimates(len(people), 0)[0], end) for end in ("low", "high"))
    assert low <= before <= high
    assert ((fitted.decided() != people.decisions) == fitted.changed()).all()


def test_changes_that_verify_are_for_the_groups_recognised_too_rarely(fitted: FittedCorrection) -> None:
    people, changes, decided = fitted.population.people, leading_changes(fitted), fitted.decided()
    rates = fitted.paths.base.mean(axis=0)
    for row, favoured, place in zip(changes.rows, changes.favoured, changes.place, strict=True):
        label = people.labels[row]
        newly_right = decided[row] == label
        assert newly_right != (people.decisions[row] == label)
        assert (favoured == ((rates[label] < rates[label].mean()) == newly_right)).all()
        assert place <= fitted.chosen.strength


def test_an_interval_of_no_gap_starts_at_zero_and_holds_the_truth() -> None:
    notion = notion_for("true_positive_rate_parity", K)
    rng = np.random.default_rng(9)
    fair = np.full((256, K, 2), 0.6) + 0.02 * rng.normal(size=(256, K, 2))
    assert estimate_gap(notion, fair, np.full((K, 2), 300.0), rng).low == 0
    unfair = fair + np.array([0.0, 0.2])
    found = estimate_gap(notion, unfair, np.full((K, 2), 300.0), rng)
    assert 0.4 < found.low < 0.8 < found.high < 1.2
