"""More groups than the numerics bear are refused at the door, by whichever door they come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod import APODClassifier, Campaign, make_example
from apod.audit import audit
from apod.audit.table import AuditColumns, read_audit
from apod.data import load_dataset
from apod.data.dataset import MOST_GROUPS
from apod.errors import InputError
from apod.method.settings import PRESETS
from apod.run import run_experiment

NAMES = tuple(f"g{number:03}" for number in range(200))
REFUSED = f"at most {MOST_GROUPS}"


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1000, 2)), columns=["a", "b"])
    group = np.array(NAMES)[np.arange(1000) % 200]
    return frame.assign(hired=rng.permutation([0, 1] * 500), model=rng.permutation([0, 1] * 500), group=group)


def test_run(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(InputError, match=REFUSED):
        load_dataset(tmp_path / "people.csv", label="hired", sensitive="group")
    people = make_example(300)
    with pytest.raises(InputError, match=REFUSED):
        run_experiment(replace(people, group_names=NAMES), PRESETS["heads"], budget=250)


def test_fit(table: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=REFUSED):
        APODClassifier().fit(table[["a", "b"]], table["hired"], sensitive_features=table["group"])
    membership = np.eye(200)[np.arange(1000) % 200]
    with pytest.raises(InputError, match=REFUSED):
        APODClassifier().fit_membership(table[["a", "b"]], table["hired"], membership, NAMES)


def test_campaign(table: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=REFUSED):
        Campaign.create(tmp_path / "a.db", table[["a", "b"]], table["hired"], groups=NAMES, budget=300)
    assert not (tmp_path / "a.db").exists()


def test_audit(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(InputError, match=REFUSED):
        read_audit(tmp_path / "people.csv", AuditColumns("hired", ("model",)))
    codes = np.arange(1000) % 200
    with pytest.raises(InputError, match=REFUSED):
        audit(table["hired"].to_numpy(), {"m": table["model"].to_numpy()}, codes, NAMES)


def test_embeddings_too_wide_for_the_posterior_of_so_many_groups(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wide, labels = rng.normal(size=(100, 300)), rng.permutation([0, 1] * 50)
    names = NAMES[:MOST_GROUPS]
    options = {"body": "precomputed"}
    with pytest.raises(InputError, match="9632 weights"):
        Campaign.create(tmp_path / "a.db", wide, labels, groups=names, budget=64, engine_options=options)
    with pytest.raises(InputError, match="9632 weights"):
        APODClassifier(body="precomputed").fit(wide, labels, sensitive_features=np.array(names)[np.arange(100) % 32])
    with Campaign.create(
        tmp_path / "b.db", wide, labels, groups=names, budget=64, engine_options={**options, "proxy": "logistic"}
    ) as made:
        assert made.settings.groups == names
