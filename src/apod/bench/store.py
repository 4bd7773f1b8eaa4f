"""Results on disk: finished rows are kept by content key, in parts that appear whole or not at all.

results/bench.json            which version of this format, and of the numbers, wrote the folder
results/parts/<key>/          runs.parquet, rounds.parquet, answers.parquet of one arm of one unit
results/groups.json           names of the groups of users' own tables
results/runs.parquet ...      all parts together, written when a bench ends
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd

from apod.bench.methods import METHODS
from apod.errors import CheckpointError, InputError
from apod.files import replacing

FORMAT = 1
NUMBERS = 3
"""Raised whenever the same run gives other numbers than before, be it in the last bits: a results folder does not mix
them. Folders that name none have 2."""
TABLES = ("runs", "rounds", "answers")
GROUP_NAMES = "groups.json"

_ABANDONED_SECONDS = 60

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Part:
    """What one arm of one unit gave."""

    runs: list[Row]
    rounds: list[Row]
    answers: list[Row]


class ResultStore:
    """The results folder of a bench."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._parts, self._marker = folder, folder / "parts", folder / "bench.json"

    def open(self) -> ResultStore:
        """Create the folder or check that this version can go on with it."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is not a folder: choose another --out.")
        try:
            if self._marker.exists():
                self._check()
            else:
                self._mark()
            self._parts.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"Cannot write to {self.folder} ({error.strerror}): choose another --out.") from None
        for left in self._parts.glob("*.partial"):  # a killed bench leaves at most unfinished parts
            shutil.rmtree(left)
        for left in self.folder.glob(".*.partial"):  # tables that a bench was killed over
            left.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "under-way", ignore_errors=True)
        for left in (self.folder / "bodies").glob("*.partial"):
            with suppress(FileNotFoundError):  # writing one takes a moment: older ones have nobody to finish them
                if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    left.unlink()
        return self

    def _mark(self) -> None:
        """The marker comes first and whole, so that a bench killed at its very start can go on."""
        partial = self._marker.with_suffix(".partial")
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(path != partial for path in self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty and holds no bench results: choose another --out.")
        partial.write_text(json.dumps({"format": FORMAT, "numbers": NUMBERS}) + "\n")
        partial.replace(self._marker)

    def _check(self) -> None:
        try:
            told = json.loads(self._marker.read_text())
            found, numbers = told.get("format"), told.get("numbers", 2)
        except (json.JSONDecodeError, OSError, AttributeError):
            found, numbers = None, None
        if found != FORMAT:
            raise CheckpointError(
                f"The results in {self.folder} have format {found}, this version writes {FORMAT}: choose another --out."
            )
        if numbers != NUMBERS:
            raise CheckpointError(
                f"The results in {self.folder} come from a version whose runs give other numbers: choose another "
                "--out, so that the two are not mixed."
            )

    def name_groups(self, dataset: str, names: Sequence[str]) -> None:
        """Note the groups of a user's own table, for whoever reads the results."""
        known = read_group_names(self.folder)
        with replacing(self.folder / GROUP_NAMES) as file:
            file.write(json.dumps({**known, dataset: list(names)}).encode())

    def finished(self, retry_failed: bool = False) -> set[str]:
        """Keys of all runs on record; with `retry_failed`, failed ones count as missing."""
        runs = self.read("runs")
        if runs.empty:
            return set()
        return set(runs.loc[runs["status"] == "ok", "key"] if retry_failed else runs["key"])

    def count(self) -> int:
        """How many parts are finished."""
        return sum(1 for folder in self._parts.iterdir() if folder.suffix != ".partial")

    @contextmanager
    def reporting(self, unit: str) -> Iterator[Callable[[int, int, str], None]]:
        """What a worker is at, for whoever watches; a file, because the worker may be on another machine."""
        file = self.folder / "under-way" / f"{unit.replace(', ', '-').replace(' ', '-')}.txt"
        file.parent.mkdir(exist_ok=True)

        def report(done: int, total: int, text: str) -> None:
            with suppress(OSError):  # a next bench has cleared the folder: no reason for a run to fail
                file.write_text(f"{unit}: {text} {done}/{total}")

        try:
            yield report
        finally:
            file.unlink(missing_ok=True)

    def under_way(self) -> list[str]:
        """What the workers are at."""
        files = sorted((self.folder / "under-way").glob("*.txt"))
        texts = []
        for file in files:
            with suppress(FileNotFoundError):  # its worker has just finished
                texts.append(file.read_text())
        return texts

    def write(self, name: str, part: Part) -> None:
        """Keep one part: all of its tables, or nothing."""
        # a name of its own: workers of a killed bench may still be writing the same part
        partial, final = self._parts / f"{name}.{uuid4().hex}.partial", self._parts / name
        partial.mkdir(parents=True)
        for table in TABLES:
            pd.DataFrame(getattr(part, table)).to_parquet(partial / f"{table}.parquet", index=False)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)

    def read(self, table: str) -> pd.DataFrame:
        """All rows of a table, in an order that does not depend on when they were computed."""
        files = sorted(file for file in self._parts.glob(f"*/{table}.parquet") if file.parent.suffix != ".partial")
        frames = []
        for file in files:
            with suppress(FileNotFoundError):  # another process is replacing a failed part
                frames.append(_read(file))
        return _in_order([frame for frame in frames if len(frame)])

    def combine(self) -> None:
        """Write every table as one Parquet file, for other tools."""
        for table in TABLES:
            with replacing(self.folder / f"{table}.parquet") as file:
                self.read(table).to_parquet(file, index=False)


def read_group_names(folder: Path) -> dict[str, list[str]]:
    """The groups of users' own tables, by dataset."""
    try:
        found: dict[str, list[str]] = json.loads((folder / GROUP_NAMES).read_text())
    except (OSError, ValueError):  # none noted, or damaged: they are numbers then
        return {}
    return found


def _read(file: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(file)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise CheckpointError(
            f"{file} cannot be read: delete the folder {file.parent.name}, and its runs are computed again."
        ) from error


def _in_order(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table, ordered by what its rows are about; a run that failed and was tried again counts once, finished."""
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True)
    inner = [column for column in ("status", "order", "round") if column in table.columns][:1]  # failed before ok
    table["_method"] = table["method"].map({name: place for place, name in enumerate(METHODS)})
    table = table.sort_values(["dataset", "seed", "_method", "value", *inner], kind="stable").drop(columns="_method")
    within = [column for column in inner if column != "status"]
    return table.drop_duplicates(subset=["key", *within], keep="last").reset_index(drop=True)
