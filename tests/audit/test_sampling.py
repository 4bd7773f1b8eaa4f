"""Whom to ask for an audit: allocation, draws with the stated probability, and how many more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.audit import allocate, audit, draw_people
from apod.audit.sampling import cells_of, check_people
from apod.audit.table import AuditTable
from apod.errors import BudgetError
from support.audits import NAMES, answers_of, population


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=4, max_size=4), st.integers(0, 60), st.integers(0, 1000))
def test_an_allocation_spends_exactly_the_answers_within_the_room(room: list[int], n: int, seed: int) -> None:
    people = check_people([0, 0, 1, 1] * 50, {"m": [0, 1] * 100}, np.full(200, -1), NAMES)
    plan = cells_of(people, ["m"])
    shares = np.random.default_rng(seed).dirichlet([1, 1], 4)
    if n > sum(room):
        with pytest.raises(BudgetError, match="cannot be drawn"):
            allocate(shares, plan.views, n, np.array(room))
        return
    counts = allocate(shares, plan.views, n, np.array(room))
    assert counts.sum() == n
    assert (counts <= np.array(room)).all()


def test_everybody_is_drawn_with_the_stated_probability() -> None:
    cells, counts = np.repeat([0, 1, 2], [10, 20, 40]), np.array([5, 4, 2])
    rng, times = np.random.default_rng(0), np.zeros(70)
    stated = np.repeat(counts / np.array([10, 20, 40]), [10, 20, 40])
    for _ in range(4000):
        drawn = draw_people(cells, counts, np.arange(70), rng)
        assert np.array_equal(drawn.probability, stated[drawn.rows])
        times[drawn.rows] += 1
    assert np.abs(times / 4000 - stated).max() < 0.04


def test_the_plan_foretells_how_exact_more_answers_make_the_audit() -> None:
    people = population(20_000)
    rng = np.random.default_rng(0)
    rows = rng.choice(20_000, 150, replace=False)
    first = audit(people["labels"], {"m": people["before"]}, answers_of(people, rows), NAMES)
    more = first.precision.needed(0.08)
    assert more is not None
    assert more > 100
    table = AuditTable(people["labels"], {"m": people["before"]}, answers_of(people, rows), NAMES, None, None, None)
    drawn = table.draw(more)
    told = answers_of(people, drawn["row"].to_numpy())
    chance = np.full(20_000, np.nan)
    chance[drawn["row"]] = drawn["draw_probability"]
    then = audit(people["labels"], {"m": people["before"]}, told, NAMES, probability=chance).views["m"]
    assert 0.055 < max(then.differences["tpr"].width, then.differences["fpr"].width) / 2 < 0.105
    assert first.precision.needed(0.5) == 0
    assert first.precision.needed(0.04) > more
