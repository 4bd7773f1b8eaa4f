"""`apod` as a user types it, in this process: starting Python and loading torch anew costs seconds a command."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from apod.cli import main


@dataclass(frozen=True)
class Done:
    """What a command that has ended leaves in the terminal."""

    returncode: int
    stdout: str
    stderr: str


def apod(*arguments: object, folder: Path, stdin: str = "") -> Done:
    """Run one command in a folder; `stdin` is what is typed."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["apod", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return Done(code or 0, out.getvalue(), err.getvalue())
