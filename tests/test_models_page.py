"""Every block of docs/models.md runs: LightGBM, XGBoost, CatBoost, a pipeline with text, a torch module, deployment."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
LARGE = {"XGBoost": "xgboost", "CatBoost": "catboost"}
"""Sections whose packages `make test-slow` installs."""


def sections() -> dict[str, str]:
    """The code of each section, by its heading; the first one has none."""
    parts = re.split(r"^## (.*)\n", PAGE.read_text(), flags=re.MULTILINE)
    code = {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))
    found = {name: "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)) for name, text in code.items()}
    return {name: text for name, text in found.items() if text}


@pytest.fixture(scope="module")
def start() -> dict[str, Any]:
    """What the first section leaves: X, y, s and the imports."""
    names: dict[str, Any] = {}
    exec(sections()[""], names)
    return names


def run(name: str, start: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the section leaves."""
    monkeypatch.chdir(folder)
    names = dict(start)
    for earlier in ("A pipeline with text", "Why did a decision change?"):  # imports and the classifier that is saved
        if name in ("A model in production", "Why did a decision change?", "Saving and deploying") and earlier != name:
            exec(sections()[earlier], names)
    exec(sections()[name], names)
    return names


@pytest.mark.parametrize("name", [name for name in sections() if name and name not in LARGE])
def test_the_block_runs(name: str, start: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(name, start, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_the_block_runs_with_a_large_package(
    name: str, start: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(LARGE[name], reason=f"{name} is not installed: `make test-slow` adds it where pip can")
    classifier = run(name, start, tmp_path, monkeypatch)["clf"]
    classifier.save(tmp_path / "one.apod")
    stored = pickle.loads(pickle.dumps(classifier.estimator_))  # noqa: S301  (as its owner would store it)
    loaded = type(classifier).load(tmp_path / "one.apod", estimator=stored)
    assert (loaded.predict(start["X"]) == classifier.predict(start["X"])).all()
