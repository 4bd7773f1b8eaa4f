"""Files that are valid of their kind and still no table or matrix: one clear line each."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from apod.audit.table import AuditColumns, read_audit
from apod.campaign import Campaign
from apod.data import load_dataset
from apod.data.arrays import open_array
from apod.errors import InputError
from apod.maxmin import select

COLUMNS = {
    "bytes": pa.array([b"a", b"b"] * 30),
    "bytes that are no text": pa.array([b"\xff", b"\x00"] * 30, pa.large_binary()),
    "bytes of one length": pa.array([b"ab", b"cd"] * 30, pa.binary(2)),
    "bytes in a dictionary": pa.array([b"a", b"b"] * 30).dictionary_encode(),
    "lists": pa.array([[1], [2]] * 30),
    "records": pa.array([{"a": 1}, {"a": 2}] * 30),
    "maps": pa.array([[("a", 1)], [("b", 2)]] * 30, pa.map_(pa.string(), pa.int64())),
}


def refused(column: str) -> pytest.RaisesExc[InputError]:
    return pytest.raises(InputError, match=f"'{column}'")


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("column", ["feature", "label", "group"])
def test_a_parquet_column_of_no_numbers_and_no_text_is_refused_by_name(kind: str, column: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = {
        "x": rng.normal(size=60), "feature": rng.normal(size=60), "label": [0, 1] * 30, "group": ["a", "a", "b"] * 20,
    }  # fmt: skip
    parquet.write_table(pa.table({**table, column: COLUMNS[kind]}), tmp_path / "p.parquet")
    with refused(column):
        load_dataset(tmp_path / "p.parquet", label="label", sensitive="group")
    if column != "feature":
        with refused(column):
            read_audit(tmp_path / "p.parquet", AuditColumns("label", ("label",), group="group"))
        return
    rules = {"label": "label", "groups": ["a", "b"], "budget": 4, "sensitive": "group", "refit": "demand"}
    with refused(column):
        Campaign.create_from_table(tmp_path / "a.db", tmp_path / "p.parquet", **rules)
    Campaign.create_from_table(tmp_path / "b.db", tmp_path / "p.parquet", **rules, drop=["feature"]).close()


HEADERS = [
    "{", "[1, 2", "(" * 3000, "\x00\x01", "lambda: 0", "x = '" + "a" * 20_000,
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': ('a',)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': 8}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999999999)}",
    "{'descr': '<f8', 'fortran_order': 3, 'shape': (8,)}",
    "{'descr': None, 'fortran_order': False, 'shape': (8,)}",
    "{'descr': 'zz', 'fortran_order': False, 'shape': (8,)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (8,)}",
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)], ids=str)
@pytest.mark.filterwarnings("ignore")  # numpy's own about odd headers
def test_an_odd_header_of_an_array_is_refused_in_a_line(header: str, version: tuple[int, int], tmp_path: Path) -> None:
    text = header.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    path = tmp_path / "odd.npy"
    path.write_bytes(b"\x93NUMPY" + bytes(version) + length + text + b"\0" * 64)
    with pytest.raises(InputError) as caught:
        open_array(path, "embeddings")
    assert "\n" not in str(caught.value)


def test_an_empty_row_index_is_nobody_annotated(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).normal(size=(30, 3))
    np.save(tmp_path / "m.npy", matrix)
    for kind in (np.int64, np.float64):  # numpy.save of an empty list writes floats
        np.save(tmp_path / "none.npy", np.empty(0, dtype=kind))
        none = select(str(tmp_path / "m.npy"), str(tmp_path / "none.npy"), 3).to_dict()["picks"]
        assert none == select(str(tmp_path / "m.npy"), (), 3).to_dict()["picks"]
