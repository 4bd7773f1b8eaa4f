"""Typical rows against a count over all pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.maxmin import typical_rows
from apod.maxmin.select import MOST_ROWS, SHARE


def densest(points: np.ndarray, covered: list[int], k: int) -> list[int]:
    """Greedy cover by counting every ball anew; its radius holds a share of all rows, and one other on average."""
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    near = squares <= np.quantile(squares, max(SHARE, 2 / len(points))) * (1 + 1e-9)
    open_ = ~near[covered].any(axis=0) if covered else np.ones(len(points), dtype=bool)
    picked: list[int] = []
    while len(picked) < k:
        gains = (near & open_).sum(axis=1)
        gains[[*covered, *picked]] = -1
        if gains.max() <= 0:
            break
        picked.append(int(gains.argmax()))
        open_ &= ~near[picked[-1]]
    return picked


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(20, 60), st.integers(0, 4), st.integers(1, 3))
def test_the_first_picks_are_those_of_a_count_over_all_pairs(seed: int, n: int, asked: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3)).astype(np.float32)
    covered = rng.permutation(n)[:asked].tolist()
    candidates = np.ones(n, dtype=bool)
    candidates[covered] = False
    expected = densest(points.astype(np.float64), covered, k)
    assert typical_rows(points, candidates, covered, k)[: len(expected)] == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(8, 33))
def test_of_few_rows_the_first_is_still_one_amid_others(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    alone = n // 2
    points = np.concatenate([100.0 * np.arange(1, alone + 1), rng.normal(size=n - alone)])[:, None].astype(np.float32)
    assert typical_rows(points, np.ones(n, dtype=bool), [], 1)[0] >= alone  # one of those around zero


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 10), st.integers(0, 50))
def test_picks_are_different_candidates_and_as_many_as_there_are(seed: int, n: int, asked: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, size=(n, 2)).astype(np.float32)  # many copies
    covered = rng.permutation(n)[: min(asked, n)].tolist()
    candidates = rng.random(n) < 0.7
    candidates[covered] = False
    picks = typical_rows(points, candidates, covered, k)
    assert len(set(picks)) == len(picks) == min(k, int(candidates.sum()))
    assert candidates[picks].all()


def test_a_pick_per_cluster_before_a_second_in_any() -> None:
    rng = np.random.default_rng(0)
    centres = 50 * np.stack(np.meshgrid(np.arange(5), np.arange(4)), axis=-1).reshape(20, 2)  # each has 5 % of the rows
    points = (centres.repeat(20, axis=0) + rng.normal(size=(400, 2))).astype(np.float32)
    picks = typical_rows(points, np.ones(400, dtype=bool), [], 20)
    assert sorted(row // 20 for row in picks) == list(range(20))


def test_of_very_many_rows_evenly_spaced_ones_stand_for_all_and_scale_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(2 * MOST_ROWS, 2)).astype(np.float32)
    picks = typical_rows(points, np.ones(len(points), dtype=bool), [7], 5)
    assert len(picks) == 5
    assert 7 not in picks
    assert typical_rows(points * 1024, np.ones(len(points), dtype=bool), [7], 5) == picks


def test_as_many_as_wanted_where_those_who_stand_for_all_were_asked_already() -> None:
    rng = np.random.default_rng(4)
    points = rng.normal(size=(4 * MOST_ROWS, 2)).astype(np.float32)
    free = np.zeros(len(points), dtype=bool)
    free[rng.permutation(len(points))[:300]] = True
    picks = typical_rows(points, free, np.flatnonzero(~free).tolist(), 200)
    assert len(set(picks)) == 200
    assert free[picks].all()
