"""Whom to ask: brute force on random pools, and one contract for every selector."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.maxmin import Coverage
from apod.method.selection import SELECTORS, Choice, Scores, View, centred_accuracies, first_rows, worst_first

ALL = sorted(SELECTORS)
DRAWING = {"random", "stratified", "group"}
RANDOM = ["group", "random", "stratified"]


class KnownCoverage(Coverage):
    """A coverage whose embeddings the brute force may look at."""

    def __init__(self, embeddings: np.ndarray, answered: list[int]) -> None:
        self.embeddings = embeddings
        super().__init__(embeddings, answered)


def make_view(
    rng: np.random.Generator, n: int, groups: int, answered: int, unavailable: int = 0, positives: float = 0.5
) -> View:
    """A small pool with many ties: embeddings on a coarse grid, few distinct scores."""
    order = rng.permutation(n)
    asked = order[:answered]
    askable = np.ones(n, dtype=bool)
    askable[order[: answered + unavailable]] = False
    labels = (rng.random(n) < positives).astype(np.int64)
    positive = rng.choice([0.0, 0.1, 0.3, 0.5, 0.51, 0.9, 1.0], size=n)
    membership = rng.choice([0.2, 0.4, 0.6], size=(n, groups))
    embeddings = rng.integers(-3, 4, size=(n, 2)).astype(np.float32)
    return View(labels, askable, lambda: (positive, membership), KnownCoverage(embeddings, asked.tolist()), embeddings)


@st.composite
def views(draw: st.DrawFn) -> View:
    n = draw(st.integers(1, 16))
    answered = draw(st.integers(0, n))
    return make_view(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        n,
        draw(st.integers(2, 4)),
        answered,
        draw(st.integers(0, n - answered)),
        draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])),
    )


def exact_scores(view: View) -> dict[tuple[int, int], Fraction]:
    predicted = [int(p > 0.5) for p in view.positive]
    proxy = [max(range(len(row)), key=lambda a: (row[a], -a)) for row in view.membership.tolist()]
    return reference.centred(view.labels.tolist(), predicted, proxy, view.askable.tolist(), view.membership.shape[1])


def inside(view: View, cell: tuple[int, int]) -> list[int]:
    rows = np.flatnonzero(view.askable)
    return [int(i) for i in rows if (int(np.argmax(view.membership[i])), int(view.labels[i])) == cell]


def matrix(view: View) -> np.ndarray:
    assert isinstance(view.coverage, KnownCoverage)
    return view.coverage.embeddings.astype(np.float64)


def ask(name: str, view: View, k: int = 1, seed: int = 0) -> list[Choice]:
    return SELECTORS[name](view, k, np.random.default_rng(seed))


@settings(max_examples=2000, deadline=None)
@given(views())
def test_apod_asks_the_farthest_person_of_the_worst_subgroup(view: View) -> None:
    choices, scores = ask("apod", view), exact_scores(view)
    if not scores:
        assert choices == []
        return
    [choice] = choices
    cell = (choice.reason["group"], choice.reason["label"])
    assert float(scores[cell] - min(scores.values())) < 1e-12  # exact ties: the next test
    assert choice.reason["centred_accuracy"] == pytest.approx(float(scores[cell]), abs=1e-12)
    row, distance = reference.farthest(matrix(view), inside(view, cell), view.coverage.answered)
    assert choice.row == row
    assert choice.reason["distance"] == pytest.approx(distance, abs=1e-9)
    assert choice.probability == 1


@settings(max_examples=2000, deadline=None)
@given(views())
def test_centred_accuracies_equal_exact_fractions_and_empty_subgroups_are_nan(view: View) -> None:
    scores, groups = exact_scores(view), view.membership.shape[1]
    found = centred_accuracies(view.labels, view.predicted, view.proxy, groups, view.askable)
    for group in range(groups):
        for label in (0, 1):
            if (group, label) in scores:
                assert found[group, label] == pytest.approx(float(scores[group, label]), abs=1e-12)
            else:
                assert np.isnan(found[group, label])


@settings(max_examples=500, deadline=None)
@given(views())
def test_equally_bad_subgroups_are_taken_in_the_order_of_group_and_label(view: View) -> None:
    scores = exact_scores(view)
    found = centred_accuracies(view.labels, view.predicted, view.proxy, view.membership.shape[1], view.askable)
    assert worst_first(found) == sorted(scores, key=lambda cell: (scores[cell], cell))


def test_a_tie_that_floating_point_would_break_goes_to_the_lower_group() -> None:
    # label 0: 0 against 1/6; label 1: 1/3 against 1/6; all four are exactly 1/12 from their label's mean
    members = {(0, 0): (6, 0), (1, 0): (6, 1), (0, 1): (6, 2), (1, 1): (6, 1)}
    labels, proxy, predicted = [], [], []
    for (group, label), (size, right) in members.items():
        labels += [label] * size
        proxy += [group] * size
        predicted += [label] * right + [1 - label] * (size - right)
    everyone = np.ones(len(labels), dtype=bool)
    found = centred_accuracies(np.array(labels), np.array(predicted), np.array(proxy), 2, everyone)
    assert worst_first(found) == [(0, 0), (1, 1), (0, 1), (1, 0)]


def test_worst_first_leaves_out_empty_subgroups_and_keeps_the_order_of_ties() -> None:
    accuracies = np.array([[0.0, np.nan], [-0.2, 0.1], [0.0, -0.2]])
    assert worst_first(accuracies) == [(1, 0), (2, 1), (0, 0), (2, 0), (1, 1)]


def test_when_the_worst_subgroup_is_exhausted_the_next_worst_is_asked() -> None:
    labels, proxy = np.array([1, 1, 0, 0]), np.array([0, 1, 0, 1])
    predicted = np.array([0.0, 1.0, 0.0, 0.0])
    coverage = Coverage(np.arange(4.0)[:, None], [0])
    everyone = View(labels, np.ones(4, dtype=bool), lambda: (predicted, np.eye(2)[proxy]), coverage)
    scores = exact_scores(everyone)
    assert min(scores, key=lambda cell: scores[cell]) == (0, 1)
    without = View(labels, np.array([False, True, True, True]), lambda: (predicted, np.eye(2)[proxy]), coverage)
    [choice] = ask("apod", without)
    assert choice.row == 2  # all centred accuracies are zero now: the lowest group and label that has members


@settings(max_examples=500, deadline=None)
@given(views(), st.integers(1, 8))
def test_a_batch_is_max_min_as_if_each_person_were_answered_at_once_within_a_subgroup(view: View, k: int) -> None:
    choices = ask("apod", view, k)
    scores = exact_scores(view)
    assert len(choices) == min(k, int(view.askable.sum()))
    by_cell: dict[tuple[int, int], list[Choice]] = {}
    for choice in choices:
        by_cell.setdefault((choice.reason["group"], choice.reason["label"]), []).append(choice)
    order = list(by_cell)
    assert all(float(scores[a] - scores[b]) < 1e-12 for a, b in pairwise(order))
    for cell in order[:-1]:
        assert len(by_cell[cell]) == len(inside(view, cell))  # only an exhausted subgroup is left for the next
    answered = list(view.coverage.answered)
    for cell in order[:1]:
        left = inside(view, cell)
        for choice in by_cell[cell]:
            row, distance = reference.farthest(matrix(view), left, answered)
            assert (choice.row, choice.reason["distance"]) == (row, pytest.approx(distance, abs=1e-9))
            answered.append(row)
            left.remove(row)


def test_in_a_batch_the_next_subgroup_keeps_away_from_people_chosen_a_moment_ago() -> None:
    # row 1 is alone in the worst subgroup; row 2 stands on the same spot in the next worst, row 3 elsewhere
    embeddings = np.array([[0.0], [10.0], [10.0], [-9.0], [0.0]])
    labels, proxy = np.array([0, 1, 1, 1, 1]), np.array([0, 0, 1, 1, 2])
    predicted = np.array([0.0, 0.0, 1.0, 0.0, 1.0])
    view = View(labels, np.arange(5) > 0, lambda: (predicted, np.eye(3)[proxy]), Coverage(embeddings, [0]))
    first, second = ask("apod", view, 2)
    assert (first.row, second.reason["group"]) == (1, 1)
    assert second.row == reference.farthest(embeddings, [2, 3], [0, 1])[0] == 3


@settings(max_examples=500, deadline=None)
@given(views(), st.integers(1, 6))
def test_coreset_is_max_min_over_everybody_left(view: View, k: int) -> None:
    answered, left = list(view.coverage.answered), [int(i) for i in np.flatnonzero(view.askable)]
    choices = ask("coreset", view, k)
    assert len(choices) == min(k, len(left))
    for choice in choices:
        row, distance = reference.farthest(matrix(view), left, answered)
        assert (choice.row, choice.reason["distance"]) == (row, pytest.approx(distance, abs=1e-9))
        answered.append(row)
        left.remove(row)


@settings(max_examples=500, deadline=None)
@given(views(), st.integers(1, 6))
def test_uncertainty_asks_where_the_prediction_is_nearest_to_one_half(view: View, k: int) -> None:
    rows = sorted((int(i) for i in np.flatnonzero(view.askable)), key=lambda i: (abs(float(view.positive[i]) - 0.5), i))
    chosen = ask("uncertainty", view, k)
    found, expected = [c.row for c in chosen], rows[:k]
    # 0.1 and 0.9 are equally uncertain, up to rounding: compare what was chosen, then the order of true ties
    distance = [round(abs(float(view.positive[i]) - 0.5), 9) for i in found]
    assert distance == [round(abs(float(view.positive[i]) - 0.5), 9) for i in expected]
    for value in {float(view.positive[i]) for i in found}:
        tied = [i for i in found if float(view.positive[i]) == value]
        assert tied == sorted(tied)
        assert tied == [i for i in np.flatnonzero(view.askable) if float(view.positive[i]) == value][: len(tied)]


@settings(max_examples=300, deadline=None)
@given(views(), st.integers(1, 6))
def test_group_selection_alone_stays_in_the_worst_subgroup_until_it_is_empty(view: View, k: int) -> None:
    scores = exact_scores(view)
    left = {cell: inside(view, cell) for cell in scores}
    for choice in ask("group", view, k):
        cell = (choice.reason["group"], choice.reason["label"])
        waiting = {c: scores[c] for c in left if left[c]}
        assert float(scores[cell] - min(waiting.values())) < 1e-12
        assert choice.row in left[cell]
        left[cell].remove(choice.row)


@settings(max_examples=300, deadline=None)
@given(views(), st.integers(1, 8))
def test_stratified_answers_go_to_the_label_asked_about_less_often(view: View, k: int) -> None:
    counts = [sum(int(view.labels[i]) == y for i in view.coverage.answered) for y in (0, 1)]
    left = Counter(int(y) for y in view.labels[view.askable])
    for choice in ask("stratified", view, k):
        label = int(view.labels[choice.row])
        assert left[label] > 0
        if left[1 - label]:
            assert counts[label] <= counts[1 - label]
        counts[label] += 1
        left[label] -= 1


@settings(max_examples=300, deadline=None)
@given(views(), st.integers(1, 8))
def test_the_label_in_a_reason_is_the_label_of_the_person(view: View, k: int) -> None:
    for name in ("apod", "group", "stratified"):
        for choice in ask(name, view, k):
            assert choice.reason["label"] == int(view.labels[choice.row])


@pytest.mark.parametrize("name", ALL)
class TestEverySelector:
    @settings(max_examples=150, deadline=None)
    @given(view=views(), k=st.integers(1, 20), seed=st.integers(0, 1000))
    def test_only_askable_rows_all_different_as_many_as_wanted_or_left(
        self, name: str, view: View, k: int, seed: int
    ) -> None:
        choices = ask(name, view, k, seed)
        rows = [choice.row for choice in choices]
        assert len(rows) == len(set(rows)) == min(k, int(view.askable.sum()))
        assert all(view.askable[row] for row in rows)
        assert all(type(choice.row) is int for choice in choices)

    @settings(max_examples=50, deadline=None)
    @given(view=views(), k=st.integers(1, 5), seed=st.integers(0, 1000))
    def test_the_same_view_and_generator_give_the_same_choice_and_change_nothing(
        self, name: str, view: View, k: int, seed: int
    ) -> None:
        before = view.askable.copy(), view.coverage.distances, view.coverage.answered
        assert ask(name, view, k, seed) == ask(name, view, k, seed)
        assert np.array_equal(before[0], view.askable)
        assert np.array_equal(before[1], view.coverage.distances)
        assert before[2] == view.coverage.answered

    @settings(max_examples=50, deadline=None)
    @given(view=views(), k=st.integers(1, 5))
    def test_every_choice_says_its_rule_and_a_probability(self, name: str, view: View, k: int) -> None:
        for choice in ask(name, view, k):
            assert isinstance(choice.reason["rule"], str)
            assert 0 < choice.probability <= 1
            assert all(value is None or type(value) in (str, int, float) for value in choice.reason.values())

    def test_people_who_are_not_askable_do_not_count(self, name: str) -> None:
        view = make_view(np.random.default_rng(3), 14, 2, 4, unavailable=3)
        gone = np.flatnonzero(~view.askable)
        positive, membership = view.positive.copy(), view.membership.copy()
        positive[gone] = 1 - positive[gone]
        membership[gone] = membership[gone][:, ::-1]
        scrambled = replace(view, scores=lambda: (positive, membership))
        assert ask(name, view, 3) == ask(name, scrambled, 3)

    @pytest.mark.parametrize("k", [1, 3])
    def test_the_stated_probability_is_how_often_the_person_is_drawn(self, name: str, k: int) -> None:
        view = make_view(np.random.default_rng(8), 14, 2, 4)
        draws = 3000 if name in DRAWING else 20
        often: Counter[int] = Counter()
        stated: dict[int, set[float]] = {}
        for seed in range(draws):
            for choice in ask(name, view, k, seed):
                often[choice.row] += 1
                stated.setdefault(choice.row, set()).add(choice.probability)
        for row, probabilities in stated.items():
            share = often[row] / draws
            noise = 5 * np.sqrt(share * (1 - share) / draws) + 1e-12
            assert all(abs(share - p) <= noise for p in probabilities), (row, share, probabilities)


def test_a_generator_with_another_seed_draws_somebody_else() -> None:
    view = make_view(np.random.default_rng(5), 200, 2, 4)
    for name in RANDOM:
        assert len({ask(name, view, 1, seed)[0].row for seed in range(20)}) > 5


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=30), st.integers(0, 1000))
def test_first_rows_alternate_between_the_labels_and_hold_everybody_once(labels: list[int], seed: int) -> None:
    order = list(first_rows(np.array(labels), np.random.default_rng(seed)))
    assert sorted(choice.row for choice in order) == list(range(len(labels)))
    both = 2 * min(labels.count(0), labels.count(1))
    drawn = [labels[choice.row] for choice in order]
    assert drawn[:both] == [1, 0] * (both // 2)
    assert all(labels[c.row] == c.reason["label"] for c in order)
    left = Counter(labels)
    for choice in order:  # each is drawn from those of its label that are left
        assert choice.probability == pytest.approx(1 / left[labels[choice.row]])
        left[labels[choice.row]] -= 1


def test_first_rows_are_uniform_within_a_label() -> None:
    labels = np.array([1, 0, 0, 0, 1, 0])
    first = Counter(list(first_rows(labels, np.random.default_rng(seed)))[1].row for seed in range(2000))
    assert set(first) == {1, 2, 3, 5}
    assert all(abs(count / 2000 - 0.25) < 0.05 for count in first.values())


@pytest.mark.parametrize("name", ["apod", "coreset"])
def test_a_batch_goes_on_by_row_when_everybody_left_stands_where_somebody_was_answered(name: str) -> None:
    embeddings = np.array([[0.0, 1.0], [2.0, 0.0]], dtype=np.float32)[[0, 1, *([0] * 8), 1, 0]]
    labels, askable = np.zeros(12, dtype=np.int64), np.arange(12) > 1
    view = View(labels, askable, lambda: (np.zeros(12), np.eye(2)[labels]), Coverage(embeddings, [0, 1]))
    assert [choice.row for choice in ask(name, view, 20)] == list(range(2, 12))
    assert all(choice.reason["distance"] == 0 for choice in ask(name, view, 20))


@settings(deadline=None)
@given(views(), st.integers(1, 5), st.sampled_from(["random", "stratified", "typical", "coreset"]))
def test_scores_are_computed_only_for_a_selector_that_looks_at_them(view: View, k: int, name: str) -> None:
    def nobody_needs_them() -> Scores:
        raise AssertionError("these scores cost a sweep over the pool")

    SELECTORS[name](replace(view, scores=nobody_needs_them), k, np.random.default_rng(3))
