"""An audit: rates per group, differences, the gap of any notion, the change between two models."""

from __future__ import annotations

import numpy as np
import pytest

from apod.audit import audit
from apod.errors import InputError
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


@pytest.mark.parametrize("name", MEASURED)
def test_whole_weights_are_rows_that_occur_so_often(name: str) -> None:
    people = population(600)
    weights = 1 + np.arange(600) % 3
    rows = np.repeat(np.arange(600), weights)
    found = audit(
        people["labels"], {"m": people["before"]}, people["groups"], NAMES, weights=weights, notion=MEASURED[name]
    )
    exact = evaluate(people["labels"][rows], people["before"][rows], people["groups"][rows], NAMES, MEASURED[name])
    assert found.views["m"].gap.value == pytest.approx(exact.gap, abs=3e-3)
    assert (
        found.views["m"].people_per_cell
        == audit(people["labels"], {"m": people["before"]}, people["groups"], NAMES).views["m"].people_per_cell
    )
    assert found.views["m"].bounds.low is None
    assert any("Rows are weighted" in note for note in found.notes())


def test_equal_weights_change_nothing() -> None:
    people = population(2000)
    told = answers_of(people, np.random.default_rng(0).choice(2000, 120, replace=False))
    plain = audit(people["labels"], {"m": people["before"]}, told, NAMES, features=people["x"])
    same = audit(
        people["labels"], {"m": people["before"]}, told, NAMES, features=people["x"], weights=np.full(2000, 7.0)
    )
    for name in NAMES:
        for rate in ("tpr", "fpr", "selection_rate", "precision"):
            one, other = plain.views["m"].groups[name][rate], same.views["m"].groups[name][rate]
            assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-9)


def test_weights_that_cannot_be_are_refused() -> None:
    people = population(50)
    for weights in (np.full(50, -1.0), np.full(50, np.nan), np.zeros(50)):
        with pytest.raises(InputError, match=r"weights: give every row|zero in every row"):
            audit(people["labels"], {"m": people["before"]}, people["groups"], NAMES, weights=weights)


@pytest.mark.slow
def test_weighted_intervals_cover_the_rates_of_the_people_stood_for() -> None:
    """Weights that go with group and decision: unweighted intervals would miss; 300 audits of 200 answers."""
    people = population(6000, seed=3)
    rng = np.random.default_rng(0)
    weights = rng.exponential(size=6000) * (1 + 2 * people["groups"] + 2 * people["before"] * (1 - people["groups"]))
    member = np.eye(2)[people["groups"]] * weights[:, None]
    truth = {}
    for rate, label in (("tpr", 1), ("fpr", 0)):
        inside = people["labels"] == label
        share = (member[inside] * people["before"][inside, None]).sum(0) / member[inside].sum(0)
        truth[rate] = share[0] - share[1]
    covered = dict.fromkeys(truth, 0)
    for seed in range(300):
        rows = np.random.default_rng(1000 + seed).choice(6000, 200, replace=False)
        found = audit(
            people["labels"], {"m": people["before"]}, answers_of(people, rows), NAMES, weights=weights, seed=seed
        ).views["m"]
        for rate, value in truth.items():
            own = found.differences[rate]
            covered[rate] += own.low <= value <= own.high  # type: ignore[operator]
    assert all(count >= 0.92 * 300 for count in covered.values()), covered
