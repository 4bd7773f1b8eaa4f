"""Embeddings from .npy files and Parquet folders: the same people either way, and one clear line for every bad file."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from apod.campaign import Campaign
from apod.cli import main
from apod.data import blocks
from apod.data.embeddings import load_embedded
from apod.data.files import read_table
from apod.data.own import FileColumns
from apod.errors import InputError

ROWS, WIDTH = 900, 5


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    labels = (matrix[:, 0] + rng.standard_normal(ROWS) > 0).astype(np.int64)
    groups = np.where(matrix[:, 1] > 0, "a", "b")
    for name, array in (("m", matrix), ("y", labels), ("g", groups)):
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path, matrix, labels, groups


def parquet_folder(people, files=3, lists=False):
    folder, matrix, labels, groups = people
    frame = pd.DataFrame(matrix).add_prefix("e") if not lists else pd.DataFrame({"e": list(matrix)})
    frame = frame.assign(hired=np.where(labels, "yes", "no"), sex=groups, id=[f"p{row}" for row in range(ROWS)])
    where = folder / "table"
    where.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ROWS), files)):
        path = where / f"part-{number}.parquet"
        if lists:
            import pyarrow as pa
            from pyarrow import parquet

            fixed = pa.FixedSizeListArray.from_arrays(pa.array(matrix[rows].ravel()), WIDTH)
            rest = pa.Table.from_pandas(frame.iloc[rows].drop(columns="e"), preserve_index=False)
            parquet.write_table(rest.append_column("e", fixed), path)
        else:
            frame.iloc[rows].to_parquet(path, index=False)
    return where


def test_a_matrix_and_its_files_are_a_dataset(people):
    folder, matrix, labels, groups = people
    said = FileColumns(str(folder / "y.npy"), str(folder / "g.npy"), reference="b")
    data = load_embedded(folder / "m.npy", said)
    np.testing.assert_array_equal(data.features.to_numpy(), matrix)
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(np.array(data.group_names)[data.groups], groups)
    assert data.group_names == ("a", "b")
    base = data.features.to_numpy()
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert type(base).__name__ == "mmap"  # never loaded


@pytest.mark.parametrize("lists", [False, True])
def test_a_parquet_folder_is_the_same_people(people, lists):
    _, matrix, labels, groups = people
    data = load_embedded(parquet_folder(people, lists=lists), FileColumns("hired", "sex", drop=("id",)))
    np.testing.assert_array_equal(data.features.to_numpy(), matrix)
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(np.array(data.group_names)[data.groups], groups)


def test_a_folder_of_npy_parts_is_one_matrix(people):
    folder, matrix, *_ = people
    (folder / "parts").mkdir()
    for number, part in enumerate(np.array_split(matrix, 4)):
        np.save(folder / "parts" / f"m-{number}-of-4.npy", part)
    data = load_embedded(folder / "parts", FileColumns(str(folder / "y.npy"), group_names=("a", "b")))
    np.testing.assert_array_equal(data.features.to_numpy(), matrix)


def test_a_parquet_folder_is_read_as_one_table_too(people):
    where = parquet_folder(people)
    frame = read_table(where)
    np.testing.assert_array_equal(frame[[f"e{i}" for i in range(WIDTH)]].to_numpy(), people[1])
    assert frame["id"].tolist() == [f"p{row}" for row in range(ROWS)]


BAD = {
    "Say which .npy file holds the labels": lambda p: load_embedded(p / "m.npy", FileColumns(None)),
    "no named columns to drop": lambda p: load_embedded(p / "m.npy", FileColumns("y.npy", drop=("x",))),
    r"There is no file .*none\.npy": lambda p: load_embedded(p / "m.npy", FileColumns(str(p / "none.npy"))),
    r"has shape \(900, 5\) and the embeddings 900 rows": lambda p: load_embedded(
        p / "m.npy", FileColumns(str(p / "m.npy"))
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_what_a_matrix_lacks_is_said(people, message):
    with pytest.raises(InputError, match=message) as caught:
        BAD[message](people[0])
    assert "\n" not in str(caught.value)


def test_labels_of_another_pool_are_refused(people):
    folder, *_ = people
    np.save(folder / "y.npy", np.zeros(899))
    with pytest.raises(InputError, match=r"y\.npy has shape \(899,\) and the embeddings 900 rows: pass one value"):
        load_embedded(folder / "m.npy", FileColumns(str(folder / "y.npy")))


def test_a_bad_parquet_folder_is_refused(people):
    where = parquet_folder(people)
    said = FileColumns("hired", "sex")
    with pytest.raises(InputError, match="no column 'nobody'"):
        load_embedded(where, FileColumns("nobody"))
    part = where / "part-1.parquet"
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="is not a Parquet file"):
        load_embedded(where, said)
    part.unlink()
    with pytest.raises(InputError, match=r"lacks part 1 \(1 missing\)"):
        load_embedded(where, said)
    with pytest.raises(InputError, match=r"lacks part 1 \(1 missing\)"):
        read_table(where)
    pd.DataFrame({"hired": ["yes"], "sex": ["a"], "e0": [1.0]}).to_parquet(part, index=False)
    for read in (lambda: load_embedded(where, said), lambda: read_table(where)):
        with pytest.raises(InputError, match="has other columns than part-0"):
            read()


def test_text_and_gaps_in_an_embedding_are_named(people, tmp_path):
    frame = pd.DataFrame({"y": [0, 1, 1], "e0": [1.0, None, 2.0], "city": ["x", "y", "z"]})
    (tmp_path / "t").mkdir()
    frame.to_parquet(tmp_path / "t" / "0.parquet", index=False)
    with pytest.raises(InputError, match=r"Column 'city' of t is .*string, no number: drop it"):
        load_embedded(tmp_path / "t", FileColumns("y"))
    with pytest.raises(InputError, match="Column 'e0' has no value in row 1"):
        load_embedded(tmp_path / "t", FileColumns("y", drop=("city",)))


@pytest.mark.parametrize("limit", [100, 10**6])
def test_a_run_from_a_matrix_and_from_parquet_asks_the_same_people(people, monkeypatch, limit, capsys):
    monkeypatch.setattr(blocks, "LARGE", limit)
    monkeypatch.setattr(blocks, "ROUND_STEPS", 8)
    monkeypatch.setattr(blocks, "BLOCK", 8192)
    folder, *_ = people
    where = parquet_folder(people)
    found = []
    for number, source in enumerate(
        (
            [str(folder / "m.npy"), "--label", str(folder / "y.npy"), "--sensitive", str(folder / "g.npy")],
            [str(where), "--label", "hired", "--sensitive", "sex"],
        )
    ):
        more = [
            "--body",
            "precomputed",
            "--budget",
            "6",
            "--strengths",
            "0.5",
            "--out",
            str(folder / f"out{number}"),
            "--json",
        ]
        monkeypatch.setattr("sys.argv", ["apod", "run", *source, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        result = json.loads(capsys.readouterr().out)
        found.append(([answer["row"] for answer in result["answers"]], result["selected"]["accuracy"]))
        assert result["settings"]["steps_per_round"] == (8 if limit == 100 else 6 * 3)
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [100, 10**6])
def test_a_campaign_from_a_matrix_asks_and_gives_a_classifier(people, monkeypatch, limit):
    monkeypatch.setattr(blocks, "LARGE", limit)
    monkeypatch.setattr(blocks, "ROUND_STEPS", 8)
    folder, matrix, labels, groups = people
    campaign = Campaign.create_from_table(
        folder / "c.db",
        folder / "m.npy",
        label=str(folder / "y.npy"),
        groups=["a", "b"],
        budget=8,
        engine_options={"preset": "heads", "strengths": [0.5]},
        refit="demand",
    )
    with campaign:
        asked = []
        while (question := campaign.ask()) is not None:
            asked.append(question.row)
            campaign.tell(question, str(groups[question.row]))
        assert len(set(asked)) == 8
        assert (campaign.classifier().predict(matrix) == labels).mean() > 0.6
    assert bool(list((folder).rglob("coverage-*.state"))) == (limit == 100)
