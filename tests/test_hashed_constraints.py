"""Constraints with hashes: pip installs exactly the files that a release was tested with, or nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tools" / "hashed_constraints.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hashed_constraints", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(**hashes: str) -> dict[str, Any]:
    """What pip reports of packages."""
    return {
        "install": [
            {
                "metadata": {"name": name, "version": "1.0+cpu"},
                "download_info": {"url": f"https://registry/{name}", "archive_info": {"hashes": {"sha256": value}}},
            }
            for name, value in hashes.items()
        ]
    }


def test_every_constraint_of_the_project_names_one_version(script: ModuleType) -> None:
    assert len(script.pinned((ROOT / "constraints.txt").read_text())) > 100


def test_a_range_is_refused_with_the_remedy(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"'torch>=2' does not pin one version: write NAME==VERSION"):
        script.pinned("# comment\ntorch>=2\n")


def test_every_requirement_stands_as_written_with_its_hash_and_no_address(script: ModuleType) -> None:
    requirements = script.pinned("# comment\n\ntyping_extensions==4.1  # why\ntorch==2.0\n")
    text = script.hashed(requirements, report(**{"Typing-Extensions": "aa", "torch": "bb"}), {})
    assert script.read_hashes(text) == {"typing_extensions==4.1": {"aa"}, "torch==2.0": {"bb"}}
    assert "registry" not in text


def test_another_platform_adds_its_hashes_and_another_version_drops_the_old_ones(script: ModuleType) -> None:
    first = script.hashed(["a==1", "b==1"], report(a="11", b="22"), {})
    second = script.hashed(["a==1", "b==2"], report(a="33", b="44"), script.read_hashes(first))
    assert script.read_hashes(second) == {"a==1": {"11", "33"}, "b==2": {"44"}}


@pytest.mark.slow
def test_pip_takes_the_files_it_was_told_and_refuses_any_other(tmp_path: Path) -> None:
    constraints, out = tmp_path / "constraints.txt", tmp_path / "hashed.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    constraints.write_text("\n".join(line for line in lines if line.startswith("idna==")))
    made = subprocess.run([sys.executable, SCRIPT, constraints, out], capture_output=True, text=True, check=False)
    if "No matching distribution" in made.stderr:
        pytest.skip("needs a package registry, which cannot be reached from here")
    assert made.returncode == 0, made.stderr
    assert dry_run(out).returncode == 0
    right = out.read_text()
    out.write_text(right[:-5] + ("0000\n" if right[-5:-1] != "0000" else "1111\n"))
    refused = dry_run(out)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def dry_run(requirements: Path) -> subprocess.CompletedProcess[str]:
    words = ["install", "--dry-run", "--ignore-installed", "--require-hashes", "-r", str(requirements)]
    return subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
