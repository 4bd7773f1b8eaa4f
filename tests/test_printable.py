"""What may be printed: no character that steers a terminal comes through, everything else does."""

from __future__ import annotations

import json
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from apod.text import printable

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
