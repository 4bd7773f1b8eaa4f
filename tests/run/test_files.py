"""A run's criterion stands in result.json before the first answer and cannot be changed afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from apod.data import make_example
from apod.errors import InputError
from apod.method.settings import PRESETS
from apod.run import run_experiment
from apod.run.files import RESULT, fix_criterion, write_outcome


def test_the_criterion_is_on_disk_before_anybody_is_asked(tmp_path: Path) -> None:
    people, seen = make_example(200), []

    def annotator(row: int) -> str:
        if not seen:
            begun = json.loads((tmp_path / RESULT).read_text())
            assert begun["finished"] is False
            seen.append(begun["criterion"])
        return people.group_names[people.groups[row]]

    fixed = fix_criterion(tmp_path, "gap<=.05", resume=False)
    settings = replace(PRESETS["default"], questions_per_round=4)
    outcome = run_experiment(people, settings, budget=8, annotator=annotator, criterion=fixed)
    write_outcome(outcome, tmp_path)
    result = json.loads((tmp_path / RESULT).read_text())
    assert seen == [result["criterion"]]
    assert result["criterion"]["text"] == "gap <= 0.05"
    assert "finished" not in result


def test_a_criterion_cannot_change_once_a_run_has_begun(tmp_path: Path) -> None:
    first = fix_criterion(tmp_path, "gap <= 0.05", resume=False)
    assert fix_criterion(tmp_path, "gap<=.05", resume=True) == first
    assert fix_criterion(tmp_path, None, resume=True) == first
    with pytest.raises(InputError, match=r"is 'gap <= 0.05', fixed"):
        fix_criterion(tmp_path, "gap <= 0.1", resume=True)


def test_a_run_begun_without_a_criterion_gets_none_later(tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text("{}")
    with pytest.raises(InputError, match="begun without one"):
        fix_criterion(tmp_path, "gap <= 0.1", resume=True)


def test_a_criterion_about_another_attribute_is_refused_before_any_work(tmp_path: Path) -> None:
    fixed = fix_criterion(tmp_path, "gap:race <= 0.05", resume=False)
    with pytest.raises(InputError, match="'race'"):
        run_experiment(make_example(100), PRESETS["default"], budget=8, criterion=fixed)
