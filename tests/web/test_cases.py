"""A row as a person can read it."""

from __future__ import annotations

import pytest

from apod.web.cases import field_of, title_of


@pytest.mark.parametrize(
    ("name", "title", "unit"),
    [
        ("hours_per_week (h)", "Hours per week", "h"),
        ("capital-gain [USD]", "Capital gain", "USD"),
        ("eduYears", "Edu Years", None),
        ("GPA", "GPA", None),
        ("x", "X", None),
        ("(h)", "(h)", None),
        ("___", "___", None),
        ("price (net) (EUR)", "Price (net)", "EUR"),
    ],
)
def test_columns_are_titled_for_people(name: str, title: str, unit: str | None) -> None:
    assert title_of(name) == (title, unit)


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (40, "number", 40),
        ("40", "number", 40),
        ("-0.5", "number", -0.5),
        ("007", "text", "007"),
        ("1e5", "text", "1e5"),
        (True, "flag", True),
        (None, "missing", None),
        ("", "missing", None),
        ("word " * 30, "long", "word " * 30),
        ("two\nlines", "long", "two\nlines"),
    ],
)
def test_values_keep_what_they_are(value: object, kind: str, shown: object) -> None:
    field = field_of("x", value)
    assert (field.kind, field.value) == (kind, shown)
