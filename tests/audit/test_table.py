"""An audit of a user's table: draw, ask, audit, draw again; what is wrong is said, and no answer is lost."""

from __future__ import annotations

import csv
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from apod.audit.table import AuditColumns, crossed_answers, read_audit
from apod.cli import build_app
from apod.cli.audit import plan_text
from apod.errors import ApodError, InputError
from support.audits import NAMES, population


@pytest.fixture
def file(tmp_path: Path) -> Path:
    people = population(1500)
    frame = pd.DataFrame(people["x"], columns=[f"x{i}" for i in range(6)])
    frame["hired"] = np.where(people["labels"] == 1, "yes", "no")
    frame["old"], frame["new"] = people["before"], np.where(people["after"] == 1, 0.9, 0.2)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_draw_ask_audit_and_draw_again_from_files(file: Path, tmp_path: Path) -> None:
    truth = population(1500)["groups"]
    said = AuditColumns("hired", ("old", "new"), group_names=NAMES)
    drawn = read_audit(file, said).draw(100)
    assert len(drawn) == drawn["row"].nunique() == 100
    drawn["group"] = np.array(NAMES)[truth[drawn["row"]]]
    drawn.to_csv(tmp_path / "asked.csv", index=False)
    table = read_audit(file, said, tmp_path / "asked.csv")
    found = table.audit()
    assert (found.drawn, found.known, found.silent) == (100, 0, 0)
    assert set(found.to_dict()["predictions"]) == {"old", "new"}
    again = table.draw(40)
    assert len(again) == again["row"].nunique() == 140
    assert set(drawn["row"]) < set(again["row"])
    assert (again["group"] == "").sum() == 40
    code = population(1500)["labels"] * 4 + population(1500)["before"] * 2 + population(1500)["after"]
    for row, chance in zip(again["row"], again["draw_probability"], strict=True):
        alike = code == code[row]
        assert chance == pytest.approx(alike[again["row"]].sum() / alike.sum())


def test_the_seed_decides_the_draw(file: Path) -> None:
    said = AuditColumns("hired", ("old",), group_names=NAMES)
    one, same, other = (read_audit(file, said, seed=seed).draw(30) for seed in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": "hire"}, "did you mean 'hired'"),
        ({"predictions": ("x0",)}, "neither 0/1 nor probabilities"),
        ({"predictions": ("old", "old")}, "two different ones"),
        ({"group_names": None}, "name the groups"),
        ({"proxies": {"a": "x0"}}, "between 0 and 1"),
        ({"proxies": {"z": "new"}}, "of two groups one will do"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_a_line(file: Path, changes: dict, message: str) -> None:
    said = AuditColumns(**({"label": "hired", "predictions": ("old",), "group_names": NAMES} | changes))
    with pytest.raises(ApodError, match=message):
        read_audit(file, said).audit()


def test_answers_of_a_strange_group_are_refused_without_naming_it(file: Path, tmp_path: Path) -> None:
    pd.DataFrame({"row": [3, 4], "group": ["a", "secret"]}).to_csv(tmp_path / "asked.csv", index=False)
    with pytest.raises(InputError, match="1 answers name none of the groups") as caught:
        read_audit(file, AuditColumns("hired", ("old",), group_names=NAMES), tmp_path / "asked.csv")
    assert "secret" not in str(caught.value)


@pytest.fixture
def asked(file: Path, tmp_path: Path) -> Path:
    """People drawn and answered, in a file."""
    drawn = read_audit(file, AuditColumns("hired", ("old",), group_names=NAMES)).draw(20)
    drawn["group"] = np.array(NAMES)[population(1500)["groups"][drawn["row"]]]
    drawn.to_csv(tmp_path / "asked.csv", index=False)
    return tmp_path / "asked.csv"


def run_audit(file: Path, *more: object) -> Result:
    arguments = [file, "--label", "hired", "--prediction", "old", "--groups", ",".join(NAMES), *more]
    return CliRunner().invoke(build_app(), ["audit", *map(str, arguments)])


def test_groups_that_are_formulas_to_a_spreadsheet_are_written_as_text_and_read_back(
    file: Path, tmp_path: Path
) -> None:
    names = ("=1+1", "@b")
    said = AuditColumns("hired", ("old",), group_names=names)
    truth = np.array(names)[population(1500)["groups"]]
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    drawn = read_audit(file, said).draw(20)
    drawn.assign(group=truth[drawn["row"]]).to_csv(first, index=False)
    command = [file, "--label", "hired", "--prediction", "old", "--groups", ",".join(names), "--answers", first]
    written = CliRunner().invoke(build_app(), ["audit", *map(str, [*command, "--draw", 5, "--out", second])])
    assert written.exit_code == 0
    with second.open(newline="") as opened:
        cells = [cell for line in csv.reader(opened) for cell in line]
    assert not [cell for cell in cells if cell[:1] in "=@" and cell]
    assert {"'=1+1", "'@b"} <= set(cells)
    again = read_audit(file, said, second)
    rows = drawn["row"].to_numpy()
    assert [names[code] for code in again.groups[rows]] == truth[rows].tolist()
    assert (again.groups >= 0).sum() == 20


def test_a_draw_never_overwrites_answers(file: Path, asked: Path) -> None:
    before = asked.read_bytes()
    done = run_audit(file, "--draw", 10, "--out", asked)
    assert isinstance(done.exception, InputError)
    assert "pass it as --answers, or choose another --out" in str(done.exception)
    assert asked.read_bytes() == before
    assert run_audit(file, "--draw", 10, "--answers", asked, "--out", asked).exit_code == 0
    answers, after = pd.read_csv(BytesIO(before)), pd.read_csv(asked)
    assert len(after) == 30
    kept = answers.merge(after, on=["row", "group"])
    assert len(kept) == 20
    assert asked.stat().st_mode & 0o777 == 0o600


def test_a_draw_keeps_answers_of_people_who_were_not_drawn(file: Path, asked: Path) -> None:
    frame = pd.read_csv(asked)
    frame.loc[0, "draw_probability"] = np.nan  # known, but not by a draw: the next draw does not list them
    frame.to_csv(asked, index=False)
    before = asked.read_bytes()
    done = run_audit(file, "--draw", 10, "--answers", asked, "--out", asked)
    assert "1 answers that would be lost" in str(done.exception)
    assert asked.read_bytes() == before


def test_a_draw_overwrites_a_list_nobody_answered_and_no_other_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.csv"
    for _ in range(2):
        assert run_audit(file, "--draw", 10, "--out", out).exit_code == 0
    before = file.read_bytes()
    assert "no list of people to ask" in str(run_audit(file, "--draw", 10, "--out", file).exception)
    assert file.read_bytes() == before


@pytest.mark.parametrize("wrong", [("--draw", -5), ("--within", -1), ("--within", 0), ("--within", "nan")])
def test_numbers_that_mean_nothing_are_refused(file: Path, asked: Path, wrong: tuple, tmp_path: Path) -> None:
    done = run_audit(file, "--answers", asked, "--out", tmp_path / "more.csv", *wrong)
    assert isinstance(done.exception, ApodError)
    assert str(wrong[1]) in str(done.exception)
    assert done.stdout == ""
    assert not (tmp_path / "more.csv").exists()


def test_a_plan_never_asks_more_people_than_are_left() -> None:
    assert "about 300 more" in plan_text(295, 0.05, 400)
    assert "about 297 more" in plan_text(295, 0.05, 297)


def test_a_column_of_weights_weighs_the_audit_and_is_no_feature(file: Path) -> None:
    frame, people = pd.read_csv(file), population(1500)
    frame["w"] = 1.0 + people["groups"]
    frame["group"] = np.array(NAMES)[people["groups"]]
    frame.to_csv(file, index=False)
    table = read_audit(file, AuditColumns("hired", ("old",), weight="w"))
    assert table.described["weight"] == "w"
    assert "w" not in table.described["features"]
    assert "w" not in table.people_to_ask(0).columns
    found = table.audit().views["old"].groups
    heavy = people["groups"] == 1
    share = found["b"]["people"].value
    assert share == pytest.approx(1500 * 2 * heavy.sum() / (1500 + heavy.sum()), rel=1e-3)
    frame["w"] = np.where(frame.index == 3, -1, 1)
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match="Column 'w' has 1 negative weights: give every row a number from 0 up"):
        read_audit(file, AuditColumns("hired", ("old",), weight="w"))


@pytest.fixture
def two_attributes(file: Path) -> Path:
    frame, rng = pd.read_csv(file), np.random.default_rng(2)
    frame["sex"] = np.array(NAMES)[population(1500)["groups"]]
    frame["race"] = np.array(["x", "y", "z"])[(rng.random(1500) < 0.4).astype(int) + (rng.random(1500) < 0.01)]
    frame.loc[rng.random(1500) > 0.25, ["sex", "race"]] = None
    frame.to_csv(file, index=False)
    return file


def test_several_attributes_are_audited_alone_and_crossed(two_attributes: Path, tmp_path: Path) -> None:
    command = [two_attributes, "--label", "hired", "--prediction", "old", "--group", "sex,race", "--json"]
    found = CliRunner().invoke(build_app(), ["audit", *map(str, command), "--report", str(tmp_path / "page.html")])
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    frame = pd.read_csv(two_attributes)
    cells = (frame["sex"] + ", " + frame["race"]).value_counts()
    few = sorted(cells.index[cells < 5])
    assert few
    assert sorted(told["too_few_answers"]) == few
    assert set(told["attributes"]) == {"sex", "race"}
    assert set(told["intersections"]["told"]) == set(cells.index) - set(few)
    alone = read_audit(two_attributes, AuditColumns("hired", ("old",), "sex", drop=("race",))).audit()
    assert (
        told["attributes"]["sex"]["predictions"]["old"]["gap"]["value"]
        == alone.to_dict()["predictions"]["old"]["gap"]["value"]
    )
    assert {path.name for path in tmp_path.glob("*.html")} == {
        "page-sex.html", "page-race.html", "page-intersections.html",
    }  # fmt: skip


def test_what_an_audit_does_for_one_attribute_is_refused_for_several(two_attributes: Path) -> None:
    command = [two_attributes, "--label", "hired", "--prediction", "old", "--group", "sex,race", "--draw", 5]
    refused = CliRunner().invoke(build_app(), ["audit", *map(str, command)])
    assert isinstance(refused.exception, InputError) or "one attribute" in refused.output


def test_an_intersection_is_known_where_every_attribute_is() -> None:
    crossed = crossed_answers([pd.Series(["f", None, " m "]), pd.Series(["x", "y", "y"])])
    assert crossed.tolist() == ["f, x", None, "m, y"]
