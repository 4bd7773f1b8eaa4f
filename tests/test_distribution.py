"""What is published: an sdist and a wheel that work in an environment that holds nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import apod

ROOT = Path(__file__).resolve().parents[1]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=CLEAN, capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr or "Could not fetch" in done.stderr:
        pytest.skip("needs a package registry, which cannot be reached from here")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


def test_both_archives_hold_the_licence_and_every_file_the_package_reads(built: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    package = ROOT / "src"
    read = {
        path.relative_to(package).as_posix()
        for path in package.glob("apod/**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert read <= shipped
    assert any(name.endswith("LICENSE") for name in shipped)
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "src/apod/__init__.py"} <= names
    assert apod.__version__ in wheel.name
    assert apod.__version__ in source.name


def test_the_wheel_runs_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "--no-compile", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    command = python.parent / "apod"
    assert run(command, "--version", cwd=tmp_path).strip() == f"apod {apod.__version__}"
    run(command, "run", "example", "--budget", "12", "--out", "out", cwd=tmp_path)
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["apod_version"] == apod.__version__
    assert len(result["answers"]) == 12
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
