"""Whatever stands in a file of answers: it is taken in, or refused whole with one line, and the campaign goes on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import standin
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from apod.campaign import Campaign
from apod.campaign.transfer import records
from apod.errors import ApodError, InputError
from apod.testing import Place
from apod.testing.engines import GROUPS, Workshop

FUZZ = settings(
    max_examples=150, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
FIELDS = ("row", "id", "annotator", "outcome", "group", "kind", "purpose", "probability", "counted", "late", "question")
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from([*GROUPS, "cannot_tell", "audit", "gold", "records", "3", "1-2", "nan", "\ud800", "\x00", 10**400]),
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    workshop = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "trial.db.files"), standin.build)
    made = workshop.create(rows=40, budget=40)
    question = made.ask("anna")
    assert question is not None
    made.tell(question, GROUPS[0])
    yield made
    made.close()


def works(campaign: Campaign, folder: Path) -> None:
    """Everything that reads the answers."""
    campaign.status()
    campaign.owner.annotators()
    for suffix in ("csv", "parquet", "jsonl", "json"):
        campaign.owner.export(folder / f"out.{suffix}")
    assert campaign.owner.verify_log().ok


def taken_in_or_refused(campaign: Campaign, folder: Path, name: str, content: bytes) -> None:
    before = records(campaign)
    (folder / name).write_bytes(content)
    refusal = ""
    try:
        campaign.owner.import_(folder / name, annotator="a")
    except ApodError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert not any(group in refusal for group in GROUPS)
    assert records(campaign) == before or not refusal
    works(campaign, folder)


@FUZZ
@given(content=st.binary(max_size=60), suffix=st.sampled_from(["csv", "parquet", "jsonl", "json"]))
def test_bytes(campaign: Campaign, tmp_path: Path, content: bytes, suffix: str) -> None:
    taken_in_or_refused(campaign, tmp_path, f"in.{suffix}", content)


@FUZZ
@given(
    names=st.lists(st.sampled_from([*FIELDS, "", "more"]), min_size=1, max_size=6),
    rows=st.lists(st.lists(SCALARS, max_size=6), max_size=4),
    quote=st.booleans(),
)
def test_tables_of_text(
    campaign: Campaign, tmp_path: Path, names: list[str], rows: list[list[Any]], quote: bool
) -> None:
    lines = [names, *rows]
    mark = '"' if quote else ""
    text = "\n".join(",".join(f"{mark}{cell}{mark}" for cell in line) for line in lines)
    taken_in_or_refused(campaign, tmp_path, "in.csv", text.encode(errors="surrogatepass"))


@FUZZ
@given(rows=st.lists(JSON | st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8), max_size=4))
def test_json_lines(campaign: Campaign, tmp_path: Path, rows: list[Any]) -> None:
    taken_in_or_refused(campaign, tmp_path, "in.jsonl", "\n".join(map(json.dumps, rows)).encode())


COLUMNS: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.binary(max_size=4), min_size=2, max_size=2),
    st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=2, max_size=2),
    st.lists(st.floats(), min_size=2, max_size=2),
    st.lists(st.integers(-5, 50), min_size=2, max_size=2),
    st.lists(st.sampled_from([*GROUPS, "", "x"]), min_size=2, max_size=2),
    st.lists(st.none() | st.booleans(), min_size=2, max_size=2),
    st.lists(st.datetimes(), min_size=2, max_size=2),
)


@FUZZ
@given(columns=st.dictionaries(st.sampled_from([*FIELDS, "more"]), COLUMNS, max_size=6))
def test_parquet_of_any_types(campaign: Campaign, tmp_path: Path, columns: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer)
    taken_in_or_refused(campaign, tmp_path, "in.parquet", buffer.getvalue())


def task(**changed: Any) -> dict[str, Any]:
    """A task of Label Studio as it should be, with some parts of it changed."""
    choice = {"type": "choices", "from_name": "group", "value": {"choices": [changed.pop("choice", GROUPS[0])]}}
    data = {"row": changed.pop("row", 7), "id": changed.pop("id", None), "question": changed.pop("question", None)}
    annotation = {
        "completed_by": changed.pop("completed_by", "a"),
        "was_cancelled": changed.pop("was_cancelled", False),
        "result": changed.pop("result", [choice]),
        "apod": changed.pop("apod", {"kind": "records", "counted": True, "late": False}),
    }
    meta = changed.pop("meta", {"purpose": "training", "probability": 0.5})
    return {"data": data, "meta": meta, "annotations": [annotation]} | changed


PARTS = {
    "choice": JSON, "row": JSON, "id": JSON, "question": JSON, "was_cancelled": JSON, "result": JSON,
    "completed_by": JSON | st.fixed_dictionaries({"email": JSON}), "annotations": JSON, "data": JSON,
    "apod": JSON | st.fixed_dictionaries({}, optional={"kind": JSON, "counted": JSON, "late": JSON, "question": JSON}),
    "meta": JSON | st.fixed_dictionaries({}, optional={"purpose": JSON, "probability": JSON}),
}  # fmt: skip


@FUZZ
@given(changed=st.lists(st.fixed_dictionaries({}, optional=PARTS), min_size=1, max_size=3))
def test_label_studio_tasks(campaign: Campaign, tmp_path: Path, changed: list[dict[str, Any]]) -> None:
    taken_in_or_refused(campaign, tmp_path, "in.json", json.dumps([task(**parts) for parts in changed]).encode())


MALFORMED: dict[str, Any] = {
    "a list in place of a kind": task(apod={"kind": ["records"]}),
    "a table in place of a kind": task(apod={"kind": {}, "counted": 1}),
    "a text in place of counted": task(apod={"counted": "perhaps"}),
    "a number in place of late": task(apod={"late": 17}),
    "a text in place of apod": task(apod="records"),
    "a probability that is text": task(meta={"probability": "often"}),
    "a probability above one": task(meta={"probability": 1.5}),
    "a probability that is no number": task(meta={"probability": float("nan")}),
    "a purpose that is a list": task(meta={"purpose": ["audit"]}),
    "a list in place of meta": task(meta=[1]),
    "a number in place of a task": 3,
    "a text in place of the annotations": task(annotations="x"),
    "a number in place of an annotation": task(annotations=[4]),
    "a text in place of the result": task(result="x"),
    "a number in place of an item": task(result=[4]),
    "a list in place of the value": task(result=[{"type": "choices", "value": []}, {"type": "choices", "value": [1]}]),
    "a choice that is a number": task(choice=1),
    "a choice that is a table": task(choice={}),
    "an annotator that is a list": task(completed_by=["a"]),
    "an annotator of control characters": task(completed_by="a\x1b[31m"),
    "a text in place of cancelled": task(was_cancelled="no"),
    "a question that is a table": task(question={"id": 1}),
    "an id that is a table": task(id={}, row=None),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_task_is_refused_with_the_whole_file(campaign: Campaign, tmp_path: Path, case: str) -> None:
    before = records(campaign)
    (tmp_path / "in.json").write_text(json.dumps([task(row=3), MALFORMED[case]]))
    with pytest.raises(InputError) as caught:
        campaign.owner.import_(tmp_path / "in.json")
    assert "\n" not in str(caught.value)
    assert records(campaign) == before
    works(campaign, tmp_path)


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_json_nested_too_deeply_is_refused_in_a_line(campaign: Campaign, tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"in.{suffix}").write_text("[" * 100_000)
    with pytest.raises(InputError, match="nothing was imported"):
        campaign.owner.import_(tmp_path / f"in.{suffix}", annotator="a")


def test_a_row_with_one_cell_more_than_the_header_shifts_nobodys_answer(campaign: Campaign, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"row,group\n5,7,{GROUPS[0]}\n")
    with pytest.raises(InputError, match="3 cells under 2 column names"):
        campaign.owner.import_(tmp_path / "in.csv", annotator="a")
