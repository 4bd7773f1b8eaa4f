"""What few answers leave: intervals of positive width, no estimates, and advice how many would do."""

from __future__ import annotations

import json

import numpy as np
import pytest

from apod.audit import audit
from apod.audit.estimate import ENOUGH, LEAST_FOR_POINT
from apod.campaign.audit_sample import audit_advice, planned
from apod.cli.audit import render
from apod.report.words import within

NAMES = ("Dwarf", "Giant")


def few(answers: int, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Two groups whose answers all say the same: every Giant is recognised, no Dwarf is."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, 2000)
    labels = rng.integers(0, 2, 2000)
    decisions = np.where(labels == 1, groups, 0)
    known = np.full(2000, -1)
    rows = rng.choice(2000, answers, replace=False)
    known[rows] = groups[rows]
    return labels, {"before": decisions, "after": np.zeros(2000, int)}, known


@pytest.mark.parametrize("answers", [1, 3, 8, LEAST_FOR_POINT - 1])
def test_few_answers_have_intervals_of_positive_width_and_no_estimate(
    answers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, decisions, known = few(answers)
    found = audit(labels, decisions, known, NAMES)
    views = found.to_dict()["predictions"] | {"change": found.to_dict()["change"]}
    for view in views.values():
        estimates = [view["gap"], view["tpr_difference"], view["fpr_difference"]]
        estimates += [one[rate] for one in view["groups"].values() for rate in ("tpr", "fpr")]
        assert all(one["value"] is None for one in estimates)
    before = views["before"]
    assert before["gap"]["high"] - before["gap"]["low"] > 0.1
    for group in NAMES:  # every TPR in the answers is 0 or 1
        assert before["groups"][group]["tpr"]["high"] - before["groups"][group]["tpr"]["low"] > 0.05
    assert all(value is None for value in before["classical"].values())
    assert any("no estimates below 60" in note for note in found.notes())
    render(found, 0.05, None)
    assert "unknown" not in capsys.readouterr().out
    assert " to " in within(before["gap"])
    assert "(" not in within(before["gap"])
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_enough_answers_have_an_estimate_within_their_interval() -> None:
    labels, decisions, known = few(LEAST_FOR_POINT)
    gap = audit(labels, decisions, known, NAMES).views["before"].gap
    assert gap.value is not None
    assert gap.low <= gap.value <= gap.high  # type: ignore[operator]
    assert "(" in within(gap.to_dict())


@pytest.mark.parametrize("overlap", [1, 2, 3])
@pytest.mark.parametrize(("budget", "share"), [(40, 0.2), (90, 0.2), (200, 0.1), (1000, 0.01), (60, 0.5)])
def test_advice_for_a_small_audit_is_one_that_can_say_something(budget: int, share: float, overlap: int) -> None:
    said = audit_advice(budget, share, overlap)
    assert said is not None
    told = dict(zip(said.split()[-4::2], said.rstrip(".").split()[-3::2], strict=True))
    larger, other = int(told.get("--budget", budget)), float(told["--audit-share"])
    assert planned(other, larger, overlap) >= ENOUGH
    assert audit_advice(larger, other, overlap) is None
    trains = larger - planned(other, larger, overlap) * overlap
    assert trains >= min(budget - planned(share, budget, overlap) * overlap, budget // 2) - overlap
    assert audit_advice(budget, 0.0, overlap) == (
        "Without an audit nothing measures the gap between the groups (--audit-share)."
    )
