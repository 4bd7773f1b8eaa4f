"""A file is there whole or not at all, and a digest is that of the content alone."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from apod.errors import InputError
from apod.files import digest, replacing, write_private


def test_a_file_that_is_being_written_is_not_there_yet_and_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [found.name for found in tmp_path.iterdir()] == ["result.json"]


def write_half(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half of the new")
        raise ZeroDivisionError


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_half(path)
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["result.json"]


HALF = """
import sys
from pathlib import Path
from apod.campaign.files import Files
from apod.files import replacing
folder = Path(sys.argv[1])
with {} as file:
    file.write(b"female, male, female" * 100_000)
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without a name")
@pytest.mark.parametrize("way", ['replacing(folder / "groups.csv", private=True)', 'Files(folder).writer(".txt")'])
def test_a_process_killed_while_it_writes_leaves_nothing_behind(tmp_path: Path, way: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HALF.format(way), str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        assert not list(tmp_path.iterdir())
        writer.send_signal(signal.SIGKILL)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("private", [False, True])
def test_a_private_file_is_for_its_owner_and_another_as_the_system_says(tmp_path: Path, private: bool) -> None:
    with replacing(tmp_path / "file", private=private):
        pass
    (tmp_path / "plain").touch()
    usual = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == (0o600 if private else usual)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere/file could not be written \(No such file or directory\): choose"):
        write_private(tmp_path / "nowhere" / "file", b"")


def test_a_digest_is_blake2b_of_the_parts_one_after_the_other() -> None:
    array = np.arange(12.0).reshape(3, 4)
    plain = hashlib.blake2b(b"seed 1" + b"\x00" + array.T.copy().tobytes(), digest_size=20).hexdigest()
    assert digest("seed 1", b"\x00", array.T, size=20) == plain
    assert digest(np.array(3.5), np.empty((0, 2))) == digest(np.array([3.5]))
