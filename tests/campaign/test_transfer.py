"""Answers go out and come back the same, in every format."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import standin

from apod.campaign import Campaign, labelling_config
from apod.campaign.errors import CampaignFinished, UnknownGroup
from apod.campaign.formats import Record, read_gold
from apod.campaign.transfer import records
from apod.errors import BudgetError, InputError
from apod.testing import Place
from apod.testing.engines import GROUPS, Workshop, answer_all

ODD_GROUPS = ("NA", 'None, "or" 0 🦄')
IDS = [f'{row:03} "x", 👋' for row in range(200)]
FILES = ["answers.csv", "answers.parquet", "answers.jsonl", "answers.json"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Workshop]:
    found = Workshop(Place(f"sqlite:///{tmp_path}/other.db", tmp_path / "other.files"), standin.build)
    yield found
    for campaign in found.opened:
        campaign.close()


def told(campaign: Campaign) -> list[Record]:
    return [replace(record, question=None, asked_at=None, answered_at=None) for record in records(campaign)]


def eventful(workshop: Workshop) -> Campaign:
    """Every sort of answer there is."""
    settings = {"overlap": 2, "budget": 12, "lease_seconds": 60, "gold": {3: "NA"}, "gold_every": 10**9}
    campaign = workshop.create(groups=ODD_GROUPS, ids=IDS, **settings)
    for step in range(3):
        for name in ("anna", 'bob, "the" builder'):
            question = campaign.ask(name)
            assert question is not None
            kind = ("perceived", "self_reported", "records")[step]
            campaign.tell(question, ODD_GROUPS[step % 2], kind=kind)
            if step == 2:
                campaign.annotator().correct(question, ODD_GROUPS[1])
    campaign.tell(campaign.ask("anna"), "cannot_tell")  # type: ignore[arg-type]
    campaign.tell(campaign.ask("anna"), "declined")  # type: ignore[arg-type]
    late = campaign.ask("carl")
    workshop.pass_time(61)
    assert campaign.ask("dora").row == late.row  # type: ignore[union-attr]
    campaign.tell(late, "NA")  # type: ignore[arg-type]
    campaign.tell(campaign.ask("dora"), "NA")  # type: ignore[arg-type]
    return campaign


@pytest.mark.parametrize("name", FILES)
def test_what_goes_out_comes_back_the_same(on_sqlite: Workshop, elsewhere: Workshop, tmp_path: Path, name: str) -> None:
    campaign = eventful(on_sqlite)
    assert campaign.owner.export(tmp_path / name).answers == len(told(campaign)) == 10
    other = elsewhere.create(groups=ODD_GROUPS, ids=IDS, overlap=2, budget=12)
    report = other.owner.import_(tmp_path / name)
    assert (report.added, report.repeated, report.conflicts) == (10, 0, ())
    assert told(other) == told(campaign)
    assert other.owner.answers() == campaign.owner.answers()
    assert other.status().answered == campaign.status().answered
    assert (other.status().late, other.status().uncounted) == (1, 1)
    again = other.owner.import_(tmp_path / name)
    assert (again.added, again.repeated) == (0, 10)
    assert told(other) == told(campaign)
    assert other.owner.verify_log().ok


FORMULAS = ["=HYPERLINK(1)", "+1", "-2", "@SUM(A1)", "\t=1", "\r=1", "'=1", "a\rb", "a\nb", " x "]


@pytest.mark.parametrize("name", FILES)
def test_ids_groups_and_annotators_that_are_formulas_to_a_spreadsheet_come_back_the_same(
    on_sqlite: Workshop, elsewhere: Workshop, tmp_path: Path, name: str
) -> None:
    rules: dict[str, Any] = {"rows": 10, "groups": ("=1+1", "@b"), "ids": FORMULAS, "budget": 10}
    campaign = on_sqlite.create(**rules)
    answer_all(campaign, "-maria", lambda row: ("=1+1", "@b")[row % 2])
    campaign.owner.export(tmp_path / name)
    other = elsewhere.create(**rules)
    assert other.owner.import_(tmp_path / name).added == 10
    assert told(other) == told(campaign)
    if name.endswith(".csv"):
        with (tmp_path / name).open(newline="") as file:
            cells = [cell for line in csv.reader(file) for cell in line]
        assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@")]


@pytest.mark.parametrize("name", FILES)
def test_a_campaign_recognises_its_own_export(on_sqlite: Workshop, tmp_path: Path, name: str) -> None:
    campaign = eventful(on_sqlite)
    before = told(campaign)
    campaign.owner.export(tmp_path / name)
    assert campaign.owner.import_(tmp_path / name).added == 0
    assert told(campaign) == before


def test_an_import_is_taken_whole_or_not_at_all(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=5)
    path = tmp_path / "in.csv"
    for lines, error in (
        ([f"1,{GROUPS[0]}", "2,Mittelmass"], UnknownGroup),
        ([f"1,{GROUPS[0]}", f"999,{GROUPS[0]}"], InputError),
        ([f"1,{GROUPS[0]}", f"x,{GROUPS[0]}"], InputError),
        ([f"{row},{GROUPS[0]}" for row in range(6)], BudgetError),
        ([f"1,{GROUPS[0]}", f"-1,{GROUPS[0]}"], InputError),
    ):
        path.write_text("\n".join(["row,group", *lines]))
        with pytest.raises(error):
            campaign.owner.import_(path, annotator="a")
        assert campaign.status().answered == 0
    path.write_text(f"row,group\n1,{GROUPS[0]}\n")
    with pytest.raises(InputError, match=r"names no annotator: name one \(--annotator or annotator=\)"):
        campaign.owner.import_(path)


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
def test_a_file_without_the_column_of_answers_is_refused(on_sqlite: Workshop, tmp_path: Path, name: str) -> None:
    campaign = on_sqlite.create(ids=IDS)
    frame, path = pd.DataFrame({"id": IDS, "age": range(len(IDS))}), tmp_path / name
    {"csv": lambda: frame.to_csv(path, index=False), "parquet": lambda: frame.to_parquet(path),
     "jsonl": lambda: frame.to_json(path, orient="records", lines=True)}[path.suffix[1:]]()  # fmt: skip
    with pytest.raises(InputError, match="has no column `group`"):
        campaign.owner.import_(path, annotator="a")
    path = tmp_path / "declined.csv"
    path.write_text("row,outcome\n1,declined\n2,cannot_tell\n")  # answers without a group need none
    assert campaign.owner.import_(path, annotator="a").added == 2


def test_other_peoples_tables_need_an_id_and_a_group_only(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(ids=IDS, budget=5)
    frame = pd.DataFrame({"id": [IDS[4], IDS[9]], "group": [GROUPS[0], GROUPS[1]]})
    frame.to_csv(tmp_path / "in.csv", index=False)
    report = campaign.owner.import_(tmp_path / "in.csv", annotator="registry", kind="records")
    assert report.added == 2
    assert [(answer.row, answer.group) for answer in campaign.owner.answers()] == [(4, 0), (9, 1)]
    assert campaign.status().by_kind == {"records": 2}


def test_a_file_about_other_data_is_refused(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create(ids=IDS)
    pd.DataFrame({"row": [1], "id": [IDS[2]], "group": [GROUPS[0]]}).to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(InputError, match="other data"):
        campaign.owner.import_(tmp_path / "in.csv", annotator="a")


def test_different_answers_in_a_file_are_reported_and_not_taken(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask("a")
    assert question is not None
    campaign.tell(question, GROUPS[0])
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"row": question.row, "group": GROUPS[1], "annotator": "a"}))
    assert campaign.owner.import_(path).conflicts == (question.row,)
    assert [answer.group for answer in campaign.owner.answers()] == [0]


def test_imported_rows_are_not_asked_about_again(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(rows=12, budget=12)
    lines = [json.dumps({"row": row, "group": GROUPS[row % 2], "annotator": "a"}) for row in range(8)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    assert campaign.owner.import_(tmp_path / "in.jsonl").added == 8
    assert set(answer_all(campaign)) == {8, 9, 10, 11}
    assert campaign.status().model_answers > 0


def test_a_finished_campaign_imports_nothing(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    campaign.owner.finish()
    (tmp_path / "in.csv").write_text(f"row,group\n1,{GROUPS[0]}\n")
    with pytest.raises(CampaignFinished):
        campaign.owner.import_(tmp_path / "in.csv", annotator="a")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b"\xff\xfe\x00"),
        ("x.csv", b""),
        ("x.csv", b"a,b\n1,2\n"),
        ("x.jsonl", b"{"),
        ("x.jsonl", b"[1]\n"),
        ("x.json", b"{}"),
        ("x.json", b'[{"data": {}}]'),
        ("x.parquet", b"PAR1 no"),
        ("x.txt", b"?"),
        ("none.csv", None),
    ],
)
def test_files_that_cannot_be_read_are_said_in_one_line(
    on_sqlite: Workshop, tmp_path: Path, name: str, content: bytes | None
) -> None:
    campaign = on_sqlite.create()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        campaign.owner.import_(tmp_path / name, annotator="a")
    assert "\n" not in str(caught.value)
    assert campaign.status().answered == 0


def annotate_outside(path: Path, answers: list[object]) -> None:
    """What Label Studio does with a file of tasks: annotations of its own, none of our fields."""
    tasks = json.loads(path.read_text())
    assert len(tasks) == len(answers)
    for task, answer in zip(tasks, answers, strict=True):
        choice = {"type": "choices", "from_name": "group", "to_name": "case", "value": {"choices": [answer]}}
        task["annotations"] = [
            {
                "id": 7000 + task["id"],
                "completed_by": {"id": 3, "email": "anna@example.org"},
                "was_cancelled": answer is None,
                "result": [] if answer is None else [choice],
                "lead_time": 1.5,
            }
        ]
    path.write_text(json.dumps(tasks))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "label-studio"])
def test_a_format_goes_by_the_name_that_help_and_web_call_it(on_sqlite: Workshop, tmp_path: Path, form: str) -> None:
    campaign = on_sqlite.create(budget=6, ids=IDS)
    campaign.tell(campaign.ask("anna"), GROUPS[0])  # type: ignore[arg-type]
    path = tmp_path / "answers"
    assert campaign.owner.export(path, form).answers == 1
    assert campaign.owner.exported(form) == path.read_bytes()
    assert campaign.owner.import_(path, form).repeated == 1


def test_label_studio_tasks_go_out_and_their_annotations_come_in(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=6, ids=IDS)
    path = tmp_path / "tasks.json"
    report = campaign.owner.export(path, tasks=4)
    assert (report.answers, report.handed) == (0, 4)
    left = datetime.fromisoformat(report.until or "") - datetime.now(UTC)
    assert timedelta(days=13.9) < left < timedelta(days=14.1)
    assert campaign.status().pending == 4
    tasks = json.loads(path.read_text())
    assert len({task["data"]["row"] for task in tasks}) == 4
    assert all(task["data"]["text"] and task["annotations"] == [] for task in tasks)
    annotate_outside(path, [GROUPS[0], GROUPS[1], None, "cannot_tell"])
    taken = campaign.owner.import_(path)
    assert (taken.added, taken.skipped) == (3, 1)
    status = campaign.status()
    assert (status.answered, status.pending, status.cannot_tell) == (3, 0, 1)
    assert [report.name for report in campaign.owner.annotators() if report.answered] == ["anna@example.org"]
    cancelled = tasks[2]["data"]["row"]
    assert campaign.ask("b").row == cancelled  # type: ignore[union-attr]
    assert campaign.owner.import_(path).added == 0
    assert campaign.owner.verify_log().ok


def test_no_more_tasks_are_handed_out_than_the_budget_allows(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create(budget=30, lookahead=4)
    campaign.ask("a")
    campaign.owner.export(tmp_path / "tasks.json", tasks=100)
    assert len(json.loads((tmp_path / "tasks.json").read_text())) == 29
    assert campaign.annotator("b").turn().why == "wait"


def test_no_more_tasks_are_handed_out_than_were_asked_for(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create(budget=30, lookahead=4)
    report = campaign.owner.export(tmp_path / "tasks.json", tasks=6)
    assert report.handed == len(json.loads((tmp_path / "tasks.json").read_text())) == 6
    assert campaign.status().pending == 6


def test_the_labelling_configuration_is_valid_whatever_the_groups_are_called() -> None:
    tree = ElementTree.fromstring(labelling_config(['<a & "b">', "c'd"], guidelines='Look "twice" <b>'))
    assert [choice.get("value") for choice in tree.iter("Choice")] == ['<a & "b">', "c'd", "cannot_tell", "declined"]


def test_an_export_that_fails_leaves_the_old_file(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    with pytest.raises(InputError, match="format"):
        campaign.owner.export(tmp_path / "x.csv", format="excel")
    with pytest.raises(InputError):
        campaign.owner.export(tmp_path / "x.csv", tasks=3)
    assert list(tmp_path.glob("*.csv")) == []


@pytest.mark.parametrize("row", ["8.999", "8.5", "1e1", "8_0", "inf", "nan", "0x8"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json"])
def test_a_row_that_is_no_whole_number_is_refused_with_the_whole_file(
    on_sqlite: Workshop, tmp_path: Path, row: str, suffix: str
) -> None:
    campaign = on_sqlite.create()
    content = {
        "csv": f"row,group\n1,{GROUPS[0]}\n{row},{GROUPS[0]}\n",
        "jsonl": "\n".join(json.dumps({"row": number, "group": GROUPS[0]}) for number in (1, row)),
        "json": json.dumps([_task(number) for number in (1, row)]),
    }
    (tmp_path / f"in.{suffix}").write_text(content[suffix])
    with pytest.raises(InputError, match="`row` that is not a whole number"):
        campaign.owner.import_(tmp_path / f"in.{suffix}", annotator="a")
    assert campaign.status().answered == 0


def _task(row: object) -> dict[str, object]:
    choice = {"type": "choices", "from_name": "group", "to_name": "case", "value": {"choices": [GROUPS[0]]}}
    return {"data": {"row": row}, "annotations": [{"completed_by": "a", "result": [choice]}]}


def test_whole_numbers_with_a_point_are_rows(on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    (tmp_path / "in.csv").write_text(f"row,group\n8.0,{GROUPS[1]}\n")
    assert campaign.owner.import_(tmp_path / "in.csv", annotator="a").added == 1
    assert [(answer.row, answer.group) for answer in campaign.owner.answers()] == [(8, 1)]


def test_a_file_that_contradicts_itself_is_refused_and_blank_groups_are_empty(
    on_sqlite: Workshop, tmp_path: Path
) -> None:
    campaign = on_sqlite.create()
    path = tmp_path / "in.csv"
    path.write_text(f"row,group\n4,\n5,{GROUPS[0]}\n6,{GROUPS[1]}\n5,{GROUPS[1]}\n")
    with pytest.raises(InputError, match="Answers 2 and 4 of the file contradict each other about row 5"):
        campaign.owner.import_(path, annotator="a")
    assert campaign.status().answered == 0
    path.write_text(f'row,group\n4,\n5,{GROUPS[0]}\n6,"  "\n5,{GROUPS[0]}\n5,\n')
    report = campaign.owner.import_(path, annotator="a")
    assert (report.added, report.repeated, report.skipped, report.conflicts) == (1, 1, 3, ())
    assert [(answer.row, answer.group) for answer in campaign.owner.answers()] == [(5, 0)]


def test_known_answers_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text(f"row,group\n5,{GROUPS[0]}\n5,{GROUPS[1]}\n")
    with pytest.raises(InputError, match="two different groups for row 5"):
        read_gold(tmp_path / "gold.csv")


def annotated(campaign: Campaign, results: list[dict[str, object]], path: Path) -> Path:
    question = campaign.ask("maria")
    assert question is not None
    task = {"data": {"row": question.row}, "annotations": [{"completed_by": "maria", "result": results}]}
    path.write_text(json.dumps([task]))
    return path


def choices(*chosen: str, tag: str = "whatever") -> dict[str, object]:
    return {"type": "choices", "from_name": tag, "to_name": "anything", "value": {"choices": list(chosen)}}


def test_choices_are_found_whatever_the_tag_is_called(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=3)
    beside = [choices("blurred", tag="quality"), {"type": "textarea", "value": {"text": ["hm"]}}]
    path = annotated(campaign, [*beside, choices(GROUPS[1], tag="gender")], tmp_path / "t.json")
    report = campaign.owner.import_(path)
    assert (report.added, report.skipped, campaign.status().answered) == (1, 0, 1)


@pytest.mark.parametrize(
    "results",
    [
        [choices("somebody else")],
        [choices(GROUPS[0], GROUPS[1])],
        [choices(GROUPS[0], tag="a"), choices(GROUPS[1], tag="b")],
        [{"type": "textarea", "value": {"text": ["a text in place of a choice"]}}],
    ],
    ids=["unknown", "two in one tag", "two tags", "no choice"],
)
def test_an_annotation_without_one_clear_answer_refuses_the_whole_file(
    workshop: Workshop, tmp_path: Path, results: list[dict[str, object]]
) -> None:
    campaign = workshop.create(budget=3)
    path = annotated(campaign, results, tmp_path / "t.json")
    before = campaign.head()
    with pytest.raises(InputError, match=r"Task 1 of the file has .* nothing was imported"):
        campaign.owner.import_(path)
    assert campaign.head() == before
