"""A run and an audit with their evidence, made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod.data import make_example
from apod.method.settings import PRESETS
from apod.run import run_experiment
from apod.run.files import fix_criterion, write_outcome
from support.commands import apod


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on synthetic people, some without a recorded group, with a criterion."""
    folder = tmp_path_factory.mktemp("run")
    example = make_example(1500)
    blank = np.where(np.arange(1500) % 15 == 0, -1, example.groups)
    people = replace(example, groups=blank)
    fixed = fix_criterion(folder, "gap <= 0.1", resume=False)
    settings = replace(PRESETS["default"], questions_per_round=6)
    write_outcome(run_experiment(people, settings, budget=18, criterion=fixed), folder)
    return folder


@pytest.fixture(scope="session")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of an audit of 120 answers drawn alike."""
    folder = tmp_path_factory.mktemp("audit")
    example = make_example(1200)
    told = np.where(np.arange(1200) % 10 == 0, np.array(example.group_names)[example.groups], "")
    frame = example.features.assign(hired=example.labels, model=(example.features["merit"] > 0).astype(int), shape=told)
    pd.DataFrame(frame).to_csv(folder / "people.csv", index=False)
    told_all = ("--label", "hired", "--prediction", "model", "--group", "shape", "--result", "audit.json")
    done = apod("audit", "people.csv", *told_all, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "audit.json"


@pytest.fixture
def evidence(run_folder: Path, tmp_path: Path) -> Path:
    """A folder of evidence of the run."""
    folder = tmp_path / "evidence"
    done = apod("report", run_folder, "--evidence", folder, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    return folder
