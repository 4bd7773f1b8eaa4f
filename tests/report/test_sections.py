"""What the report and the terminal say of a corrected model is what the result says, and no more."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from apod.cli.progress import TerminalListener
from apod.data import make_example
from apod.method.plan import outlook_words
from apod.method.settings import Settings
from apod.report import render_report
from apod.report.sections import arbitrary_text, chosen_text, estimate_sentence, tells_little
from apod.run import run_experiment

Result = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> Result:
    settings = Settings(caution=0.0, questions_per_round=4)
    return run_experiment(make_example(700, seed=3), settings, seed=1, budget=12).result


def with_gap(made: Result, recorded: float | None, gap: float, interval: list[float]) -> Result:
    result = copy.deepcopy(made)
    result["vanilla"]["gap"] = recorded
    result["estimate"]["base"] = {"gap": gap, "interval": interval}
    return result


@pytest.mark.parametrize(
    ("recorded", "gap", "interval", "said"),
    [
        (0.204, 0.171, [0.0, 0.495], "is not known yet from the answers alone: 0.0 to 49.5 points all fit them"),
        (0.204, 0.171, [0.0, 0.495], "On record it is 20.4: the interval covers it."),
        (0.02, 0.03, [0.0, 0.08], "has no large gap: 0.0 to 8.0 points"),
        (0.44, 0.3, [0.2, 0.4], "the gap of the base model is 20.0 to 40.0 points (95% interval; 30.0 expected)"),
        (0.44, 0.3, [0.2, 0.4], "On record it is 44.0: the interval does not cover it, it lies above."),
        (0.1, 0.3, [0.2, 0.4], "does not cover it, it lies below."),
    ],
)
def test_the_interval_is_compared_with_the_record_in_words(
    made: Result, recorded: float, gap: float, interval: list[float], said: str
) -> None:
    assert said in estimate_sentence(with_gap(made, recorded, gap, interval), "base")


def test_without_records_nothing_is_compared_and_the_estimate_leads_the_page(made: Result) -> None:
    result = with_gap(made, None, 0.3, [0.2, 0.4])
    result["selected"]["gap"] = None
    assert "record" not in estimate_sentence(result, "base")
    head = render_report(result).split("<main>")[0]
    assert "By the answers alone the gap of the base model is 20.0 to 40.0 points" in head
    assert "Gap by the answers alone, points" in head


def test_an_interval_from_0_to_far_tells_little() -> None:
    assert tells_little({"interval": [0.0, 0.3]})
    assert tells_little({"interval": [None, None]})
    assert not tells_little({"interval": [0.0, 0.05]})
    assert not tells_little({"interval": [0.05, 0.6]})


def test_a_kept_model_is_said_to_be_kept_and_why_everywhere(made: Result, capsys: pytest.CaptureFixture[str]) -> None:
    result = copy.deepcopy(made)
    result |= {"selected": result["vanilla"], "selected_because": "There is too little evidence."}
    result["correction"]["applied"] = False
    result["changes"] = {"total": 0, "share": 0.0, "groups": {}}
    TerminalListener().summary(result, Path("report.html"))
    said = " ".join(capsys.readouterr().err.split())
    assert "base model, kept" in said
    for text in (said, render_report(result), *chosen_text(result)[:1]):
        assert "The base model is kept as it is. There is too little evidence." in text


def test_the_model_its_accuracy_and_the_arbitrary_changes_are_on_page_and_terminal(
    made: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    TerminalListener().summary(made, Path("report.html"))
    name, accuracies = made["model"]["name"], made["model"]["cross_validated_accuracies"]
    said = f"The base model is {name}: {100 * accuracies[name]:.1f}% right in cross-validation"
    assert said in " ".join(capsys.readouterr().err.split())
    page = render_report(made)
    assert said in page
    steady = made["correction"]["steadiness"]
    assert steady["changed"] > 0
    assert f"{steady['arbitrary']} (" in arbitrary_text(made)
    assert arbitrary_text(made).split(":")[0] in page
    assert "Theorem 1" not in page


def test_what_would_confirm_a_correction_is_said_or_that_nothing_would() -> None:
    outlook = {"confirming_answers": 45, "probability": 0.8, "smallest_gap": 0.41, "answers": 30}
    assert "45 fresh answers" in outlook_words(outlook)[1]
    assert "80%" in outlook_words(outlook)[1]
    assert outlook_words(outlook)[0].startswith("30 random answers alone tell a gap of 41 points")
    assert "no gap from none" in outlook_words(outlook | {"smallest_gap": 2.1})[0]
    assert "not even 1,000" in outlook_words(outlook | {"confirming_answers": None})[1]
