"""Cells, column, group, file and people's names that would steer a terminal are shown as letters by every command."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apod.cli
from apod.campaign import Campaign
from apod.cli import main
from apod.data import make_example

SEQUENCES = (
    "\x1b]0;owned\x07",  # the window's title
    "\x1b[2J\x1b[H",  # an empty screen
    "\x1b]8;;https://evil.example\x1b\\",  # a link
    "\x1b[8m",  # invisible letters
    "\x9b31m",  # the same without ESC
    "\u202eelif",  # read from right to left
    "\u2066",
    "\u2028error: forged",
    "\rerror: forged",
    "\x08",
    "\x7f",
)
MARKUP = "[red]:bomb:[/red]"
NASTY = "".join(SEQUENCES) + MARKUP
BIDIRECTIONAL = f"\u202eelif\u2066{MARKUP}"  # names of groups may hold no control characters at all
GROUPS = (f"a{BIDIRECTIONAL}", f"b{BIDIRECTIONAL}")
COLUMN = f"age{NASTY}"
FILE = NASTY.replace("/", "")


class Screen(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, *arguments: object, status: int = 0, typed: str = "") -> str:
    """What a terminal gets to see of a command; none of it steers the terminal."""
    screen = Screen()
    for name, value in (("argv", ["apod", *map(str, arguments)]), ("stdout", screen), ("stderr", screen)):
        monkeypatch.setattr(f"sys.{name}", value)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    monkeypatch.setenv("COLUMNS", "4000")
    with pytest.raises(SystemExit) as ended:
        main()
    text = screen.getvalue()
    assert ended.value.code == status, text
    for sequence in SEQUENCES:
        assert sequence not in text
    assert "owned" not in text or "\\u001b]0;owned\\u0007" in text or "\\x1b]0;owned\\x07" in text
    return text


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    example = make_example(n=300, seed=5)
    frame = example.features.assign(
        hired=["yes" if label else "no" for label in example.labels],
        predicted=["yes" if label else "no" for label in example.labels],
        who=[GROUPS[code] for code in example.groups],
        name=[f"{number}{NASTY}" for number in range(300)],
    )
    frame[COLUMN] = [f"cell{NASTY}{number % 3}" for number in range(300)]
    path = tmp_path_factory.mktemp("hostile") / f"people{FILE}.parquet"
    frame.to_parquet(path, index=False)
    return path


def test_a_run_and_its_summary(monkeypatch: pytest.MonkeyPatch, table: Path, tmp_path: Path) -> None:
    out = tmp_path / f"out{FILE}"
    arguments = ["run", table, "--label", "hired", "--sensitive", "who", "--drop", "predicted,name", "--out", out]
    text = shown(monkeypatch, *arguments, "--budget", 8)
    assert MARKUP in text.split("balanced accuracy")[-1]  # in the table's rows, letter by letter
    assert "report: " in text


def test_a_person_at_the_terminal_sees_cells_and_choices(
    monkeypatch: pytest.MonkeyPatch, table: Path, tmp_path: Path
) -> None:
    arguments = ["run", table, "--label", "hired", "--groups", ",".join(GROUPS), "--drop", "who,predicted,name"]
    text = shown(monkeypatch, *arguments, "--budget", 8, "--out", tmp_path / "o", status=2, typed="1\n")
    assert "The input ended" in text
    assert text.count("\ncell") == 0
    assert "age\\u001b]0;owned\\u0007" in text
    assert "1 = a\\u202e" in text


def test_a_campaign_from_its_creation_to_its_export(
    monkeypatch: pytest.MonkeyPatch, table: Path, tmp_path: Path
) -> None:
    database, name = tmp_path / "c.db", f"hiring{MARKUP}"
    new = ["campaign", "new", database, table, "--label", "hired", "--groups", ",".join(GROUPS), "--id-column", "name"]
    new += ["--budget", 8, "--drop", "who,predicted", "--audit-share", 0, "--campaign", name]
    assert f"{name}: 8 answers" in shown(monkeypatch, *new)
    asked = shown(monkeypatch, "ask", database, "--annotator", f"maria{MARKUP}")
    assert "cell\\u001b]0;owned\\u0007" in asked
    assert "age\\u001b]0;owned\\u0007" in asked
    question = json.loads(shown(monkeypatch, "ask", database, "--annotator", f"maria{MARKUP}", "--json"))
    assert question["display"][COLUMN].startswith(f"cell{NASTY}")
    assert question["row_id"].endswith(NASTY)
    assert "Recorded" in shown(monkeypatch, "tell", database, question["id"], GROUPS[0])
    assert "groups: a\\u202e" in shown(monkeypatch, "status", database, "--annotators")
    target = tmp_path / f"answers{FILE}.csv"
    assert "1 answers" in shown(monkeypatch, "export", database, target)
    assert pd.read_csv(target)["group"].tolist() == [GROUPS[0]]
    for command in (("campaign", "list"), ("log", "show"), ("log", "verify"), ("access", "list")):
        shown(monkeypatch, *command, database)
    assert "0 added, 1 known before" in shown(monkeypatch, "import", database, target)


def test_an_audit(monkeypatch: pytest.MonkeyPatch, table: Path, tmp_path: Path) -> None:
    out = tmp_path / f"asked{FILE}.csv"
    audit = ["audit", table, "--label", "hired", "--prediction", "predicted", "--drop", "who"]
    drawn = shown(monkeypatch, *audit, "--groups", ",".join(GROUPS), "--draw", 80, "--out", out)
    assert "80 people to ask" in drawn
    asked, people = pd.read_csv(out), pd.read_parquet(table)["who"]
    asked["group"] = [people[row] for row in asked["row"]]
    asked.to_csv(out, index=False)
    text = shown(monkeypatch, *audit, "--groups", ",".join(GROUPS), "--answers", out)
    assert "a\\u202eelif" in text


def test_picked_ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "i.npy", np.array([f"{number}{NASTY}" for number in range(3)]))
    text = shown(monkeypatch, "select", tmp_path / "m.npy", "--ids", tmp_path / "i.npy", "-k", 2)
    assert text.count("\n") == 2
    assert text.count("\t") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", f"no{NASTY}.csv"),
        ("run", "adult", "--body", NASTY),
        ("status", f"no{NASTY}.db"),
        ("audit", f"no{NASTY}.csv", "--label", "a", "--prediction", "b"),
        ("select", f"no{NASTY}.npy"),
        ("figures", f"no{NASTY}"),
        ("campaign", "new", "a.db", "b.csv", "--label", "a", "--groups", "a,b", "--budget", 3, "--gold", NASTY),
        ("run", "adult", f"more{NASTY}"),
        (f"no{NASTY}",),
    ],
    ids=lambda arguments: arguments[0].split("\x1b")[0],
)
def test_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[object, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    text = shown(monkeypatch, *arguments, status=2)
    assert "rror" in text


def test_json_holds_no_control_character_and_reads_as_what_was_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Campaign.create(
        f"sqlite:///{tmp_path / 'c.db'}",
        np.eye(12, dtype=np.float32),
        np.array([0, 1] * 6),
        groups=list(GROUPS),
        budget=2,
        refit="demand",
    ):
        pass
    text = shown(monkeypatch, "status", tmp_path / "c.db", "--json")
    assert json.loads(text)["groups"] == list(GROUPS)
    assert text.rstrip("\n").isprintable()
    assert text.isascii()


def test_commands_print_through_one_place_only() -> None:
    folder, forbidden = Path(apod.cli.__file__).parent, []
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [
            node
            for node in tree.body
            if not (path.name == "shared.py" and getattr(node, "name", "") in ("echo", "echo_json"))
        ]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                writes = name == "print" or name.split(".")[-1] in ("echo", "secho", "style", "write", "print")
                if writes and name != "echo":
                    forbidden.append(f"{path.name}: {ast.unparse(node)}")
    assert forbidden == [
        "progress.py: self._console.print(table)",
        "progress_lines.py: console.print(plain(text, style), soft_wrap=True)",
    ]
