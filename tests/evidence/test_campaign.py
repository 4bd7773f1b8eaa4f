"""Evidence of a campaign: what its audit infers to the digit, its criterion's history, and a log that proves both."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from apod.campaign import Campaign
from apod.data import make_example
from apod.evidence.campaign import criteria
from support.commands import apod

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "evidence.schema.json").read_text())
PEOPLE = make_example(500, seed=2)
NAMES = ["Zwergelin", "Riesenhaft"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with 70 answers, and evidence of it in `evidence`."""
    folder = tmp_path_factory.mktemp("campaign")
    campaign = Campaign.create(
        folder / "people.db", PEOPLE.features, PEOPLE.labels, groups=NAMES, budget=80, refit="thread",
        audit_share=0.9, legal_basis="Consent", criterion="gap <= 0.5",
    )  # fmt: skip
    for number in range(70):
        question = campaign.ask("maria")
        assert question is not None
        campaign.tell(question, NAMES[PEOPLE.groups[question.row]])
        if number == 10:
            campaign.owner.revise(criterion="gap <= 0.6", reason="Half was a slip of the pen")
    campaign.close()
    done = apod("report", "people.db", "--evidence", "evidence", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


def stored(folder: Path) -> dict:
    return json.loads((folder / "evidence" / "evidence.json").read_text())


def test_evidence_of_a_campaign_is_of_the_published_schema_and_measures_nothing(place: Path) -> None:
    found = stored(place)
    jsonschema.validate(found, SCHEMA)
    (attribute,) = found["attributes"].values()
    assert attribute["measured"] is None
    assert "different chances" in attribute["not_measured"]
    assert attribute["ll144"] is None
    assert found["intersections"] == "not measured: one attribute"


def test_numbers_are_those_of_the_status_to_the_digit(place: Path) -> None:
    status = json.loads(apod("status", "people.db", "--json", folder=place).stdout)
    (attribute,) = stored(place)["attributes"].values()
    before, view = attribute["inferred"]["before"], status["audit"]["predictions"]["before"]
    assert {key: before["metrics"]["gap"][key] for key in ("value", "low", "high")} == view["gap"]
    assert before["bounds"] == view["bounds"]
    for name, one in before["groups"].items():
        for rate in ("tpr", "fpr", "selection_rate", "impact_ratio"):
            assert {key: one[rate][key] for key in ("value", "low", "high")} == view["groups"][name][rate]


def test_the_criterion_has_its_history_and_the_answers_given_by_then(place: Path) -> None:
    found = stored(place)["criterion"]
    assert (found["text"], found["answers_then"]) == ("gap <= 0.6", 11)
    assert [(one["text"], one["answers_then"], one["reason"]) for one in found["history"]] == [("gap <= 0.5", 0, None)]
    assert "after 11 answers" in found["words"]
    assert found["reason"] == "Half was a slip of the pen"
    assert "Half was a slip of the pen" in (place / "evidence" / "evidence.html").read_text()


def test_undone_criteria_are_none() -> None:
    assert criteria([{"what": "created", "at": "", "settings": {"criterion": None}}]) == []


def test_the_log_knows_the_manifest_and_verification_computes_the_same_again(place: Path) -> None:
    done = apod("verify", "evidence", "--data", "people.db", "--json", folder=place)
    found = json.loads(done.stdout)
    assert found["ok"], found["problems"]
    assert found["from_data"] > 30
    manifest = place / "evidence" / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole.replace(b'"schema_version": 1', b'"schema_version":  1'))
    found = json.loads(apod("verify", "evidence", "--data", "people.db", "--json", folder=place).stdout)
    manifest.write_bytes(whole)
    assert "manifest.json: its hash does not stand in the log" in found["problems"]


def test_no_file_names_an_annotator_or_a_row(place: Path) -> None:
    for file in (place / "evidence").iterdir():
        assert b"maria" not in file.read_bytes()
