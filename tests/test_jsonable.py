"""What JSON cannot hold is null; everything else keeps its value and its type."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from apod.text import number, plain


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), np.float64("inf")])
def test_a_number_that_is_not_finite_is_null(value: float) -> None:
    assert number(value) is None
    assert plain({"gap": [value]}) == {"gap": [None]}


def test_finite_numbers_keep_their_value() -> None:
    for value in (0.1, -3.0, np.float64(0.1), 5):
        assert number(value) == value
    assert type(number(np.float64(0.1))) is float


def test_numpys_types_become_those_of_json() -> None:
    found = plain({1: np.arange(3), "shares": (np.float32(0.5), np.bool_(True)), "none": None, "text": "a"})
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "1": [0, 1, 2],
        "shares": [0.5, True],
        "none": None,
        "text": "a",
    }
