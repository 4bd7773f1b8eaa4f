"""f_a: one contract for both kinds, and each against its own reference."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from apod.heads.bank import initial_parameters
from apod.method.algorithm1 import Answers
from apod.method.proxy import PROXIES, LogisticProxy, PerceptronProxy, Proxy
from apod.randomness import generator

ALL = sorted(PROXIES)


def population(n: int = 120, groups: int = 2, width: int = 4, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Embeddings in which the group shows clearly in the first column."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(groups, size=n)
    embeddings = rng.normal(size=(n, width))
    embeddings[:, 0] += 4 * (codes - (groups - 1) / 2)
    return torch.as_tensor(embeddings, dtype=torch.float32), codes


def answers(codes: np.ndarray, rows: range | list[int]) -> Answers:
    return Answers(tuple(rows), tuple(int(codes[row]) for row in rows))


def make(kind: str, trajectories: int = 1, groups: int = 2, seed: int = 0, dtype: torch.dtype = torch.float32) -> Proxy:
    return PROXIES[kind](trajectories, 4, groups, seed, "people", dtype)


@pytest.mark.parametrize("kind", ALL)
class TestEveryProxy:
    @pytest.mark.parametrize("groups", [2, 3, 4])
    def test_probabilities_of_every_row_sum_to_one(self, kind: str, groups: int) -> None:
        embeddings, codes = population(groups=groups)
        proxy = make(kind, 2, groups)
        for rows in (range(5), range(25)):
            proxy.fit(embeddings, [answers(codes, rows), answers(codes, range(40, 45))])
            found = proxy.probabilities(embeddings)
            assert found.shape == (2, 120, groups)
            assert found.dtype == embeddings.dtype
            assert float(found.min()) >= 0
            assert torch.allclose(found.sum(dim=2), torch.ones(2, 120), atol=1e-6)

    def test_before_any_answer_there_are_probabilities_too(self, kind: str) -> None:
        embeddings, _ = population()
        proxy = make(kind)
        proxy.fit(embeddings, [Answers()])
        assert torch.isfinite(proxy.probabilities(embeddings)).all()

    def test_one_group_seen_so_far_becomes_the_likelier_one(self, kind: str) -> None:
        embeddings, codes = population()
        proxy = make(kind)
        rows = [int(i) for i in np.flatnonzero(codes == 1)[:6]]
        before = None
        for _ in range(40):
            proxy.fit(embeddings, [answers(codes, rows)])
            found = float(proxy.probabilities(embeddings)[0, rows, 1].mean())
            assert before is None or found >= before - 1e-6
            before = found
        assert before is not None
        assert before > 0.5

    def test_a_group_never_answered_is_no_error_and_less_likely_than_one_that_was(self, kind: str) -> None:
        embeddings, codes = population(groups=3)
        rows = [int(i) for i in np.flatnonzero(codes != 1)[:20]]
        proxy = make(kind, groups=3)
        for _ in range(15):
            proxy.fit(embeddings, [answers(codes, rows)])
        found = proxy.probabilities(embeddings)[0]
        assert torch.isfinite(found).all()
        assert float(found[rows, 1].mean()) < 1 / 3

    @pytest.mark.parametrize("groups", [2, 3])
    def test_a_separable_group_is_learnt(self, kind: str, groups: int) -> None:
        embeddings, codes = population(n=200, groups=groups)
        proxy = make(kind, groups=groups)
        for _ in range(60):
            proxy.fit(embeddings, [answers(codes, range(60))])
        found = proxy.probabilities(embeddings)[0].numpy()
        for group in (0, groups - 1):  # a middle group is not linearly separable from the others
            assert roc_auc_score(codes[60:] == group, found[60:, group]) > 0.97

    def test_an_unknown_answer_teaches_nothing(self, kind: str) -> None:
        embeddings, codes = population()
        told = answers(codes, range(10))
        with_unknown = told.plus(50, -1).plus(51, -1)
        one, other = make(kind), make(kind)
        one.fit(embeddings, [told])
        other.fit(embeddings, [with_unknown])
        assert torch.equal(one.probabilities(embeddings), other.probabilities(embeddings))

    def test_a_trajectory_is_the_same_alone_or_beside_a_longer_one(self, kind: str) -> None:
        embeddings, codes = population()
        short, long = answers(codes, range(8)), answers(codes, range(20, 45))
        alone, together = make(kind), make(kind, 2)
        for _ in range(3):
            alone.fit(embeddings, [short])
            together.fit(embeddings, [short, long])
        both = together.probabilities(embeddings)
        assert torch.allclose(alone.probabilities(embeddings)[0], both[0], atol=1e-6)
        assert not torch.equal(both[0], both[1])

    def test_a_restored_proxy_goes_on_bit_for_bit(self, kind: str) -> None:
        embeddings, codes = population(groups=3)
        straight, saved = make(kind, 2, 3), make(kind, 2, 3)
        first = [answers(codes, range(9)), answers(codes, range(30, 39))]
        second = [answers(codes, range(10)), answers(codes, range(30, 40))]
        straight.fit(embeddings, first)
        saved.fit(embeddings, first)
        state = saved.state()
        kept = {name: np.array(array) for name, array in state.items()}
        resumed = make(kind, 2, 3, seed=99)
        resumed.restore(state)
        assert torch.equal(resumed.probabilities(embeddings), straight.probabilities(embeddings))
        straight.fit(embeddings, second)
        resumed.fit(embeddings, second)
        assert torch.equal(resumed.probabilities(embeddings), straight.probabilities(embeddings))
        assert all(np.array_equal(array, kept[name]) for name, array in state.items())

    def test_same_seed_same_bits(self, kind: str) -> None:
        embeddings, codes = population()
        found = []
        for _ in range(2):
            proxy = make(kind)
            proxy.fit(embeddings, [answers(codes, range(10))])
            found.append(proxy.probabilities(embeddings))
        assert torch.equal(*found)

    def test_embeddings_in_double_precision_are_welcome(self, kind: str) -> None:
        embeddings, codes = population()
        single, double = make(kind), make(kind, dtype=torch.float64)
        single.fit(embeddings, [answers(codes, range(10))])
        double.fit(embeddings.double(), [answers(codes, range(10))])
        found = double.probabilities(embeddings.double())
        assert found.dtype == torch.float64
        assert torch.allclose(found, single.probabilities(embeddings).double(), atol=1e-5)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_the_perceptron_equals_the_autograd_reference(groups: int, dtype: torch.dtype, tolerance: float) -> None:
    embeddings, codes = population(groups=groups)
    embeddings = embeddings.to(dtype)
    proxy = PerceptronProxy(2, 4, groups, seed=5, dataset="people", dtype=dtype)
    start = torch.as_tensor(initial_parameters((4, groups), generator(5, "proxy", "people")), dtype=dtype)
    plain = [reference.LinearProxy(start, 4, groups) for _ in range(2)]
    for size in (4, 5, 6):
        sets = [range(size), range(30, 30 + size)]
        proxy.fit(embeddings, [answers(codes, rows) for rows in sets])
        for one, rows in zip(plain, sets, strict=True):
            one.fit(embeddings[list(rows)], torch.from_numpy(codes[list(rows)]))
    found = proxy.probabilities(embeddings)
    for number, one in enumerate(plain):
        assert float((found[number] - one.probabilities(embeddings)).abs().max()) < tolerance
    assert not torch.allclose(proxy.bank.parameters[0], start)


@pytest.mark.parametrize("groups", [2, 3])
def test_the_logistic_proxy_equals_scikit_learn_on_standardised_embeddings(groups: int) -> None:
    embeddings, codes = population(groups=groups)
    embeddings[:, 1] *= 100
    embeddings[:, 2] = 7.0  # a constant column: nothing to divide by
    rows = list(range(30))
    proxy = LogisticProxy(1, 4, groups, seed=0, dataset="people")
    proxy.fit(embeddings, [answers(codes, rows)])
    inputs = StandardScaler().fit(embeddings.double().numpy()).transform(embeddings.double().numpy())
    model = LogisticRegression(C=0.01, tol=1e-8, max_iter=10_000).fit(inputs[rows], codes[rows])
    np.testing.assert_allclose(proxy.probabilities(embeddings)[0].numpy(), model.predict_proba(inputs), atol=2e-3)


def test_the_logistic_proxy_with_two_of_three_groups_keeps_their_odds() -> None:
    embeddings, codes = population(groups=3)
    rows = [int(i) for i in np.flatnonzero(codes != 1)[:24]]
    proxy = LogisticProxy(1, 4, 3, seed=0, dataset="people")
    proxy.fit(embeddings, [answers(codes, rows)])
    inputs = StandardScaler().fit_transform(embeddings.double().numpy())
    model = LogisticRegression(C=0.01, tol=1e-8, max_iter=10_000).fit(inputs[rows], codes[rows])
    found = proxy.probabilities(embeddings)[0].double().numpy()
    odds = found[:, 2] / found[:, 0]
    expected = model.predict_proba(inputs)
    np.testing.assert_allclose(odds, expected[:, 1] / expected[:, 0], rtol=5e-3)
    assert found[:, 1].max() <= 1 / len(rows)


def test_the_perceptron_starts_from_the_seed_and_the_dataset() -> None:
    starts = [PerceptronProxy(1, 4, 2, seed, name).bank.parameters for seed, name in [(0, "a"), (1, "a"), (0, "b")]]
    assert not torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
