"""The notebooks of the documentation run from top to bottom, as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))


def cells(page: Path) -> list[str]:
    return re.findall(r"^```\{code-cell\} ipython3\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_there_are_three() -> None:
    assert [page.stem for page in NOTEBOOKS] == ["campaign", "figures", "own-model"]


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_every_cell_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    names = {"__name__": page.stem}
    found = cells(page)
    assert len(found) > 4
    for number, cell in enumerate(found, start=1):
        exec(compile(cell, f"{page.name}, cell {number}", "exec"), names)
