"""Text for spreadsheets: no cell is a formula, and every cell comes back as it was."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apod.data.cells import escaped, read_cells, unescaped, write_cells
from apod.errors import InputError

FORMULAS = ["=1+1", "+1", "-2", "@SUM(A1)", "\t=1", "\r=1", " =1", "=cmd|' /C calc'!A0", "\n=1", "＝1", "'=1", "''-"]
TEXTS = st.text(alphabet=st.sampled_from("=+-@'\t\r\n \",;a1é＝"), max_size=8)


@pytest.mark.parametrize("text", FORMULAS)
def test_no_written_cell_begins_as_a_formula_does(text: str) -> None:
    data = write_cells(["id"], [[text]]).decode()
    _, (cell,) = csv.reader(io.StringIO(data, newline=""))
    assert cell[0] == "'"


@given(TEXTS)
def test_every_text_comes_back_and_no_two_are_written_alike(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert escaped(text).lstrip()[:1] not in ("=", "+", "-", "@", "＝")


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS), max_size=4))
def test_a_table_of_any_texts_comes_back(rows: list[tuple[str, str]]) -> None:
    read = read_cells(write_cells(["a", "b"], rows))
    assert [tuple(row.values()) for row in read] == rows


def test_other_programs_read_the_same_cells() -> None:
    rows = [("plain", 1, None), ("a,b", 2, "x\ny"), ('"q"', 3, " space ")]
    frame = pd.read_csv(io.BytesIO(write_cells(["a", "b", "c"], rows)), keep_default_na=False)
    assert frame.to_numpy().tolist() == [["plain", 1, ""], ["a,b", 2, "x\ny"], ['"q"', 3, " space "]]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"a,a\n1,2\n", b"a,b\n1\n", b'a\n"open\n', b"\xff\n"])
def test_what_is_no_table_is_refused_in_a_line(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read_cells(data)
    assert "\n" not in str(caught.value)
