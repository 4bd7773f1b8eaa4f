"""Several sensitive attributes of one table: read apart, missing per cell, refused in a line where they are none."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod.cli.shared import group_names
from apod.data.dataset import UNKNOWN, Dataset, answer_code, answer_codes
from apod.data.load import load_data, with_attributes
from apod.data.named import make_example
from apod.data.own import FileColumns, load_file
from apod.errors import InputError

N = 60


def _table(path: Path, **columns: object) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "hired": np.arange(N) % 2,
            "skill": rng.standard_normal(N).round(3),
            "sex": np.where(rng.random(N) < 0.5, "f", "m"),
            "race": np.array(["Black", "White", "other"])[rng.integers(0, 3, N)],
        }
    ).assign(**columns)
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def two(tmp_path: Path) -> Dataset:
    return load_file(_table(tmp_path / "people.csv"), FileColumns("hired", sensitive="sex,race"))


@pytest.mark.parametrize("sizes", [(2,), (2, 3), (2, 3, 4)])
def test_a_code_stands_for_the_groups_in_all_attributes_and_only_for_them(sizes: tuple[int, ...]) -> None:
    every = list(product(*(range(UNKNOWN, size) for size in sizes)))
    codes = [answer_code(one, sizes) for one in every]
    assert sorted(codes) == list(range(UNKNOWN, len(every) - 1))
    assert [answer_codes(code, sizes) for code in codes] == every
    if len(sizes) == 1:
        assert codes == [one[0] for one in every]


def test_attributes_are_read_apart_and_are_no_features(two: Dataset) -> None:
    assert (two.attribute, two.group_names) == ("sex", ("f", "m"))
    (race,) = two.further
    assert (race.name, sorted(race.names)) == ("race", ["Black", "White", "other"])
    assert list(two.features.columns) == ["skill"]
    assert [grouping.name for grouping in two.groupings] == ["sex", "race"]
    assert two.take(np.array([3, 1])).further[0].codes.tolist() == race.codes[[3, 1]].tolist()


def test_missing_is_per_cell(tmp_path: Path) -> None:
    race = np.array(["Black", "White", "other"], dtype=object)[np.arange(N) % 3]
    race[:6] = None
    data = load_file(_table(tmp_path / "people.csv", race=race), FileColumns("hired", known="sex,race"))
    assert data.known is not None
    assert (data.known != UNKNOWN).all()
    known = data.further[0].known
    assert known is not None
    assert (known == UNKNOWN).sum() == 6


def test_one_column_with_a_comma_in_its_name_is_one_attribute(tmp_path: Path) -> None:
    path = _table(tmp_path / "people.csv", **{"sex,race": np.where(np.arange(N) % 3, "a", "b")})
    data = load_file(path, FileColumns("hired", sensitive="sex,race"))
    assert data.attribute == "sex,race"
    assert not data.further


def test_references_are_named_per_attribute(tmp_path: Path) -> None:
    path = _table(tmp_path / "people.csv")
    data = load_file(path, FileColumns("hired", sensitive="sex,race", reference="f,Black"))
    assert [grouping.names[-1] for grouping in data.groupings] == ["f", "Black"]
    with pytest.raises(InputError, match="group"):
        load_file(path, FileColumns("hired", sensitive="sex,race", reference="nobody"))


def test_groups_that_nobody_recorded_are_named_per_attribute(tmp_path: Path) -> None:
    names, by_attribute = group_names(["gender=female,male", "origin=here,there,elsewhere"])
    path = _table(tmp_path / "people.csv")
    data = load_file(path, FileColumns("hired", group_names=names, groups_of=by_attribute, drop=("sex", "race")))
    assert [(one.name, one.names) for one in data.groupings] == [
        ("gender", ("female", "male")),
        ("origin", ("here", "there", "elsewhere")),
    ]
    assert (data.groups == UNKNOWN).all()
    assert data.known is None


@pytest.mark.parametrize(
    ("columns", "said", "match"),
    [
        ({"race": "White"}, {"sensitive": "sex,race"}, "'race' records 1 group"),
        ({}, {"sensitive": "sex,rase"}, "no column 'rase'"),
        ({}, {"sensitive": "sex,sex"}, "named twice"),
        ({}, {"sensitive": "sex,hired"}, "both the label and the sensitive"),
        ({"race": np.nan}, {"known": "sex,race"}, "'race' records 0 group"),
    ],
)
def test_attributes_that_cannot_be_used_are_refused_in_a_line(
    tmp_path: Path, columns: dict[str, object], said: dict[str, str], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        load_file(_table(tmp_path / "people.csv", **columns), FileColumns("hired", **said))


def test_two_attributes_that_say_the_same_are_refused(tmp_path: Path) -> None:
    sex = np.where(np.arange(N) % 2 == np.arange(N) % 3, "f", "m")
    path = _table(tmp_path / "people.csv", sex=sex, gender=np.where(sex == "f", "w", "x"))
    with pytest.raises(InputError, match="'sex' and 'gender' are the same"):
        load_file(path, FileColumns("hired", sensitive="sex,gender"))


@pytest.mark.parametrize("texts", [["sex=a,b", "b,c"], ["sex=a,b", "sex=c,d"], ["sex=a", "race=b,c"], ["=a,b"]])
def test_groups_of_several_attributes_have_a_form(texts: list[str]) -> None:
    with pytest.raises(InputError, match="--groups"):
        group_names(texts)


def test_a_named_dataset_takes_some_of_its_categories_as_attributes() -> None:
    example = make_example(200)
    kind = np.array(["a", "b", "c"])[np.arange(200) % 3]
    wide = example.features.assign(kind=pd.Series(kind, dtype="category"))
    from dataclasses import replace

    found = with_attributes(replace(example, features=wide), ["group", "kind"])
    assert found.further[0].names == ("b", "c", "a")
    assert "kind" not in found.features
    with pytest.raises(InputError, match="begins with 'group'"):
        with_attributes(example, ["kind"])
    with pytest.raises(InputError, match="merit"):
        load_data("example", FileColumns(None, sensitive="group,merit"))


def test_a_matrix_has_a_file_per_attribute(tmp_path: Path) -> None:
    rng, names = np.random.default_rng(0), ("x", "y", "sex", "race")
    values = (rng.random((N, 3)), np.arange(N) % 2, rng.integers(0, 2, N), rng.integers(0, 3, N))
    for name, value in zip(names, values, strict=True):
        np.save(tmp_path / f"{name}.npy", value)
    from apod.data.embeddings import load_embedded

    files = ",".join(str(tmp_path / f"{name}.npy") for name in ("sex", "race"))
    data = load_embedded(tmp_path / "x.npy", FileColumns(str(tmp_path / "y.npy"), sensitive=files))
    assert [grouping.name for grouping in data.groupings] == ["sex", "race"]
    assert sorted(data.further[0].names) == ["0", "1", "2"]
