"""What a report says is so: rules in use, reversals, how much a rate rests on, what identifies the data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from report_results import make_result, metrics

from apod.cli.progress import TerminalListener
from apod.data import make_example
from apod.method.selection import SELECTORS
from apod.method.settings import CORRECTION_SELECTORS, PRESETS
from apod.report import render_report
from apod.report.settings import SETTING_WORDS, setting_names, setting_words
from apod.report.words import judge, label_name
from apod.run.checkpoint import data_fingerprint


def texts(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def by_label(result: dict[str, Any]) -> None:
    """As a selector leaves it that looks at nothing but labels."""
    result["settings"]["selector"] = "typical"
    for answer in result["answers"][4:]:
        answer["reason"] = {"rule": "typical person of a label", "label": answer["reason"]["label"]}


def test_only_the_rule_in_use_is_described_and_no_column_stays_empty() -> None:
    typical, worst = (render_report(make_result(change=change)) for change in (by_label, None))
    for text in ("the worst is asked about next", "Accuracy there", "Distance is to the nearest", ">Distance<"):
        assert text in worst
        assert text not in typical
    assert "After that the rule was: typical person of a label." in texts(typical)


def turned(result: dict[str, Any]) -> None:
    """The demo's end: women's TPR from 48 to 62 percent, men's from 60 to 54."""
    result["vanilla"] |= metrics({"Female": (0.48, 0.05, 0.1, 4892), "Male": (0.60, 0.08, 0.2, 10190)})
    result["selected"] |= metrics({"Female": (0.62, 0.07, 0.2, 4892), "Male": (0.54, 0.08, 0.2, 10190)})


def test_a_difference_that_turned_round_is_named_in_report_and_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    result = make_result(change=turned)
    caution = next(one for one in judge(result).cautions if "turned round" in one.title)
    assert "TPR: Male had 12.0 points more than Female (60.0% against 48.0%)" in caution.text
    assert "now has 8.0 less (54.0% against 62.0%)" in caution.text
    assert "FPR" not in caution.text  # that difference only shrank
    assert caution.text in texts(render_report(result)).replace(" .", ".")
    for entry in (result["vanilla"], result["selected"]):
        for group in entry["groups"].values():
            group["n_positive"] = 1000
    result |= {"outlook": None, "selected_because": None, "classifier": None}
    TerminalListener().summary(result, Path("report.html"))
    assert "Male had 12.0 points more than Female" in " ".join(capsys.readouterr().err.split())
    assert not any("turned" in one.title for one in judge(make_result()).cautions)


def test_a_proxy_that_contradicts_the_records_is_told_of() -> None:
    def few_guessed(result: dict[str, Any]) -> None:
        for cell in result["rounds"][-1]["subgroups"]:
            cell["pool"] = 150 if cell["group"] == "Female" else 3600

    def as_recorded(result: dict[str, Any]) -> None:
        for cell in result["rounds"][-1]["subgroups"]:
            cell["pool"] = 4892 if cell["group"] == "Female" else 10190

    page = texts(render_report(make_result(change=few_guessed)))
    assert "4% Female by its guesses, 32% by the records" in page
    assert "The proxy is wrong about" not in render_report(make_result(change=as_recorded))


def test_every_rate_stands_beside_the_number_of_people_it_rests_on() -> None:
    def counted(result: dict[str, Any]) -> None:
        for entry in (result["vanilla"], result["selected"]):
            for name, positives in (("Female", 500), ("Male", 3000)):
                entry["groups"][name]["n_positive"] = positives

    page = texts(render_report(make_result(change=counted)))
    for text in ("Female, n = 500", "Female, n = 4,392", "Male, n = 3,000", "500 (10%)", "3,000 (29%)"):
        assert text in page


@pytest.mark.parametrize(("name", "said"), [("1", "label 1"), ("0", "label 0"), ("hired", "hired"), (">50K", ">50K")])
def test_a_label_that_is_a_number_is_called_a_label(name: str, said: str) -> None:
    assert label_name(name) == said


def test_nobody_truly_is_a_number() -> None:
    page = texts(render_report(make_result(label_names=("0", "1"))))
    assert "truly" not in page
    assert "Of the people whose label is 1" in page
    assert "TPR: label 1, predicted 1" in page
    assert "Female, label 1" in page


def test_every_setting_is_in_words() -> None:
    for preset in PRESETS.values():
        for name, value in preset.to_dict().items():
            assert name in setting_names(), name
            if isinstance(value, str):
                assert value in SETTING_WORDS[name], (name, value)
    assert set(SETTING_WORDS["selector"]) == {*SELECTORS, *CORRECTION_SELECTORS}
    assert setting_words("selector", "random") == "a random person (random)"
    assert setting_words("strengths", [0.5, 1.0]) == "0.5, 1"
    assert setting_words("least_gain", 0.0) == "never"


def test_date_fingerprint_and_features_are_on_the_page() -> None:
    data = {
        "fingerprint": "00c0ffee",
        "rows": 30162,
        "base_rate": 0.249,
        "features": [f"column-{k}" for k in range(60)],
    }
    page = texts(render_report(make_result() | {"made_at": "2031-05-06 07:08 UTC", "data": data}))
    for text in ("apod report · 2031-05-06", "2031-05-06 07:08 UTC", "00c0ffee", "24.9%", "60: column-0, column-1"):
        assert text in page
    assert "column-59" not in page


def test_the_fingerprint_tells_tables_apart_and_knows_nobody_s_group() -> None:
    from dataclasses import replace

    people = make_example(200)
    other = people.features.copy()
    other.iloc[7, 0] += 1e-9
    same = replace(people, groups=1 - people.groups, name="another name")
    assert data_fingerprint(people) == data_fingerprint(same)
    for changed in (
        replace(people, features=other),
        replace(people, labels=1 - people.labels),
        replace(people, features=people.features.rename(columns=lambda name: f"{name}!")),
    ):
        assert data_fingerprint(changed) != data_fingerprint(people)


def estimate(value: float | None, low: float, high: float) -> dict[str, float | None]:
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (estimate(0.2, 0.1, 0.3), estimate(-0.2, -0.3, -0.1), "turned round"),
        (estimate(0.2, -0.1, 0.3), estimate(-0.2, -0.3, 0.1), "may have turned round"),
        (estimate(0.2, 0.1, 0.3), estimate(0.1, 0.05, 0.2), None),
        (estimate(None, -0.9, 0.9), estimate(None, -0.9, 0.9), None),
    ],
)
def test_a_campaign_s_report_says_when_a_difference_turned_round(before: Any, after: Any, said: str | None) -> None:
    from apod.report.campaign_page import _turned_round

    view = {"before": {"tpr_difference": before, "fpr_difference": estimate(0.1, 0.0, 0.2)}}
    view["after"] = {"tpr_difference": after, "fpr_difference": estimate(0.1, 0.0, 0.2)}
    facts = {"group_names": ["a", "b"], "audit": {"predictions": view}}
    found = _turned_round(facts)
    assert len(found) == (said is not None)
    assert said is None or said in found[0]
