"""The report of a campaign: what the audit answers say, whom we asked, and nobody's group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apod.campaign import Campaign
from apod.cli import build_app
from apod.cli.campaign_report import latest_audit, point_text, show_audit
from apod.data import make_example
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign

QUICK = {"preset": "heads", "strengths": [0.2, 1.0], "body_epochs": 1, "epochs": 1}
PEOPLE = make_example(400, seed=2)
NAMES = ["Zwergelin", "Riesenhaft"]


def campaign_with(folder: Path, answers: int, share: float) -> Campaign:
    campaign = Campaign.create(
        folder / "people.db", PEOPLE.features, PEOPLE.labels, groups=NAMES, budget=60, refit="demand",
        engine_options=QUICK, audit_share=share, legal_basis="Consent <b>", guidelines="Look closely.",
    )  # fmt: skip
    for _ in range(answers):
        question = campaign.ask("maria")
        assert question is not None
        campaign.tell(question, NAMES[PEOPLE.groups[question.row]])
    return campaign


def test_the_report_has_before_and_after_per_group_the_plan_and_whom_we_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = campaign_with(tmp_path, 40, 0.5)
    facts = campaign_facts(campaign)
    assert json.dumps(facts, allow_nan=False)
    assert facts["audit"]["answers"]["drawn"] == 20
    assert set(facts["audit"]["predictions"]) == ({"before", "after"} if facts["strength"] else {"before"})
    assert len(facts["questions"]) == 40
    assert facts["held_out_decisions"]["people"] == facts["held_out"] == 80
    page = render_campaign(facts)
    for text in (
        "Every group, without and with mitigation",
        "Further audit answers",
        "Whom we asked",
        "The log is whole",
        f"Mitigation here is the classifier of strength {facts['strength']:g}."
        if facts["strength"]
        else "Nothing was changed. Base model kept",
    ):
        assert text in page
    found = latest_audit(campaign)
    assert found is not None
    point = campaign.owner.results.operating_point().to_json()  # type: ignore[union-attr]
    show_audit(found, point)
    said = capsys.readouterr().out
    assert "gap without mitigation, by 20 audit answers: " in said
    assert (f"gap with strength {point['strength']:g}" in said) == (point["strength"] > 0)
    assert point_text(point) == f"operating point: strength {point['strength']:g}" + (
        f". {point['because']}" if point["strength"] else f", nothing is changed. {point['because']}"
    )
    assert "not chosen yet" in point_text(None)
    assert "Consent &lt;b&gt;" in page
    assert 'http-equiv="Content-Security-Policy" content="default-src \'none\'' in page.replace("&#39;", "'")


def test_no_question_in_the_report_says_anybody_s_group(tmp_path: Path) -> None:
    facts = campaign_facts(campaign_with(tmp_path, 40, 0.5))
    for question in facts["questions"]:
        assert not any(name in json.dumps(question) for name in NAMES)


@pytest.mark.parametrize(
    ("answers", "share", "said"),
    [
        (20, 0.0, "No questions were reserved"),
        (0, 0.2, "No audit question has been answered"),
        (3, 0.5, "fewer than two"),
    ],
)
def test_a_report_without_an_audit_or_a_classifier_says_why(
    tmp_path: Path, answers: int, share: float, said: str
) -> None:
    page = render_campaign(campaign_facts(campaign_with(tmp_path, answers, share)))
    assert said in page


def test_a_corrected_models_report_and_status_name_one_point_and_what_to_expect(tmp_path: Path) -> None:
    campaign = Campaign.create(
        tmp_path / "people.db", PEOPLE.features, PEOPLE.labels, groups=NAMES, budget=30, refit="demand",
    )  # fmt: skip
    for _ in range(14):
        question = campaign.ask("maria")
        assert question is not None
        campaign.tell(question, NAMES[PEOPLE.groups[question.row]])
    facts = campaign_facts(campaign)
    assert json.dumps(facts, allow_nan=False)
    page = render_campaign(facts)
    low, high = facts["estimate"]["base"]["interval"]
    span = f"{100 * low:.1f} to {100 * high:.1f}"
    little = low == 0 and high > 0.1
    assert (f"is not known yet from the answers alone: {span} points all fit them" in page) == little
    assert "Gap to expect, points" in page
    assert ("not known yet" in page) == little
    assert facts["selected_because"] in page
    assert page.count("0, the model as it is") == 1
    assert campaign.status().model in page  # type: ignore[operator]
    point = campaign.owner.results.operating_point()
    assert point is not None
    assert (point.strength, point.because) == (facts["strength"], facts["selected_because"])
    campaign.close()
    said = CliRunner().invoke(build_app(), ["status", str(tmp_path / "people.db")]).stdout
    assert point_text(point.to_json()) in said
    assert span in said
    told = json.loads(CliRunner().invoke(build_app(), ["status", str(tmp_path / "people.db"), "--json"]).stdout)
    assert told["operating_point"]["estimate"] == facts["estimate"]
    assert (told["preset"], told["selector"]) == ("default", "gap")
    assert told["model"] == "logistic regression"
