"""The generated population has the gap its description states; splits are disjoint, complete and by seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from apod.data import load_dataset, make_example, split_rows
from apod.data.named import SHAPES
from apod.errors import InputError


def rates(accepted: np.ndarray, dataset) -> np.ndarray:  # type: ignore[no-untyped-def]
    """(groups, 2): FPR and TPR by plain counting."""
    return np.array(
        [
            [accepted[(dataset.groups == group) & (dataset.labels == label)].mean() for label in (0, 1)]
            for group in range(len(dataset.group_names))
        ]
    )


def test_shares_and_positive_rates_are_as_described() -> None:
    people = make_example(200_000, seed=4)
    assert abs((people.groups == 0).mean() - 0.3) < 0.005
    assert abs(people.labels[people.groups == 0].mean() - 0.1) < 0.005
    assert abs(people.labels[people.groups == 1].mean() - 0.7) < 0.005


def test_the_fair_boundary_treats_all_groups_alike() -> None:
    for n_groups in (2, 4):
        people = make_example(400_000, n_groups, seed=5)
        found = rates(people.features["merit"].to_numpy() > 0, people)
        np.testing.assert_allclose(found, [[norm.cdf(-1), norm.cdf(1)]] * n_groups, atol=0.01)


def test_a_plain_classifier_has_the_documented_gap() -> None:
    people = make_example(200_000, seed=6)
    X = people.features.to_numpy()
    model = LogisticRegression().fit(X, people.labels)
    (fpr0, tpr0), (fpr1, tpr1) = rates(model.predict(X) == 1, people)
    np.testing.assert_allclose([tpr0, tpr1, fpr0, fpr1], [0.68, 0.89, 0.07, 0.24], atol=0.015)
    assert abs(model.score(X, people.labels) - 0.864) < 0.005


def test_the_small_example_already_shows_the_gap() -> None:
    people = load_dataset("example")
    X = people.features.to_numpy()
    found = rates(LogisticRegression().fit(X, people.labels).predict(X) == 1, people)
    assert np.abs(found[0] - found[1]).sum() > 0.3


def test_the_named_example_is_the_one_of_seed_0() -> None:
    a, b = load_dataset("example"), make_example(4000, 2, seed=0)
    assert np.array_equal(a.features, b.features)
    assert np.array_equal(a.groups, b.groups)
    assert len(a) == 4000
    assert a.group_names == ("circle", "triangle")
    assert not np.array_equal(make_example(seed=1).features, a.features)


@pytest.mark.parametrize("n_groups", range(2, len(SHAPES) + 1))
def test_any_number_of_groups_with_the_reference_last(n_groups: int) -> None:
    people = make_example(3000, n_groups, seed=2)
    assert len(set(people.group_names)) == n_groups
    assert people.group_names[-1] == "triangle"
    assert set(np.unique(people.groups)) == set(range(n_groups))
    for group in range(n_groups):
        assert set(np.unique(people.labels[people.groups == group])) == {0, 1}


def test_impossible_populations_are_refused() -> None:
    for n_groups in (1, len(SHAPES) + 1):
        with pytest.raises(InputError, match="n_groups"):
            make_example(10, n_groups)
    with pytest.raises(InputError, match="n is 0"):
        make_example(0)


@given(n=st.integers(0, 400), cut=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)), seed=st.integers(0, 9))
def test_parts_are_disjoint_complete_sorted_and_of_the_stated_size(n: int, cut: tuple[float, float], seed: int) -> None:
    split = split_rows("some", n, (*cut, 1 - sum(cut)), seed)
    parts = (split.train, split.validation, split.test)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert all((np.diff(part) > 0).all() for part in parts)
    assert [len(split.train), len(split.validation)] == [int(n * cut[0]), int(n * cut[1])]


def test_the_seed_and_the_dataset_decide_the_split() -> None:
    first = split_rows("adult", 30162, (0.25, 0.25, 0.5), 0)
    assert (len(first.train), len(first.validation), len(first.test)) == (7540, 7540, 15082)
    assert np.array_equal(first.train, split_rows("adult", 30162, (0.25, 0.25, 0.5), 0).train)
    assert not np.array_equal(first.train, split_rows("adult", 30162, (0.25, 0.25, 0.5), 1).train)
    assert not np.array_equal(first.train, split_rows("bank", 30162, (0.25, 0.25, 0.5), 0).train)
