"""A server or a command that is killed over an export leaves nobody's group behind, in no folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from killed_export import WAYS
from web_people import GROUPS

from support import SUPPORT


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without a name")
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.slow] * (way in ("classifier", "report"))) for way in WAYS]
)
def test_what_is_killed_in_the_middle_of_an_export_leaves_no_byte_of_it(way: str, tmp_path: Path) -> None:
    temporary, target = tmp_path / "temporary", tmp_path / "target"
    temporary.mkdir()
    target.mkdir()
    with subprocess.Popen(
        [
            sys.executable,
            str(SUPPORT / "killed_export.py"),
            way,
            str(tmp_path / "campaign"),
            str(target),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(SUPPORT.parent)},
        cwd=target,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"midway\n"
        process.kill()
    left = {path: path.read_bytes() for folder in (temporary, target) for path in folder.rglob("*") if path.is_file()}
    assert not [path for path, content in left.items() if any(name.encode() in content for name in GROUPS)]
    assert not left
