"""What may be printed has no character that steers a terminal; what JSON cannot hold is null, all else stays itself."""

from __future__ import annotations

import json
import math
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apod.text import number, plain, printable

BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = "\u061c\u200e\u200f"


def steers(letter: str) -> bool:
    return (
        unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(letter) in BIDIRECTIONAL
        or letter in MARKS
    )


def test_every_character_is_itself_or_is_written_out_by_its_class_in_unicode() -> None:
    for letter in map(chr, range(sys.maxunicode + 1)):
        shown = printable(letter)
        assert shown == (f"\\u{ord(letter):04x}" if steers(letter) else letter)


@given(st.text())
def test_what_is_printable_is_encoded_on_one_line_and_stays_as_it_is(text: str) -> None:
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown


def test_escapes_are_those_of_json() -> None:
    assert json.loads(f'"{printable(chr(27) + chr(0x202E))}"') == "\x1b\u202e"


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
