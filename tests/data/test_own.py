"""Messy files get in with a true summary, or with one message that says everything that must be mended."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from messy_files import BAD, GENDER, GOOD, HIRED, NO_TABLE, ROWS, SAID, Messy

from apod.data import load_dataset
from apod.data.own import FileColumns, Understood, understand_file
from apod.data.summary import summarize
from apod.data.text_files import dialect
from apod.errors import InputError, TableProblems

pytest.importorskip("openpyxl")

KINDS = {"age": "number", "income": "number", "city": "category", "gender": "category"}


def understood(case: Messy, folder: Path) -> Understood:
    said = {**SAID, **case.said}
    how = dialect(said.pop("sep", None), None, said.pop("encoding", None))
    return understand_file(case.write(case.frame, folder), FileColumns(**said, dialect=how))


def test_there_are_sixty_and_more() -> None:
    assert len(GOOD) + len(BAD) + len(NO_TABLE) >= 60


@pytest.mark.parametrize("name", GOOD)
def test_a_messy_file_gets_in_with_a_true_summary(name: str, tmp_path: Path) -> None:
    case = GOOD[name]
    found = understood(case, tmp_path)
    summary = summarize(found)
    assert summary.problems == ()
    assert summary.rows == ROWS
    assert summary.label is not None
    assert (summary.label.positives, summary.label.base_rate) == (HIRED.sum(), pytest.approx(HIRED.mean()))
    columns = {column.name: column for column in summary.columns}
    for column, kind in (KINDS | dict(case.kinds)).items():
        if column in columns:
            assert columns[column].type == kind
    assert columns["gender"].role == "group"
    assert columns["hired"].role == "label"
    recorded = np.arange(ROWS) % 6 > 0 if case.without_group else np.ones(ROWS, dtype=bool)
    assert {group.name: group.people for group in summary.groups} == {
        group: int((GENDER[recorded] == group).sum()) for group in ("female", "male")
    }
    assert summary.without_group == case.without_group
    for column, values in case.values.items():
        assert np.allclose(found.features[column].to_numpy(dtype=float, na_value=np.nan), values, equal_nan=True)
    for column, count in case.missing.items():
        assert (columns[column].missing, columns[column].missing_share) == (count, count / ROWS)
    for note in case.notes:
        assert any(re.search(note, said) for said in summary.notes), summary.notes
    assert len(found.dataset()) == ROWS


@pytest.mark.parametrize("name", BAD)
def test_everything_that_must_be_mended_is_in_one_message(name: str, tmp_path: Path) -> None:
    case = BAD[name]
    found = understood(case, tmp_path)
    assert len(found.problems) == len(case.problems), found.problems
    for pattern in case.problems:
        assert sum(bool(re.search(pattern, problem)) for problem in found.problems) == 1, found.problems
    with pytest.raises(TableProblems) as refused:
        found.dataset()
    assert all(problem in str(refused.value) for problem in found.problems)
    assert not set(summarize(found).problems) - set(found.problems)


@pytest.mark.parametrize("name", NO_TABLE)
def test_what_is_no_table_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    case, message = NO_TABLE[name]
    with pytest.raises(InputError, match=message) as refused:
        load_dataset(case.write(case.frame, tmp_path), **SAID)
    assert "\n" not in str(refused.value)
