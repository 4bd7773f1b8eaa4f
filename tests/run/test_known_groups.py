"""Runs where some groups are on record: handed-in ones cost nothing, blanks of a recorded column are never asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apod.data import UNKNOWN, Dataset, load_dataset, make_example
from apod.errors import CheckpointError
from apod.method.settings import PRESETS, Settings
from apod.run import Listener, run_experiment
from apod.run.files import write_outcome

PEOPLE = make_example(n=500, seed=3)
ON_RECORD = np.arange(500) % 3 == 0
QUICK = {
    "correction": Settings(questions_per_round=4),
    "heads": replace(PRESETS["heads"], questions_per_round=4, body_epochs=1, epochs=1, strengths=(0.2, 1.0)),
}


def partly(known: bool) -> Dataset:
    groups = np.where(ON_RECORD, PEOPLE.groups, UNKNOWN)
    return replace(PEOPLE, groups=groups, known=groups if known else None)


class Asked:
    """Answers truly and notes whom it was asked about."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, row: int) -> str:
        self.rows.append(row)
        return PEOPLE.group_names[PEOPLE.groups[row]]


@pytest.mark.parametrize("kind", QUICK)
def test_known_groups_are_learnt_from_and_only_blanks_are_asked_about(kind: str) -> None:
    asked = Asked()
    outcome = run_experiment(partly(known=True), QUICK[kind], budget=12, annotator=asked)
    train = outcome.approach.split.train
    assert len(asked.rows) == 12
    assert not ON_RECORD[asked.rows].any()
    answers = outcome.approach.mitigation.answers[0]
    assert answers.handed_in == outcome.result["known_groups"] == ON_RECORD[train].sum()
    assert set(train[list(answers.rows[: answers.handed_in])]) == set(train[ON_RECORD[train]])
    for row, group in zip(answers.rows, answers.groups, strict=True):
        assert group == PEOPLE.groups[train[row]]
    assert [entry["answered"] for entry in outcome.result["rounds"]][-1] == 12
    assert len(outcome.result["answers"]) == 12
    assert any("were handed in and cost nothing" in note for note in outcome.result["notes"])


@pytest.mark.parametrize("kind", QUICK)
def test_a_recorded_column_is_never_asked_about_its_blanks(kind: str) -> None:
    outcome = run_experiment(partly(known=False), QUICK[kind], budget=12, audit_share=0.25)
    assert len(outcome.result["answers"]) == 9
    assert all(ON_RECORD[entry["row"]] for entry in outcome.result["answers"])
    assert all(entry["group"] is not None for entry in outcome.result["answers"])
    assert not any("could not be given" in note for note in outcome.result["notes"])
    audit = outcome.result["audit"]
    assert audit["answers"] == {"drawn": 3, "told": 0, "silent": 0}
    assert audit["people"] == ON_RECORD[outcome.approach.split.test].sum()


def test_known_people_of_the_test_part_speak_for_themselves_in_the_audit() -> None:
    asked = Asked()
    outcome = run_experiment(partly(known=True), QUICK["correction"], budget=20, annotator=asked, audit_share=0.4)
    test = outcome.approach.split.test
    audit = outcome.result["audit"]
    assert audit["answers"] == {"drawn": 8, "told": int(ON_RECORD[test].sum()), "silent": 0}
    assert audit["people"] == len(test)
    assert not ON_RECORD[asked.rows].any()


def test_known_groups_alone_are_enough(tmp_path: Path) -> None:
    outcome = run_experiment(partly(known=True), QUICK["correction"], budget=0)
    assert outcome.result["answers"] == []
    assert len(outcome.result["rounds"]) == 1
    assert outcome.result["estimate"] is not None
    assert "were handed in and cost nothing" in write_outcome(outcome, tmp_path / "out").read_text()


def test_unknown_groups_of_others_change_nothing() -> None:
    """Beyond those on record and those asked about nobody's group is read."""
    results = []
    for turned in (False, True):
        truth = Asked()
        outcome = run_experiment(partly(known=True), QUICK["correction"], budget=8, annotator=truth)
        if turned:
            others = ~ON_RECORD
            others[results[0][1]] = False
            changed = replace(partly(known=True), groups=np.where(others, UNKNOWN, PEOPLE.groups))
            outcome = run_experiment(changed, QUICK["correction"], budget=8, annotator=truth)
        results.append(([entry["row"] for entry in outcome.result["answers"]], truth.rows[:8]))
    assert results[0][0] == results[1][0]


class Interrupted(Listener):
    def round(self, entry: dict[str, Any], answers: list[dict[str, Any]], budget: int) -> None:
        if entry["round"] == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", QUICK)
def test_a_run_with_known_groups_is_resumed_where_it_was(kind: str, tmp_path: Path) -> None:
    whole = run_experiment(partly(known=True), QUICK[kind], budget=12, annotator=Asked())
    with pytest.raises(KeyboardInterrupt):
        run_experiment(
            partly(known=True), QUICK[kind], budget=12, annotator=Asked(), checkpoint=tmp_path, listener=Interrupted()
        )
    other = replace(partly(known=True), known=np.where(np.arange(500) == 0, UNKNOWN, partly(known=True).groups))
    with pytest.raises(CheckpointError):
        run_experiment(other, QUICK[kind], budget=12, annotator=Asked(), checkpoint=tmp_path, resume=True)
    later = Asked()
    resumed = run_experiment(
        partly(known=True), QUICK[kind], budget=12, annotator=later, checkpoint=tmp_path, resume=True
    )
    assert len(later.rows) < 12
    assert resumed.result["answers"] == whole.result["answers"]
    assert resumed.result["selected"] == whole.result["selected"]


def test_a_column_of_a_table_hands_groups_in(tmp_path: Path) -> None:
    names = np.array(PEOPLE.group_names, dtype=object)[PEOPLE.groups]
    frame = PEOPLE.features.assign(hired=PEOPLE.labels, race=np.where(ON_RECORD, names, None))
    frame.to_csv(tmp_path / "people.csv", index=False)
    found = load_dataset(tmp_path / "people.csv", label="hired", known_groups="race", reference=PEOPLE.group_names[-1])
    assert found.known is not None
    assert np.array_equal(found.known, partly(known=True).groups)
    assert "race" not in found.features.columns
