"""An audit: rates per group, differences, the gap of any notion, the change between two models."""

from __future__ import annotations

import numpy as np
import pytest

from apod.audit import audit
from apod.fairness.metrics import evaluate
from apod.fairness.notions import MEASURED
from support.audits import NAMES, answers_of, population


def test_when_everybody_answers_the_audit_is_the_metric() -> None:
    people = population(800)
    found = audit(people["labels"], {"model": people["before"]}, people["groups"], NAMES)
    exact = evaluate(people["labels"], people["before"], people["groups"], NAMES)
    view = found.views["model"]
    for name in NAMES:
        assert view.groups[name]["tpr"].value == pytest.approx(exact.groups[name].tpr, abs=1e-3)
        assert view.groups[name]["fpr"].value == pytest.approx(exact.groups[name].fpr, abs=1e-3)
    assert view.gap.value == pytest.approx(exact.gap, abs=2e-3)
    assert view.differences["tpr"].width is not None
    assert view.differences["tpr"].width < 0.01


@pytest.mark.parametrize("name", MEASURED)
def test_the_gap_of_an_audit_is_that_of_its_notion(name: str) -> None:
    people = population(800)
    found = audit(
        people["labels"], {"m": people["before"], "n": people["after"]}, people["groups"], NAMES, notion=MEASURED[name]
    )
    exact = [
        evaluate(people["labels"], people[when], people["groups"], NAMES, MEASURED[name]).gap
        for when in ("before", "after")
    ]
    assert [view.gap.value for view in found.views.values()] == pytest.approx(exact, abs=2e-3)
    assert found.change is not None
    assert found.change.gap.value == pytest.approx(exact[1] - exact[0], abs=4e-3)
    assert found.precision.half_widths(0).shape == (1, len(MEASURED[name].rates))
    assert found.to_dict()["notion"] == name


def test_people_known_for_certain_count_for_themselves_alone() -> None:
    """All of group 0 were asked because they are of group 0: that must not make the others look like them."""
    people = population(3000)
    biased = np.flatnonzero(people["groups"] == 0)[:300]
    rest = np.setdiff1d(np.arange(3000), biased)
    drawn = np.random.default_rng(1).choice(rest, 600, replace=False)
    chance = np.full(3000, np.nan)
    chance[drawn] = 600 / len(rest)
    told = answers_of(people, np.concatenate([biased, drawn]))
    found = audit(people["labels"], {"model": people["before"]}, told, NAMES, probability=chance)
    exact = evaluate(people["labels"], people["before"], people["groups"], NAMES)
    for name in NAMES:
        rate = found.views["model"].groups[name]["tpr"]
        assert rate.low is not None
        assert rate.high is not None
        assert rate.low <= exact.groups[name].tpr <= rate.high
    assert (found.drawn, found.known) == (600, 300)


@pytest.mark.parametrize("features", [False, True], ids=["answers alone", "cross-fitted"])
def test_intervals_of_differences_and_of_the_change_cover_the_truth(features: bool) -> None:
    people = population()
    exact = [evaluate(people["labels"], people[name], people["groups"], NAMES) for name in ("before", "after")]
    tpr = [one.groups["a"].tpr - one.groups["b"].tpr for one in exact]
    hits = {"before": 0, "change": 0, "gap": 0}
    rng, audits = np.random.default_rng(0), 60
    for number in range(audits):
        rows = rng.choice(len(people["groups"]), 150, replace=False)
        found = audit(
            people["labels"],
            {"before": people["before"], "after": people["after"]},
            answers_of(people, rows),
            NAMES,
            features=people["x"] if features else None,
            seed=number,
        )
        view, change = found.views["before"], found.change
        assert change is not None
        hits["before"] += view.differences["tpr"].low <= tpr[0] <= view.differences["tpr"].high
        hits["change"] += change.differences["tpr"].low <= tpr[1] - tpr[0] <= change.differences["tpr"].high
        hits["gap"] += view.gap.low <= exact[0].gap <= view.gap.high
    assert min(hits.values()) >= 0.86 * audits  # 95 % less three standard errors


def test_the_change_of_the_gap_is_the_gap_after_minus_the_gap_before() -> None:
    people = population(1500)
    for number in range(20):
        rows = np.random.default_rng(number).choice(1500, 60, replace=False)
        decided = {"before": people["before"], "after": people["after"]}
        found = audit(people["labels"], decided, answers_of(people, rows), NAMES, seed=number)
        assert found.change is not None
        gap, before, after = found.change.gap, found.views["before"].gap, found.views["after"].gap
        assert None not in (gap.value, gap.low, gap.high, before.value, after.value)
        assert gap.value == pytest.approx(after.value - before.value)  # type: ignore[operator]
        assert gap.low <= gap.value <= gap.high  # type: ignore[operator]


def test_the_change_is_known_far_better_than_either_gap() -> None:
    people = population()
    rows = np.random.default_rng(0).choice(6000, 200, replace=False)
    found = audit(
        people["labels"], {"before": people["before"], "after": people["after"]}, answers_of(people, rows), NAMES
    )
    assert found.change is not None
    assert found.change.differences["tpr"].width < 0.5 * found.views["before"].differences["tpr"].width


def test_proxies_make_intervals_narrower_and_nobody_else_s_group_is_read() -> None:
    people = population()
    rows = np.random.default_rng(3).choice(6000, 300, replace=False)
    told = answers_of(people, rows)
    plain = audit(people["labels"], {"m": people["before"]}, told, NAMES).views["m"]
    strong = np.where(people["groups"] == 1, 0.95, 0.05)
    helped = audit(
        people["labels"], {"m": people["before"]}, told, NAMES, proxies=np.stack([1 - strong, strong], axis=1)
    ).views["m"]
    assert helped.differences["tpr"].width < 0.6 * plain.differences["tpr"].width


def test_more_than_two_groups_have_a_spread_instead_of_a_sign() -> None:
    people = population(3000)
    groups = np.random.default_rng(0).integers(0, 3, 3000)
    found = audit(people["labels"], {"m": people["before"]}, groups, ("a", "b", "c"))
    exact = evaluate(people["labels"], people["before"], groups, ("a", "b", "c"))
    assert found.views["m"].gap.value == pytest.approx(exact.gap, abs=5e-3)
    assert not found.views["m"].classical
