"""Settings on the command line: every command offers the same ones, and a campaign follows what it was told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apod.campaign import Campaign
from apod.cli import build_app
from apod.data import make_example
from apod.errors import InputError, UnknownName
from apod.method.settings import SETTINGS

ROWS, BUDGET = 160, 12


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    people = make_example(ROWS, seed=2)
    path = tmp_path_factory.mktemp("people") / "people.csv"
    people.features.assign(hired=people.labels).to_csv(path, index=False)
    return path


def new_campaign(url: Path, table: Path, *options: str) -> object:
    arguments = [str(url), str(table), "--label", "hired", "--groups", "circle,triangle", "--budget", str(BUDGET)]
    return CliRunner().invoke(build_app(), ["campaign", "new", *arguments, "--audit-share", "0", *options])


@pytest.mark.parametrize("command", [["run"], ["campaign", "new"]], ids=["run", "campaign new"])
def test_a_command_offers_every_setting_that_has_an_option(command: list[str]) -> None:
    shown = CliRunner().invoke(build_app(), [*command, "--help"], env={"COLUMNS": "200"}).output
    for name, meaning in SETTINGS.items():
        if meaning.option and not (command == ["campaign", "new"] and name == "questions_per_round"):
            assert meaning.option in shown, name
    assert "--preset" in shown


def test_an_error_names_the_option_not_the_field(table: Path, tmp_path: Path) -> None:
    refused = CliRunner().invoke(build_app(), ["run", "example", "--batch", "0"])
    assert isinstance(refused.exception, InputError)
    assert str(refused.exception) == "--batch is 0: pass a whole number from 1 up."
    refused = new_campaign(tmp_path / "wrong.db", table, "--selector", "apd")
    assert isinstance(refused.exception, UnknownName)  # type: ignore[attr-defined]
    assert not (tmp_path / "wrong.db").exists()


def test_people_answer_the_questions_of_the_papers_own_loop(table: Path, tmp_path: Path) -> None:
    """`--preset paper`: after the first random answers every question is AIS's, about the worst subgroup."""
    people, url = make_example(ROWS, seed=2), tmp_path / "paper.db"
    assert new_campaign(url, table, "--preset", "paper", "--strengths", "0.5,1").exit_code == 0  # type: ignore[attr-defined]
    status = CliRunner().invoke(build_app(), ["status", str(url), "--json"])
    said = json.loads(status.stdout)
    assert (said["preset"], said["selector"]) == ("paper", "apod")
    with Campaign.open(str(url), refit="demand") as campaign:
        for _ in range(BUDGET):
            question = campaign.ask("annotator-1")
            assert question is not None
            campaign.tell(question.id, people.group_names[people.groups[int(question.row_id)]])
            campaign.owner.refit()  # the next question is that of a model that knows this answer
        asked = [entry["reason"] for entry in campaign.owner.log() if entry["what"] == "asked"]
    rules = [reason["rule"] for reason in asked]
    first = sum(rule == "first answers, random person of a label" for rule in rules)
    assert 2 <= first < BUDGET
    assert rules[first:] == ["worst subgroup, farthest person"] * (BUDGET - first)
    for reason in asked[first:]:
        assert reason["group"] in people.group_names
        assert reason["centred_accuracy"] <= 0  # nobody below the mean of the groups is worse than the worst
        assert reason["distance"] > 0
    with Campaign.open(str(url), refit="demand") as campaign:
        assert campaign.classifier().get_params()["selector"] == "apod"


def test_a_campaign_is_the_default_preset_unless_it_says_otherwise(table: Path, tmp_path: Path) -> None:
    assert new_campaign(tmp_path / "plain.db", table).exit_code == 0  # type: ignore[attr-defined]
    said = json.loads(CliRunner().invoke(build_app(), ["status", str(tmp_path / "plain.db"), "--json"]).stdout)
    assert (said["preset"], said["selector"]) == ("default", "gap")
    assert new_campaign(tmp_path / "other.db", table, "--selector", "random").exit_code == 0  # type: ignore[attr-defined]
    said = json.loads(CliRunner().invoke(build_app(), ["status", str(tmp_path / "other.db"), "--json"]).stdout)
    assert (said["preset"], said["selector"]) == ("default", "random")
