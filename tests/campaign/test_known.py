"""Groups that are handed in with a campaign: answers before the first question, at no cost; blanks are asked about."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from apod.campaign import Campaign
from apod.campaign.errors import UnknownGroup
from apod.cli import build_app
from apod.data import make_example
from apod.errors import BudgetError, InputError
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign
from apod.testing.engines import GROUPS, Workshop, group_of

QUICK = {"preset": "heads", "strengths": [0.2, 1.0], "body_epochs": 1, "epochs": 1}
PEOPLE = make_example(400, seed=4)
NAMES = np.array(PEOPLE.group_names, dtype=object)[PEOPLE.groups]
ON_RECORD = np.arange(400) % 4 == 0


def recorded(rows: int, every: int = 3) -> list[str | None]:
    return [group_of(row) if row % every == 0 else None for row in range(rows)]


def new_campaign(folder: Path, known: object = None, share: float = 0.25, **settings: object) -> Campaign:
    known = np.where(ON_RECORD, NAMES, None) if known is None else known
    return Campaign.create(
        folder / "people.db", PEOPLE.features, PEOPLE.labels, budget=12, known_groups=known,
        groups=list(PEOPLE.group_names), refit="demand", engine_options=QUICK, audit_share=share, **settings,
    )  # fmt: skip


def test_known_groups_are_answers_before_the_first_question_and_cost_nothing(workshop: Workshop) -> None:
    campaign = workshop.create(rows=60, budget=10, known_groups=recorded(60))
    assert {(answer.row, GROUPS[answer.group], answer.weight) for answer in campaign.owner.answers()} == {
        (row, group_of(row), 1.0) for row in range(0, 60, 3)
    }
    status = campaign.status()
    assert (status.answered, status.remaining, status.known) == (0, 10, 20)
    assert campaign.owner.refit()
    assert campaign.status().model_answers == 20


def test_blanks_may_be_asked_about_and_the_known_never(workshop: Workshop) -> None:
    campaign = workshop.create(rows=60, budget=40, known_groups=recorded(60), refit="demand")
    asked = set()
    while (question := campaign.ask("a")) is not None:
        asked.add(question.row)
        campaign.tell(question, group_of(question.row))
    assert asked == {row for row in range(60) if row % 3}
    assert campaign.status().answered == 40


def test_a_known_group_can_be_erased_and_nobody_is_asked_about_that_person(workshop: Workshop) -> None:
    campaign = workshop.create(rows=60, budget=20, known_groups=recorded(60), refit="demand")
    campaign.ask("a")
    done = campaign.owner.erase(row=3)
    assert done.answers == 1
    assert done.models >= 1
    assert 3 not in {answer.row for answer in campaign.owner.answers()}
    assert campaign.status().known == 19
    again = workshop.open(refit="demand")
    assert 3 not in {answer.row for answer in again.owner.answers()}
    while (question := again.ask("a")) is not None:
        assert question.row != 3
        again.tell(question, group_of(question.row))
    assert again.owner.verify_log().ok


def test_the_log_says_who_was_known_and_not_what(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=60, budget=10, known_groups=recorded(60))
    entries = [entry for entry in campaign.owner.log() if entry["what"] == "known"]
    assert {entry["row"] for entry in entries} == set(range(0, 60, 3))
    assert not any(group in json.dumps(entries) for group in GROUPS)


def test_gold_rows_are_no_known_ones(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=60, budget=10, known_groups=recorded(60), gold={0: group_of(0), 1: group_of(1)})
    assert campaign.status().known == 19
    assert {0, 1}.isdisjoint(answer.row for answer in campaign.owner.answers())


@pytest.mark.parametrize(
    ("known", "budget", "error", "message"),
    [
        (recorded(59), 10, InputError, "known_groups has 59 rows and X has 60"),
        ([*recorded(59), "nowhere"], 10, UnknownGroup, "known group for row 59 is none of the campaign's groups"),
        (recorded(60), 41, BudgetError, "does not fit 40 rows"),
    ],
)
def test_what_cannot_be_handed_in_is_refused(
    known: list[str | None], budget: int, error: type[Exception], message: str, on_sqlite: Workshop
) -> None:
    with pytest.raises(error, match=message):
        on_sqlite.create(rows=60, budget=budget, known_groups=known)


def test_known_people_who_are_held_out_never_train(tmp_path: Path) -> None:
    states = []
    for turned in (False, True):
        (tmp_path / str(turned)).mkdir()
        campaign = new_campaign(tmp_path / str(turned))
        if turned:
            held_out = np.isin(np.arange(400), campaign.materials.held_out())
            campaign.close()
            (tmp_path / "again").mkdir()
            other = np.array(PEOPLE.group_names[::-1], dtype=object)[PEOPLE.groups]
            campaign = new_campaign(tmp_path / "again", np.where(ON_RECORD, np.where(held_out, other, NAMES), None))
        campaign.owner.refit()
        states.append(campaign.engine().fit(campaign.owner.answers(), None).state())  # type: ignore[union-attr]
        assert {answer.row for answer in campaign.owner.answers()}.isdisjoint(campaign.materials.held_out().tolist())
        campaign.close()
    for name, array in states[0].arrays.items():
        assert np.array_equal(array, states[1].arrays[name]), name


def test_the_audit_counts_known_people_for_themselves_and_draws_among_the_others(tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path, share=0.5)
    while (question := campaign.ask("maria")) is not None:
        assert not ON_RECORD[question.row]
        campaign.tell(question, NAMES[question.row])
    held_out = campaign.materials.held_out()
    found = campaign.owner.audit()
    assert found is not None
    assert found.drawn == 6
    assert found.known == int(ON_RECORD[held_out].sum())
    assert found.people == len(held_out)
    chances = campaign.owner.probabilities("audit")
    cells: dict[tuple[int, int], list[int]] = {}
    decided = campaign.engine().decisions(None, held_out)["before"]  # type: ignore[attr-defined]
    for row, decision in zip(held_out.tolist(), decided.tolist(), strict=True):
        if not ON_RECORD[row]:
            cells.setdefault((int(PEOPLE.labels[row]), decision), []).append(row)
    for members in cells.values():
        asked = [row for row in members if row in chances]
        assert all(chances[row] == pytest.approx(len(asked) / len(members)) for row in asked)


def test_a_column_of_a_table_hands_groups_in_and_names_them(tmp_path: Path) -> None:
    frame = PEOPLE.features.assign(hired=PEOPLE.labels, race=np.where(ON_RECORD, NAMES, None))
    frame.to_csv(tmp_path / "people.csv", index=False)
    arguments = ["campaign", "new", str(tmp_path / "a.db"), str(tmp_path / "people.csv"), "--label", "hired"]
    done = CliRunner().invoke(build_app(), [*arguments, "--known-groups", "race", "--budget", "8"])
    assert done.exit_code == 0, done.output
    assert "100 groups are handed in; they cost nothing." in done.output
    campaign = Campaign.open(tmp_path / "a.db", refit="demand")
    assert set(campaign.settings.groups) == set(PEOPLE.group_names)
    assert "race" not in campaign.settings.show
    features = campaign.materials.features()
    assert isinstance(features, pd.DataFrame)
    assert "race" not in features.columns
    told = {*campaign.owner.answers(), *campaign.owner.answers("audit")}
    assert {(answer.row, campaign.settings.groups[answer.group]) for answer in told} == {
        (row, NAMES[row]) for row in np.flatnonzero(ON_RECORD).tolist()
    }
    campaign.close()


def test_status_and_report_say_how_many_were_handed_in(tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path)
    facts = campaign_facts(campaign)
    assert facts["status"]["known"] == 100
    assert "100 further groups were handed in, at no cost" in render_campaign(facts)
    campaign.close()
    shown = CliRunner().invoke(build_app(), ["status", str(tmp_path / "people.db")])
    assert "100 people's groups were handed in; they cost nothing" in shown.output
