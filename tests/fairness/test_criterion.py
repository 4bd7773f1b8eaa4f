"""Acceptance criteria are read as written, and are met only where the whole interval says so."""

from __future__ import annotations

import pytest

from apod.errors import InputError
from apod.fairness.criterion import CRITERION_METRICS, Criterion, outcome, parse_criterion
from apod.fairness.metrics import METRICS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gap:sex <= 0.05", Criterion("gap", "sex", "<=", 0.05)),
        ("gap<=.05", Criterion("gap", None, "<=", 0.05)),
        ("impact_ratio:marital status >= 0.8", Criterion("impact_ratio", "marital status", ">=", 0.8)),
        ("accuracy >= 0.8", Criterion("accuracy", None, ">=", 0.8)),
    ],
)
def test_a_criterion_is_a_metric_an_attribute_and_a_bound(text: str, found: Criterion) -> None:
    assert parse_criterion(text) == found
    assert parse_criterion(found.text) == found


@pytest.mark.parametrize(
    "text",
    ["", "gap", "gap < 0.05", "gap <= ", "gap <= nan", "gap <= inf", "gap <= five", "gapp <= 1", "accuracy:sex >= .8",
     "gap:sex = 0.05", "0.05 >= gap"],
)  # fmt: skip
def test_what_is_no_criterion_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_criterion(text)
    assert "\n" not in str(error.value)


def test_a_criterion_about_another_attribute_is_refused() -> None:
    parse_criterion("gap:sex <= 0.05").check_attribute("sex")
    parse_criterion("gap <= 0.05").check_attribute("race")
    with pytest.raises(InputError, match=r"'sex'.*'race'"):
        parse_criterion("gap:sex <= 0.05").check_attribute("race")


@pytest.mark.parametrize(
    ("value", "low", "high", "found"),
    [
        (0.03, 0.01, 0.05, "met"),
        (0.03, 0.01, 0.06, "not decided"),
        (None, 0.0, 0.4, "not decided"),
        (0.09, 0.06, 0.1, "not met"),
        (0.04, None, None, "met"),
        (0.06, None, None, "not met"),
        (None, None, None, "not measured"),
    ],
)
def test_certainty_is_what_the_interval_leaves(
    value: float | None, low: float | None, high: float | None, found: str
) -> None:
    assert outcome(parse_criterion("gap <= 0.05"), value, low, high) == found


def test_every_metric_of_a_criterion_is_computed_somewhere() -> None:
    assert set(CRITERION_METRICS) - {"impact_ratio"} <= set(METRICS)
