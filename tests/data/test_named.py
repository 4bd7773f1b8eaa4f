"""The named tables: counts as their publishers' files have them, and nothing sensitive among the features."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod.data import DATASETS, TableEncoder, load_dataset, split_rows
from apod.data.named import TableDataset
from apod.errors import DataUnavailable, InputError, UnknownName

TABLES = [row for row in DATASETS.values() if isinstance(row, TableDataset)]

# name: rows, features, {group: (members, positives)}; counted with Python's csv module, not with the package
COUNTS = {
    "adult": (30162, 13, {"Female": (9782, 1112), "Male": (20380, 6396)}),
    "meps": (15787, 40, {"non-White": (10155, 1272), "White": (5632, 1440)}),
    "loan": (30000, 22, {"35 or younger": (16809, 3597), "over 35": (13191, 3039)}),
    "german": (1000, 19, {"35 or younger": (588, 390), "over 35": (412, 310)}),
    "bank": (4521, 15, {"35 or younger": (1652, 197), "over 35": (2869, 324)}),
    "compas": (5278, 7, {"African-American": (3175, 1661), "Caucasian": (2103, 822)}),
    "law_school": (20798, 10, {"Non-White": (3307, 2391), "White": (17491, 16114)}),
}
TASKS = {  # budget, embedding, hidden, metric: the paper's tables
    "adult": (30, 64, (32,), "delta_eo"),
    "meps": (31, 32, (32, 32), "eop"),
    "loan": (30, 64, (32,), "eop"),
    "german": (22, 32, (32, 32), "eop"),
    "bank": (22, 32, (32, 32), "eop"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_rows_groups_and_positives_are_those_of_the_public_file(name: str, data_dir: Path) -> None:
    dataset = load_dataset(name, data_dir=data_dir)
    rows, features, groups = COUNTS[name]
    assert len(dataset) == rows == DATASETS[name].n_rows
    assert dataset.features.shape == (rows, features)
    assert dataset.group_names == tuple(groups)
    for code, (members, positives) in enumerate(groups.values()):
        assert (dataset.groups == code).sum() == members
        assert dataset.labels[dataset.groups == code].sum() == positives
    assert set(np.unique(dataset.labels)) == {0, 1}


@pytest.mark.parametrize("name", TASKS)
def test_task_settings_are_the_papers(name: str) -> None:
    task = DATASETS[name].task
    assert (task.budget, task.embedding, task.hidden, task.metric) == TASKS[name]
    assert task.split == (0.25, 0.25, 0.5)


@pytest.mark.parametrize("row", TABLES, ids=lambda row: row.name)
def test_label_and_sensitive_source_are_never_features(row: TableDataset, data_dir: Path) -> None:
    features = load_dataset(row.name, data_dir=data_dir).features
    never = {"adult": "sex", "loan": "age", "german": "age", "bank": "age"}.get(row.name, "race")
    names = [str(column).lower() for column in features.columns]
    assert never not in names
    assert row.label.lower() not in names
    assert not {"id", "perwt15f", "race_white_any", "race_source"} & set(names)
    assert not any(name.startswith("race_") for name in names)


def test_meps_encodes_to_the_columns_of_aif360_without_race(data_dir: Path) -> None:
    theirs = pd.read_csv(data_dir / "meps19" / "rnf_meps_train.csv", nrows=1)
    ours = TableEncoder().fit(load_dataset("meps", data_dir=data_dir).features)
    assert len(ours.feature_names_) == len(theirs.columns) - 2  # without RACE and UTILIZATION


def test_rows_count_data_lines_of_the_file_before_incomplete_ones_were_dropped(data_dir: Path) -> None:
    dataset = load_dataset("adult", data_dir=data_dir)
    lines = (data_dir / "adult" / "adult.data").read_text().splitlines()
    for place in (0, 14, 5000, len(dataset) - 1):
        cells = [cell.strip() for cell in lines[dataset.rows[place]].split(",")]
        assert cells[0] == str(dataset.features["age"].iloc[place])
        assert cells[13] == dataset.features["native-country"].iloc[place]
        assert cells[9] == dataset.group_names[dataset.groups[place]]
        assert cells[14] == dataset.label_names[dataset.labels[place]]
    incomplete = {i for i, line in enumerate(lines) if "?" in line}
    assert incomplete.isdisjoint(dataset.rows.tolist())


def test_age_groups_meet_between_35_and_36(data_dir: Path) -> None:
    for name, column in (("bank", 0), ("german", 12)):
        row, dataset = DATASETS[name], load_dataset(name, data_dir=data_dir)
        assert row.origin is not None
        path = data_dir / row.origin.folder / row.origin.files[0]
        lines = path.read_text().splitlines()[1 if name == "bank" else 0 :]
        ages = np.array([int(line.split(";" if name == "bank" else " ")[column]) for line in lines])
        assert (dataset.groups == (ages >= 36)).all()


@pytest.mark.parametrize("name", COUNTS)
def test_features_are_numbers_and_categories_without_gaps(name: str, data_dir: Path) -> None:
    features = load_dataset(name, data_dir=data_dir).features
    kinds = {str(dtype) for dtype in features.dtypes}
    assert kinds <= {"int64", "float64", "category"}
    assert not features.isna().any().any()


def test_an_edition_with_other_bytes_but_the_same_cells_is_as_good(data_dir: Path, tmp_path: Path) -> None:
    original = (data_dir / "default_credit" / "default_of_credit_card_clients.csv").read_text()
    lines = original.replace('"', "").splitlines()
    sheet = [",".join(["", *(f"X{i}" for i in range(1, 24)), "Y"]), *lines]  # the sheet has a line above its header
    (tmp_path / "UCI_Credit_Card.csv").write_bytes("\r\n".join(sheet).replace(",20000,", ",20000.0,").encode())
    ours, theirs = load_dataset("loan", data_dir=tmp_path), load_dataset("loan", data_dir=data_dir)
    assert_same(ours, theirs)


def test_a_meps_file_made_from_the_original_survey_is_accepted(data_dir: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(data_dir / "meps19" / "meps19_joined.csv.gz")
    made = frame.drop(columns=["PERWT15F", "RACE_WHITE_ANY", "RACE_SOURCE"]).fillna({"RACE": 0}).astype({"RACE": int})
    made[made.columns[::-1]].to_csv(tmp_path / "meps19.csv", index=False)
    assert len(load_dataset("meps", data_dir=tmp_path)) == 15830
    made.loc[7, "AGE"] += 1
    made.to_csv(tmp_path / "meps19.csv", index=False)
    with pytest.raises(DataUnavailable, match="not the meps data"):
        load_dataset("meps", data_dir=tmp_path)


def test_a_packed_copy_in_a_flat_folder_is_found(data_dir: Path, tmp_path: Path) -> None:
    packed = gzip.compress((data_dir / "bank_marketing" / "bank.csv").read_bytes())
    (tmp_path / "bank.csv.gz").write_bytes(packed)
    assert_same(load_dataset("bank", data_dir=tmp_path), load_dataset("bank", data_dir=data_dir))


def test_the_reference_group_can_be_chosen(data_dir: Path) -> None:
    usual = load_dataset("german", data_dir=data_dir)
    turned = load_dataset("german", reference="35 or younger", data_dir=data_dir)
    assert turned.group_names == ("over 35", "35 or younger")
    assert (turned.groups == 1 - usual.groups).all()
    with pytest.raises(UnknownName, match=r"There is no group 'over 36': did you mean 'over 35'\?"):
        load_dataset("german", reference="over 36", data_dir=data_dir)


def test_a_named_dataset_refuses_settings_for_own_files() -> None:
    with pytest.raises(InputError, match="brings its own label and groups: leave label out"):
        load_dataset("example", label="y")
    with pytest.raises(InputError, match="leave drop out"):
        load_dataset("example", drop=["merit"])


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"There is no dataset 'adlut': did you mean 'adult'\?"):
        load_dataset("adlut")


@pytest.mark.parametrize("name", DATASETS)
def test_the_encoder_knows_nothing_of_rows_it_was_not_fitted_on(name: str, request: pytest.FixtureRequest) -> None:
    folder = None if name == "example" else request.getfixturevalue("data_dir")
    dataset = load_dataset(name, data_dir=folder)
    split = split_rows(name, len(dataset), dataset.task.split, seed=1)
    before = TableEncoder().fit(dataset.features.iloc[split.train])
    changed = dataset.features.copy()
    elsewhere = np.concatenate([split.validation, split.test])
    for column in changed.columns:  # every cell outside the training part becomes that of one row
        changed.iloc[elsewhere, changed.columns.get_loc(column)] = changed[column].iloc[elsewhere[0]]
        if isinstance(changed[column].dtype, pd.CategoricalDtype):
            changed[column] = changed[column].cat.remove_unused_categories()
    after = TableEncoder().fit(changed.iloc[split.train])
    assert before.to_dict() == after.to_dict()
    encoded = before.transform(dataset.features.iloc[split.train])
    numbers = [i for i, name in enumerate(before.feature_names_) if "=" not in name]
    np.testing.assert_allclose(encoded[:, numbers].mean(axis=0, dtype=np.float64), 0, atol=1e-5)
    np.testing.assert_allclose(encoded[:, numbers].std(axis=0, dtype=np.float64), 1, atol=1e-4)


def assert_same(a, b) -> None:  # type: ignore[no-untyped-def]
    pd.testing.assert_frame_equal(a.features, b.features)
    for field in ("labels", "groups", "rows"):
        assert np.array_equal(getattr(a, field), getattr(b, field))
    assert (a.name, a.group_names, a.label_names, a.task) == (b.name, b.group_names, b.label_names, b.task)
