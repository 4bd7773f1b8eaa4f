"""Slots of answers: reused lowest first, alike everywhere, and more of them than two bytes can number."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.maxmin.nearest import NOBODY, AnswerSlots, NearestAnswers, NormedRows, StoredRows


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60))
def test_a_row_has_the_lowest_slot_that_was_free_and_its_own_vector(steps):
    matrix = np.random.default_rng(0).standard_normal((31, 3))
    slots, held = AnswerSlots.empty(3, matrix.dtype), {}
    for put, row in steps:
        if put and row not in held:
            held[row] = next(slot for slot in range(1, 99) if slot not in held.values())
            assert slots.put([row], matrix[[row]]).tolist() == [held[row]]
        elif not put and row in held:
            assert slots.drop([row]).tolist() == [held.pop(row)]
        slots = slots.copy() if row % 5 == 0 else slots  # a copy, or one built from what was saved, is the same
    assert sorted(slots.rows) == sorted(held)
    assert slots.slots.tolist() == sorted(held.values())
    np.testing.assert_array_equal(slots.vectors(slots.slots_of(slots.rows)), matrix[slots.rows])
    for slot, row in enumerate(slots.row_of_slot()):
        assert row == -1 or held[row] == slot


def test_slots_beyond_two_bytes_are_kept_whole():
    many = 65_600
    answers = AnswerSlots.empty(2, np.dtype(np.float32))
    slots = answers.put(range(1000, 1000 + many), np.zeros((many, 2), np.float32))
    rows = NormedRows(StoredRows(np.ones((70, 2), np.float32)), np.zeros(2), start=1000 + many - 50)
    nearest = NearestAnswers.blank(rows, answers)
    assert (nearest.slots == NOBODY).all()
    nearest.mark_answered(range(1000, 1000 + many), slots)
    assert nearest.slots[:50].tolist() == slots[-50:].tolist()
    assert nearest.slots.max() > np.iinfo(np.uint16).max
    assert (nearest.bounds[:50] == -1).all()
    assert np.isinf(nearest.bounds[50:]).all()
    assert np.isinf(nearest.squares(np.arange(50, 70))).all()  # nobody is near them
    np.testing.assert_array_equal(nearest.squares(np.arange(3)), [2.0] * 3)
