"""What is measured follows from counts alone, agrees with fairlearn, and shows no cell below five."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference

from apod.evidence.measured import changed, findings, joint_table, levelling, ll144, shown_counts, small
from apod.fairness.counts import joint_counts
from apod.randomness import generator

NAMES = ("a", "b", "c")


def people(n: int = 600, blank: float = 0.1) -> dict[str, np.ndarray]:
    rng = generator(0, "evidence", n)
    found = {name: rng.integers(0, 2, n) for name in ("labels", "before", "after")}
    found["after"] = np.where(rng.random(n) < 0.8, found["before"], found["after"])
    groups = rng.choice(3, n, p=(0.5, 0.3, 0.2))
    return found | {"groups": np.where(rng.random(n) < blank, -1, groups)}


def table_of(found: dict[str, np.ndarray]) -> np.ndarray:
    joint = joint_counts(found["labels"], found["before"], found["after"], found["groups"], NAMES)
    return joint_table(joint["groups"], joint["unknown"])


def test_metrics_are_those_of_fairlearn() -> None:
    who = people()
    known = who["groups"] >= 0
    measured = findings(table_of(who), NAMES, "equalized_odds", 0, "test", "records")
    for when in ("before", "after"):
        decided = getattr(measured, when)
        given = (who["labels"][known], who[when][known])
        more = {"sensitive_features": who["groups"][known]}
        assert decided.metrics["demographic_parity_difference"].value == pytest.approx(
            demographic_parity_difference(*given, **more)
        )
        assert decided.metrics["equalized_odds_difference"].value == pytest.approx(
            equalized_odds_difference(*given, **more)
        )
        assert decided.metrics["accuracy"].value == pytest.approx((who["labels"] == who[when]).mean())
    assert measured.unknown == (~known).sum()
    assert measured.people == 600


def test_every_number_lies_in_its_interval_and_unknown_people_widen_the_bounds() -> None:
    measured = findings(table_of(people()), NAMES, "equalized_odds", 0, "test", "records")
    for one in measured.before.groups.values():
        for number in (one.selection_rate, one.tpr, one.fpr, one.impact_ratio):
            assert number.low <= number.value <= number.high
    bounds, gap = measured.before.bounds, measured.before.metrics["gap"].value
    assert bounds["low"] < gap < bounds["high"]


def test_no_cell_below_five_is_shown_nor_a_rate_that_tells_it() -> None:
    table = table_of(people())
    table[2] = [[[3, 0], [0, 9]], [[40, 0], [0, 50]]]  # three negatives of c are not selected
    measured = findings(table, NAMES, "equalized_odds", 0, "test", "records")
    rates = measured.before.groups["c"]
    assert rates.tpr.suppressed
    assert rates.fpr.suppressed
    assert rates.fpr.value is None
    assert not rates.selection_rate.suppressed  # 59 of 102
    assert measured.before.metrics["eop"].suppressed
    shown = shown_counts(table, NAMES)
    assert shown["before"]["c"] is None
    for counts in shown.values():
        told = [cells for name, cells in counts.items() if name != "unknown" and cells is not None]
        assert not any(small(np.array(cells)) for cells in told)


def test_counts_of_changes_are_rounded_where_one_is_below_five() -> None:
    table = np.zeros((3, 2, 2, 2), dtype=np.int64)
    table[:2, :, 0, 0] = 100
    table[0, 1, 0, 1], table[1, 0, 1, 0] = 116, 3
    found = changed(table, ("a", "b"))
    assert found.rounded
    assert found.groups == {"a": {"to_positive": 115, "to_negative": 0}, "b": {"to_positive": 0, "to_negative": 5}}
    table[1, 0, 1, 0] = 33
    exact = changed(table, ("a", "b"))
    assert (exact.rounded, exact.total) == (False, 149)


def test_levelling_down_is_a_fall_for_some_and_a_rise_for_nobody() -> None:
    def verdict(tpr: dict[str, tuple[int, int]]) -> str:
        table = np.zeros((len(tpr) + 1, 2, 2, 2), dtype=np.int64)
        table[:-1, 0, 0, 0] = 100
        for g, (lost, won) in enumerate(tpr.values()):
            table[g, 1] = [[50, won], [lost, 100]]
        found = levelling(findings(table, tuple(tpr), "equalized_odds", 0, "test", "records"), measured=True)
        assert found is not None
        return found.verdict.split(":")[0]

    assert verdict({"a": (0, 0), "b": (30, 0)}) == "levelled down"
    assert verdict({"a": (0, 30), "b": (0, 0)}) == "levelled up"
    assert verdict({"a": (0, 30), "b": (30, 0)}) == "both"
    assert verdict({"a": (30, 30), "b": (0, 0)}) == "neither"


def test_the_ll144_table_counts_everybody_and_flags_rare_categories() -> None:
    table = np.zeros((4, 2, 2), dtype=np.int64)
    table[0], table[1], table[2], table[3] = [[40, 10], [30, 20]], [[300, 300], [200, 200]], [[4, 1], [3, 2]], 7
    found = ll144(table, NAMES, "records")
    assert [(row.applicants, row.selected) for row in found.rows] == [(100, 30), (1000, 500), (10, 3)]
    assert [row.impact_ratio for row in found.rows] == [0.6, 1.0, 0.6]
    assert [row.below_2_percent for row in found.rows] == [False, False, True]
    assert found.unknown == 28


def test_a_group_with_nobody_has_no_numbers() -> None:
    table = table_of(people())
    table[1] = 0
    one = findings(table, NAMES, "equalized_odds", 0, "test", "records").before.groups["b"]
    assert (one.people.value, one.tpr.value, one.impact_ratio.value) == (0, None, None)
