"""Theorem 1's terms against a direct restatement, and its constants against sampled slopes."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.errors import InputError
from apod.method.theorem1 import lipschitz_constants, theorem_terms

HEAD = [np.eye(3)[:, :2]]  # a head from three dimensions to two logits


def log_probabilities(h, weights, biases):
    """The head itself: Linear, ReLU, ..., Linear, log-softmax."""
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        h = np.maximum(h @ weight + bias, 0)
    z = h @ weights[-1] + biases[-1]
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def random_head(rng, depth, classes=2, scale=1.0):
    sizes = [*rng.integers(2, 9, depth), classes]
    weights = [scale * rng.normal(size=shape) for shape in itertools.pairwise(sizes)]
    return weights, [rng.normal(size=size) for size in sizes[1:]]


def random_case(rng, n_groups=2, n=30, answered=6):
    """A fitted head's pool, some rows answered."""
    weights, biases = random_head(rng, depth=2)
    embedding, labels = rng.normal(size=(n, len(weights[0]))), rng.integers(0, 2, n)
    return {
        "embedding": embedding,
        "losses": -log_probabilities(embedding, weights, biases)[np.arange(n), labels],
        "answered_rows": rng.permutation(n)[:answered],
        "answered_groups": rng.integers(0, n_groups, answered),
        "proxy_groups": rng.integers(0, n_groups, n),
        "n_groups": n_groups,
        "weights": weights,
    }


def test_the_theorems_terms_are_reproduced(shared_dir: Path):
    for case in json.loads((shared_dir / "vectors" / "formulas.json").read_text()):
        given_, want = case["theorem"], case["theorem"]["expect"]
        rows, group = np.flatnonzero(given_["answered"]), np.array(given_["group"])
        got = theorem_terms(
            embedding=np.array(given_["embedding"]),
            losses=np.array(given_["loss"]),
            answered_rows=rows,
            answered_groups=group[rows],
            proxy_groups=group,
            n_groups=2,
            weights=HEAD,
        )
        assert (got.epsilon, got.L) == pytest.approx((want["epsilon"], want["L"]), abs=1e-6)
        assert got.n == (want["N_0"], want["N_1"])
        assert got.delta == pytest.approx((want["delta_0"], want["delta_1"]), abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 4), st.floats(0.05, 5))
@settings(deadline=None, max_examples=200)
def test_the_constants_dominate_sampled_slopes(seed, depth, classes, scale):
    rng = np.random.default_rng(seed)
    weights, biases = random_head(rng, depth, classes, scale)
    K_l, K_h = lipschitz_constants(weights)
    here = 3 * rng.normal(size=(400, len(weights[0])))
    step = rng.normal(size=here.shape) * 10.0 ** rng.uniform(-3, 1, (400, 1))  # near pairs and far ones
    one, other = (log_probabilities(h, weights, biases) for h in (here, here + step))
    distance = np.linalg.norm(step, axis=1, keepdims=True)
    slack = 1e-9 * (1 + np.abs(one).max())  # rounding of the differences, not of the constants
    assert (np.abs(one - other) <= K_l * distance + slack).all()
    assert (np.abs(np.exp(one) - np.exp(other)) <= K_h * distance + slack).all()


def test_the_constants_of_a_linear_head_are_the_largest_slopes_there_are():
    weight = np.random.default_rng(0).normal(size=(5, 2))
    K_l, K_h = lipschitz_constants([weight])
    margin = weight[:, 1] - weight[:, 0]
    assert np.linalg.norm(margin) == pytest.approx(K_l)
    direction = margin / np.linalg.norm(margin)

    def slope(f, at, width=1e-4):
        log_p = [log_probabilities((at + s * width) * direction, [weight], [np.zeros(2)])[1] for s in (1, -1)]
        return abs(f(log_p[0]) - f(log_p[1])) / (2 * width)

    assert slope(np.exp, 0) == pytest.approx(K_h, rel=1e-6)  # a probability moves fastest where both are 1/2
    assert slope(np.asarray, -30) == pytest.approx(K_l, rel=1e-6)  # the loss where it is surely wrong


def test_what_both_logits_share_does_not_loosen_the_constants():
    weight = np.random.default_rng(1).normal(size=(4, 2))
    shifted = weight + 100 * np.ones((1, 2))
    assert lipschitz_constants([shifted]) == pytest.approx(lipschitz_constants([weight]))


@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 10), st.floats(0.001, 0.5))
@settings(deadline=None, max_examples=100)
def test_the_bound_is_the_theorems_formula(seed, n_groups, answered, gamma):
    case = random_case(np.random.default_rng(seed), n_groups, answered=answered)
    got = theorem_terms(**case, gamma=gamma)
    h, loss, S = case["embedding"], case["losses"], case["answered_rows"].tolist()
    group = case["proxy_groups"].tolist()
    for row, told in zip(S, case["answered_groups"], strict=True):
        group[row] = told
    rows = {a: [i for i in range(len(h)) if group[i] == a] for a in range(n_groups)}
    rows = {a: own for a, own in rows.items() if own}
    g = {a: sum(loss[i] for i in own) / len(own) for a, own in rows.items()}
    worst = max(g, key=lambda a: g[a])
    delta = {a: max(min(math.dist(h[i], h[j]) for j in S) for i in own) for a, own in rows.items()}
    epsilon, L = sum(loss[i] for i in S) / len(S), max(loss[i] for i in range(len(h)) if i not in S)
    N = sum(told == worst for told in case["answered_groups"])
    sampling = math.sqrt(-(L**2) * math.log(gamma) / (2 * N)) if N else math.inf
    covering = (got.K_l + got.K_h * L) * delta[worst]
    assert (got.K_l, got.K_h) == lipschitz_constants(case["weights"])
    assert got.worst_group == worst
    assert got.n == tuple(int((case["answered_groups"] == a).sum()) for a in range(n_groups))
    assert got.mean_loss == pytest.approx([g.get(a, math.nan) for a in range(n_groups)], nan_ok=True)
    assert got.delta == pytest.approx([delta.get(a, math.nan) for a in range(n_groups)], nan_ok=True)
    assert (got.epsilon, got.L, got.gamma) == pytest.approx((epsilon, L, gamma))
    assert (got.sampling_term, got.covering_term) == pytest.approx((sampling, covering))
    assert got.bound == pytest.approx(epsilon + min(sampling, covering))
    assert got.observed == pytest.approx(max(g.values()) - min(g.values()))


def test_known_distances_are_taken_as_they_are():
    case = random_case(np.random.default_rng(2))
    h, S = case["embedding"], case["answered_rows"]
    distances = np.linalg.norm(h[:, None] - h[S], axis=-1).min(1)
    want, got = theorem_terms(**case), theorem_terms(**case, distances=distances)
    assert got.delta == pytest.approx(want.delta)
    assert theorem_terms(**case, distances=distances + 1).delta == pytest.approx(np.add(want.delta, 1))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_an_answer_that_confirms_the_proxy_never_loosens_the_cover(seed):
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    row = rng.choice(np.setdiff1d(np.arange(30), case["answered_rows"]))
    told = case["proxy_groups"][row]
    more = case | {
        "answered_rows": np.append(case["answered_rows"], row),
        "answered_groups": np.append(case["answered_groups"], told),
    }
    before, after = theorem_terms(**case), theorem_terms(**more)
    assert all(new <= old or math.isnan(old) for old, new in zip(before.delta, after.delta, strict=True))
    assert after.n[told] == before.n[told] + 1


def test_an_answer_overrules_the_proxy():
    got = theorem_terms(
        embedding=np.eye(3),
        losses=np.array([1.0, 2.0, 4.0]),
        answered_rows=np.array([2]),
        answered_groups=np.array([0]),
        proxy_groups=np.array([0, 1, 1]),
        n_groups=2,
        weights=HEAD,
    )
    assert got.mean_loss == (2.5, 2.0)
    assert (got.epsilon, got.L, got.n) == (4.0, 2.0, (1, 0))


def test_no_answer_from_the_worst_group_leaves_the_covering_term():
    case = random_case(np.random.default_rng(3))
    worst = theorem_terms(**case).worst_group
    case["answered_groups"] = np.full(6, 1 - worst)
    case["proxy_groups"][:] = np.arange(30) % 2
    case["losses"] = np.where(case["proxy_groups"] == worst, case["losses"] + 9, case["losses"])
    got = theorem_terms(**case)
    assert got.n[got.worst_group] == 0
    assert got.sampling_term == math.inf
    assert got.bound == got.epsilon + got.covering_term
    assert got.to_dict(["a", "b"])["sampling_term"] is None


def test_no_answer_at_all_bounds_nothing_and_is_no_error():
    case = random_case(np.random.default_rng(4), answered=0)
    got = theorem_terms(**case)
    assert got.sampling_term == got.covering_term == math.inf
    assert math.isnan(got.bound)
    assert math.isfinite(got.observed)
    assert got.to_dict(["a", "b"])["bound"] is None


def test_everybody_answered_covers_everybody():
    got = theorem_terms(**random_case(np.random.default_rng(5), answered=30))
    assert got.delta == (0, 0)
    assert got.bound == got.epsilon
    assert math.isfinite(got.L)


def test_the_dictionary_is_strict_json_with_groups_by_name():
    case = random_case(np.random.default_rng(6), n_groups=3)
    case["proxy_groups"] %= 2
    case["answered_groups"] %= 2  # nobody in the third
    terms = theorem_terms(**case)
    got = terms.to_dict(["a", "b", "c"])
    assert json.loads(json.dumps(got, allow_nan=False)) == got
    assert got["groups"]["c"] == {"n": 0, "mean_loss": None, "delta": None}
    assert got["groups"]["a"]["n"] == terms.n[0]
    assert got["worst_group"] == "ab"[terms.worst_group]
    assert got["bound"] == terms.bound


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0}, "gamma is 0"),
        ({"gamma": 1.5}, r"gamma is 1\.5"),
        ({"losses": np.full(30, np.nan)}, "not finite"),
        ({"losses": np.full(30, -1.0)}, "negative"),
        ({"losses": np.ones(29)}, "one loss and one proxy group per row"),
        ({"answered_rows": np.array([0, 0, 1, 2, 3, 4])}, "distinct rows from 0 to 29"),
        ({"answered_rows": np.array([0, 1, 2, 3, 4, 30])}, "distinct rows from 0 to 29"),
        ({"answered_groups": np.array([0, 1, 0, 1, 0, -1])}, "only rows with a known group"),
        ({"answered_groups": np.array([0, 1])}, "one group per answered row"),
        ({"proxy_groups": np.full(30, 2)}, "proxy_groups go beyond -1 to 1"),
        ({"weights": []}, "pass \\(in, out\\) matrices"),
        ({"weights": [np.ones((3, 1))]}, "a column per class"),
        ({"weights": [np.ones((3, 4)), np.ones((5, 2))]}, "each layer must take"),
    ],
)
def test_unusable_input_says_what_is_wrong(change, message):
    case = random_case(np.random.default_rng(7)) | change
    with pytest.raises(InputError, match=message):
        theorem_terms(**case)


def test_nobody_with_a_group_is_an_error():
    case = random_case(np.random.default_rng(8), answered=0) | {"proxy_groups": np.full(30, -1)}
    with pytest.raises(InputError, match="No row has a group"):
        theorem_terms(**case)
