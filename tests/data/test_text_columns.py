"""Cells as people write them: what they are as numbers, and what is said about it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apod.data.cells import numerals
from apod.data.columns import read_columns, read_features
from apod.errors import InputError, TableProblems

NAN = math.nan


def column(cells: list[str | None], name: str = "x", **others: list[str]):  # type: ignore[no-untyped-def]
    frame = pd.DataFrame({name: cells} | others, dtype=object)
    return read_columns(frame)[0]


NUMBERS: dict[str, tuple[list[str], list[float]]] = {
    "plain": (["1", "2.5", "-3"], [1, 2.5, -3]),
    "decimal comma": (["1,5", "22,75", "-3"], [1.5, 22.75, -3]),
    "thousands by comma": (["1,234.5", "999", "1,234,567"], [1234.5, 999, 1234567]),
    "thousands by point": (["1.234,5", "999", "1.234.567"], [1234.5, 999, 1234567]),
    "thousands by comma alone": (["52,000", "900", "48,500"], [52000, 900, 48500]),
    "thousands by apostrophe": (["1'234.5", "1’000", "7"], [1234.5, 1000, 7]),
    "thousands by blank": (["12 345,6", "1\u202f000", "7\u00a0123"], [12345.6, 1000, 7123]),
    "lakhs": (["1,00,000", "25,000", "12,34,567.5"], [100000, 25000, 1234567.5]),
    "dollars": (["$1,200.50", "$ 99", "-$5"], [1200.5, 99, -5]),
    "euros": (["1.200,50 €", "99 €", "-5,00 €"], [1200.5, 99, -5]),
    "currency codes": (["EUR 3,5", "EUR 4", "EUR 5,25"], [3.5, 4, 5.25]),
    "percent": (["45%", "3.5 %", "100%"], [45, 3.5, 100]),
    "accounting": (["(1,200)", "300", "(5)"], [-1200, 300, -5]),
    "trailing and real minus": (["5-", "−7", "+3"], [-5, -7, 3]),
    "powers": (["1e3", "2.5E-1", "7"], [1000, 0.25, 7]),
    "placeholders": (["1", "?", "3"] * 5, [1, NAN, 3] * 5),
    "spreadsheet errors": (["1", "#DIV/0!", "3"], [1, NAN, 3]),
    "no leading digit": ([".5", "1.5", "-.25"], [0.5, 1.5, -0.25]),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_in_any_common_spelling_are_numbers(case: str) -> None:
    cells, expected = NUMBERS[case]
    found = column([f" {cell}" for cell in cells])
    assert (found.kind, found.problems) == ("number", ())
    np.testing.assert_array_equal(found.values.to_numpy(dtype=float), expected)


@given(st.lists(st.floats(-1e12, 1e12).map(lambda x: round(x, 2)), min_size=1, max_size=20, unique=True))
def test_what_python_writes_with_separators_is_read_back(numbers: list[float]) -> None:
    english = [f"{number:,.2f}" for number in numbers]
    german = [cell.translate(str.maketrans(",.", ".,")) for cell in english]
    assert numerals(english).values["."].tolist() == numbers
    assert numerals(german).values[","].tolist() == numbers
    assert numerals(english).certain == "."
    assert numerals(german).certain == ","


def test_the_rest_of_the_table_decides_between_thousands_and_decimals() -> None:
    undecided, comma, point = ["1,250", "2,125", "900"], ["3,5", "4,25", "1"], ["3.5", "4.25", "1"]
    assert column(undecided).values.tolist() == [1250, 2125, 900]
    assert column(undecided, other=point).values.tolist() == [1250, 2125, 900]
    assert column(undecided, other=comma).values.tolist() == [1.25, 2.125, 900]
    assert column(["1.250", "2.125", "900"], other=comma).values.tolist() == [1250, 2125, 900]
    assert column(["1.250", "2.125", "900"]).values.tolist() == [1.25, 2.125, 900]
    (note,) = column(undecided).notes
    assert "'1,250' is read as 1250; --decimal , reads them the other way" in note


def test_a_decimal_sign_that_was_given_decides_and_must_fit() -> None:
    frame = pd.DataFrame({"x": ["1,250", "2,125"]})
    assert read_features(frame, ",")[0]["x"].tolist() == [1.25, 2.125]
    assert read_features(frame, ".")[0]["x"].tolist() == [1250, 2125]
    with pytest.raises(InputError, match=r"decimal sign ',', and --decimal is '\.': leave --decimal out"):
        read_features(pd.DataFrame({"x": ["1,2", "2,5"]}), ".")


WORDS: dict[str, tuple[list[str | None], str, list[float] | None]] = {
    "yes and no": (["Yes", "no", "YES", None], "yes or no", [1, 0, 1, NAN]),
    "true and false": (["True", "FALSE", "true"], "yes or no", [1, 0, 1]),
    "words and digits": (["yes", "0", "1", "no"], "yes or no", [1, 0, 1, 0]),
    "German": (["Ja", "Nein", "ja"], "yes or no", [1, 0, 1]),
    "three answers": (["yes", "no", "maybe"], "category", None),
    "only yes": (["yes", "YES", "y"], "category", None),
    "ISO dates": (["1970-01-02", "1971-01-01", None], "date", [1, 365, NAN]),
    "dates with a time": (["1970-01-02 12:00", "1970-01-03 00:00"], "date", [1.5, 2]),
    "dates with a zone": (["1970-01-02T12:00:00Z", "1970-01-02T12:00:00+12:00"], "date", [1.5, 1]),
    "German dates": (["02.01.1970", "1.1.1971"], "date", [1, 365]),
    "British dates": (["31/01/1970", "02/01/1970"], "date", [30, 1]),
    "American dates": (["01/31/1970", "01/02/1970"], "date", [30, 1]),
    "dates with a month's name": (["2 Jan 1970", "1 January 1971"], "date", [1, 365]),
    "dates with a month first": (["January 2, 1970", "Jan 1, 1971"], "date", [1, 365]),
    "dates with placeholders": (["1970-01-02", "n/a", "1970-01-03"], "date", [1, NAN, 2]),
    "times of day": (["08:30", "17:15:36", "9:00"], "time of day", [8.5, 17.26, 9]),
    "versions": (["1.2.3", "10.0.1", "2.0.0"], "category", None),
    "phone numbers": (["030 1234567", "+49 30/123", "089 55"], "category", None),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_for_yes_and_no_dates_and_times_are_recognised(case: str) -> None:
    cells, kind, expected = WORDS[case]
    found = column(cells)
    assert (found.kind, found.problems) == (kind, ())
    if expected is not None:
        np.testing.assert_allclose(found.values.to_numpy(dtype=float, na_value=np.nan), expected)


PROBLEMS: dict[str, tuple[list[str], str]] = {
    "text among numbers": (["1"] * 20 + ["six"], r"text in data row 21: 'six' \(1 in all\)"),
    "two currencies": (["$5", "7 €", "$8"], r"several currencies \(\$, €\): convert them to one"),
    "percent here and there": (["5%", "7", "8%"], "% sign in some cells and not in others"),
    "day or month first": (["03/04/2020", "05/06/2020"], "day/month/year or month/day/year: write them as year-month"),
    "no such day": (["2020-01-31"] * 20 + ["2020-02-31"], "no date in data row 21: '2020-02-31'"),
    "infinity": (["1", "inf", "2"], "infinite value"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_cannot_be_read_is_named_with_a_remedy(case: str) -> None:
    cells, message = PROBLEMS[case]
    with pytest.raises(InputError, match=message) as caught:
        read_features(pd.DataFrame({"x": cells}))
    assert "\n" not in str(caught.value)


def test_all_problems_of_a_table_are_in_one_message() -> None:
    frame = pd.DataFrame({name: cells[:1] * 19 + cells[-2:] for name, (cells, _) in PROBLEMS.items()})
    frame["fine"] = range(5, 26)
    with pytest.raises(TableProblems) as caught:
        read_features(frame)
    assert len(caught.value.problems) == len(PROBLEMS)
    for name, problem in zip(PROBLEMS, caught.value.problems, strict=True):
        assert name in problem
        assert problem in str(caught.value)
    assert str(caught.value).startswith("The table has 6 problems:\n  1. ")


def test_spellings_that_differ_by_capitals_or_blanks_are_pointed_out() -> None:
    found = column(["Caucasian", "caucasian", "Asian", " Asian ", "African  American", "African American"])
    assert found.values.tolist() == [
        "Caucasian",
        "caucasian",
        "Asian",
        "Asian",
        "African  American",
        "African American",
    ]
    blanks, spelling = found.notes
    assert blanks == "Column 'x' has blanks around the text in 1 cell(s), which do not count."
    assert "(Caucasian / caucasian, African  American / African American)" in spelling


@pytest.mark.parametrize(
    ("name", "first", "step", "feature"),
    [
        ("x", 0, 1, False),
        ("x", 1, 1, False),
        ("x", 10_001, 1, False),
        ("customer_id", 3, 7, False),
        ("personId", 3, 7, False),
        ("Case No", 3, 7, False),
        ("userid", 3, 7, False),
        ("age", 20, 1, True),
        ("income", 3, 7, True),
        ("paid", 3, 7, True),
        ("idea", 3, 7, True),
    ],
)
def test_whole_numbers_named_or_numbered_like_ids_are_no_features(
    name: str, first: int, step: int, feature: bool
) -> None:
    numbers = [str(first + step * i) for i in range(30)]
    assert (column(numbers, name).values is not None) == feature  # type: ignore[arg-type]
    repeated = [*numbers[:-1], numbers[0]]
    assert column(repeated, name).values is not None  # type: ignore[arg-type]
    shuffled = column(numbers[::-1], name)  # type: ignore[arg-type]
    assert (shuffled.values is not None) == (feature or name == "x")
