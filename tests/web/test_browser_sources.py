"""The pages' sources: every text in one place, data never as markup, nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import apod

WEB = Path(apod.__file__).parent / "web"
SCRIPTS = sorted((WEB / "static").glob("*.js"))
PAGES = sorted((WEB / "pages").glob("*.html"))
TEXTS = "\n".join(path.read_text() for path in sorted((WEB / "static").glob("texts*.js")))
NAMES = set(re.findall(r"^  (\w+): ", TEXTS, re.MULTILINE))


def test_every_text_a_page_or_script_names_is_there() -> None:
    wanted: set[str] = set()
    for page in PAGES:
        wanted |= set(re.findall(r'data-(?:text|label|hint)="(\w+)"', page.read_text()))
    for script in SCRIPTS:
        wanted |= set(re.findall(r'words\("(\w+)"', script.read_text()))
    assert len(wanted) > 100
    assert wanted - NAMES == set()


def test_no_text_is_left_over() -> None:
    rest = "\n".join(path.read_text() for path in [*SCRIPTS, *PAGES] if not path.name.startswith("texts"))
    made = re.findall(r"`(\w*)\$\{[^}]*\}(\w*)`", rest)  # names put together, such as `ask_${kind}`
    built = re.compile("|".join(f"{start}.+{end}" for start, end in made if start or end))
    unused = {name for name in NAMES if not re.search(rf'["\']{name}["\']', rest) and not built.fullmatch(name)}
    assert unused == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_hold_no_sentences_and_no_code_of_their_own(page: Path) -> None:
    html = re.sub(r"<noscript>.*?</noscript>|<title>.*?</title>", "", page.read_text())
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=|javascript:", html) == []
    shown = " ".join(re.findall(r">([^<]*)<", html)).split()
    assert [word for word in shown if re.search(r"[A-Za-z]{2}", word)] in ([], ["apod"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_never_read_data_as_markup_and_call_nobody_else(script: Path) -> None:
    code = re.sub(r"//.*", "", script.read_text().replace("http://www.w3.org/2000/svg", ""))
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|https?://"
    assert re.findall(sinks, code) == []
    assert len(code.splitlines()) <= 400


@pytest.mark.parametrize("sheet", sorted((WEB / "static").glob("*.css")), ids=lambda path: path.name)
def test_style_sheets_load_nothing(sheet: Path) -> None:
    assert re.findall(r"@import|url\(", sheet.read_text()) == []
