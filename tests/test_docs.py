"""The documentation is true: every command in it exists, every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

import apod
from apod.cli import build_app
from apod.maxmin.select import SHARE
from apod.method.choice import GATE, MOST_ROUNDS
from apod.method.pod import DRAWN_ROWS
from apod.method.proxy import MOST_WEIGHTS
from apod.method.settings import PRESETS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """(page, line) of every `apod ...` line in a shell block."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(page.name, line) for line in lines if re.match(r"(?:\S+/)?apod\s", line)]
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_documented_command_has_its_options(page: str, line: str) -> None:
    words = shlex.split(line.split("|")[0], comments=True)[1:]
    group = typer.main.get_command(build_app())
    node, rest = group, words
    while rest and hasattr(node, "commands") and rest[0] in node.commands:
        node, rest = node.commands[rest[0]], rest[1:]
    assert node is not group, f"{page}: there is no command in {line!r}"
    known = {option for parameter in node.params for option in parameter.opts}
    assert {word.split("=")[0] for word in rest if word.startswith("--")} <= known | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_in_the_project_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text()
    for name in set(apod.__all__) - {"__version__"}:
        assert re.search(rf":: apod\.{name}$", text, flags=re.MULTILINE), name


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    for name in typer.main.get_command(build_app()).commands:  # type: ignore[attr-defined]
        assert f"apod {name}" in text


def test_the_page_on_the_default_method_states_the_numbers_of_the_code() -> None:
    default, page = PRESETS["heads"], " ".join((ROOT / "docs" / "method.md").read_text().split())
    for said in (
        f"at most {_short(100 * GATE.accuracy)} points of accuracy and {_short(100 * GATE.balanced)} of balanced",
        f"smaller with probability {_short(GATE.sure)}",
        f"clear (probability {_short(GATE.clear)})",
        f"finds {_short(100 * SHARE)} % of the people of that label",
        f"| {default.epochs} a round, and at least {default.head_steps} steps for the first head",
        f"Of more than {MOST_ROUNDS} rounds every second is kept",
        f"draws {DRAWN_ROWS:,} of the pool's people",
        f"of more than {MOST_WEIGHTS - 1:,} encoded columns",
    ):
        assert said in page


def _short(number: float) -> str:
    return f"{number:g}".removeprefix("0")
