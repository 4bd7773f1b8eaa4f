"""Features and labels of a campaign's pool: stored once as files named by hash, mapped into memory when needed.

Rows that arrive later are stored beside the first ones, batch by batch, and numbered on: a row keeps its number.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sqlalchemy import Connection, select

from apod.campaign import schema
from apod.campaign.display import check_cells
from apod.campaign.errors import FileDamaged
from apod.campaign.events import canonical
from apod.campaign.files import Files
from apod.campaign.journal import Desk, Journal
from apod.campaign.settings import CampaignSettings
from apod.campaign.state import State
from apod.data.blocks import joined
from apod.data.dataset import IntArray
from apod.data.own import holds_groups, require_column
from apod.errors import InputError
from apod.files import Unchecked
from apod.models.model import probabilities_of

PLANE = "plane"
"""Name of the remembered map of the pool: "points" (n, 2), "share" (2,) of the variance."""
BASE = "model"
"""Name of the remembered model: "scores" (n,) of the pool, "held_out" of the others, and what it is."""
FACTS = "facts"
"""Name of JSON that is remembered beside arrays, as bytes."""

Features = npt.NDArray[Any] | pd.DataFrame


@dataclass(frozen=True, eq=False)
class Materials:
    """What an engine is built from. Nothing is read before it is asked for."""

    settings: CampaignSettings
    files: Files
    manifest: Mapping[str, Any]  # names of the files, as in the log's first event
    journal: Journal
    logged: bool = True  # whether all that was computed from them stands in the log; not so in earlier versions
    added: tuple[Mapping[str, Any], ...] = ()  # the same of rows that arrived later, the oldest first

    @property
    def campaign(self) -> int:
        """The campaign's number in its database."""
        return self.journal.campaign

    def budget(self) -> int:
        """How many answers may be asked for in all, as it is now."""
        return self.journal.view(lambda connection, state, at: state.budget)

    @property
    def batches(self) -> tuple[Mapping[str, Any], ...]:
        """The files of the rows that the campaign began with, then of those that arrived later."""
        return (self.manifest, *self.added)

    @property
    def original(self) -> Materials:
        """The rows that the campaign began with: what is fitted once and for all is fitted on these."""
        return replace(self, added=())

    def as_of(self, state: State) -> Materials:
        """The rows that there are in this state."""
        added = tuple(state.added)
        return self if added == self.added else replace(self, added=added)

    @cached_property
    def starts(self) -> list[int]:
        """The first row of every batch, and how many rows there are."""
        return [0, *accumulate(int(batch["rows"]) for batch in self.batches)]

    def __len__(self) -> int:
        return self.starts[-1]

    def place(self, row: int) -> tuple[int, int]:
        """Of a row: its batch, and its number there."""
        batch = bisect_right(self.starts, row) - 1
        return batch, row - self.starts[batch]

    def features(self) -> Features:
        """The pool's features as they were handed in: an array (mapped), or a table with its categories."""
        parts = [self.batch_features(batch) for batch in range(len(self.batches))]
        if len(parts) == 1:
            return parts[0]
        if isinstance(parts[0], pd.DataFrame):
            return _joined_frames([part for part in parts if isinstance(part, pd.DataFrame)])
        return joined([np.asarray(part) for part in parts])

    def batch_features(self, batch: int) -> Features:
        """The features of one batch."""
        parts = self.batches[batch]["features"]
        if "array" in parts:
            return self.files.array(parts["array"])
        numbers, codes = self.files.array(parts["numbers"]), self.files.array(parts["codes"])
        columns: dict[str, Any] = {}
        for column in self.columns(batch):
            if column["kind"] == "number":
                columns[column["name"]] = numbers[:, column["at"]]
            else:
                columns[column["name"]] = pd.Categorical.from_codes(codes[:, column["at"]], column["values"])
        return pd.DataFrame(columns)

    def columns(self, batch: int = 0) -> list[Unchecked]:
        """Name, kind, place and categories of every column of a table; none of an array."""
        parts = self.batches[batch]["features"]
        return [] if "array" in parts else list(json.loads(self.files.text(parts["columns"])))

    def labels(self) -> IntArray:
        """The pool's labels, 0 or 1: codes into `settings.label_names`."""
        return np.concatenate([self.files.array(batch["labels"]).astype(np.int64) for batch in self.batches])

    def held_out(self) -> IntArray:
        """Rows kept for the audit, sorted; nobody learns from their labels or groups. None of them without an audit."""
        return self._listed("held_out")

    def known(self) -> IntArray:
        """Rows whose group was handed in with them, sorted."""
        return self._listed("known")

    def _listed(self, name: str) -> IntArray:
        """The rows that a file of every batch lists, if it has one."""
        found = [
            self.files.array(batch[name]).astype(np.int64) + start
            for batch, start in zip(self.batches, self.starts, strict=False)
            if batch.get(name) is not None
        ]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def training_rows(self) -> IntArray:
        """All other rows, sorted; of a large pool those that were drawn to learn from."""
        if self.manifest.get("drawn") is None:
            return np.delete(np.arange(len(self)), self.held_out())
        return self._listed("drawn")

    @property
    def drawn(self) -> int | None:
        """How many people of a large pool were drawn to learn from and to ask about; None: all may be."""
        file = self.manifest.get("drawn")
        return None if file is None else len(self.files.array(file))

    def placed_rows(self) -> IntArray:
        """Rows that are learnt from or held out, sorted: all, but for a large pool."""
        return np.union1d(self.training_rows(), self.held_out())

    def scores(self) -> npt.NDArray[np.float64] | None:
        """(n,) everybody's score by the model that lives elsewhere; None where the campaign was given no scores."""
        if self.manifest.get("scores") is None:
            return None
        return np.concatenate([self.files.array(batch["scores"]["file"]).astype(np.float64) for batch in self.batches])

    @property
    def score_column(self) -> str | None:
        """What the column of these scores was called; None where they had no name."""
        column: str | None = (self.manifest.get("scores") or {}).get("column")
        return column

    def gold(self) -> frozenset[int]:
        """Rows that check annotators by a known answer: they are neither learnt from nor proposed."""
        return self.journal.view(lambda connection, state, at: frozenset(state.gold) | state.retired)

    def label(self, row: int) -> int:
        """One row's label."""
        batch, place = self.place(row)
        return int(self.files.array(self.batches[batch]["labels"])[place])

    def remember(self, name: str, compute: Callable[[], Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
        """Arrays that are expensive and depend on the materials alone (an embedding): computed once per campaign."""
        found = self._remembered(name)
        if found is None:
            made = {key: self.files.put_array(array) for key, array in compute().items()}
            found = self.journal.submit(lambda desk: _first_computed(desk, name, made))
        return {key: self.files.array(file) for key, file in found.items()}

    def remember_later(
        self, name: str, compute: Callable[[int], Mapping[str, npt.NDArray[Any]]]
    ) -> list[dict[str, npt.NDArray[Any]]]:
        """The same of every batch that arrived later, by its number, once for each."""
        return [
            self.remember(f"{name} {batch}", lambda batch=batch: compute(batch))  # type: ignore[misc]
            for batch in range(1, len(self.batches))
        ]

    def recall(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Arrays that were remembered under a name; None where nobody has computed them yet."""
        found = self._remembered(name)
        return None if found is None else {key: self.files.array(file) for key, file in found.items()}

    def facts(self, name: str) -> Unchecked | None:
        """What was noted beside arrays that were remembered under a name; None where nobody has computed them yet."""
        found = self._remembered(name)
        return None if found is None or FACTS not in found else dict(json.loads(bytes(self.files.array(found[FACTS]))))

    def _remembered(self, name: str) -> Mapping[str, str] | None:
        return self.journal.view(lambda connection, state, at: self._computed(connection, state).get(name))

    def _computed(self, connection: Connection, state: State) -> Mapping[str, Mapping[str, str]]:
        """What was computed so far, by name: the files of its arrays."""
        return state.computed if self.logged else {**_unlogged(connection, self.campaign), **state.computed}

    def file_names(self) -> list[tuple[str, str]]:
        """Name and ending of every file that the log names, each once."""
        computed = self.journal.view(lambda connection, state, at: dict(self._computed(connection, state)))
        named = [(name, suffix) for _, name, suffix in self._named_files()]
        made = [(file, ".npy") for files in computed.values() for file in files.values()]
        return list(dict.fromkeys(named + made))

    def problems(self) -> list[str]:
        """Read every file again: what is not as the log says."""
        return self._problems(self._named_files())

    def _named_files(self) -> Iterator[tuple[str, str, str]]:
        """What each file is, its name and its ending."""
        for batch, manifest in enumerate(self.batches):
            for what, name, suffix in _named_files(manifest):
                yield f"{what}, addition {batch}" if batch else what, name, suffix

    def computed_problems(self) -> tuple[list[str], list[str]]:
        """The same for what was computed from them; and what the log of an earlier version says nothing about."""
        found = self.journal.view(lambda connection, state, at: dict(self._computed(connection, state)))
        known = self.journal.view(lambda connection, state, at: frozenset(state.computed))
        wrong = self._problems(
            (f"{name} ({key})", file, ".npy") for name, files in found.items() for key, file in files.items()
        )
        return wrong, sorted(set(found) - known)

    def _problems(self, named: Iterable[tuple[str, str, str]]) -> list[str]:
        found = []
        for what, name, suffix in named:
            try:
                self.files.check(name, suffix, anew=True)
            except FileDamaged as damaged:
                found.append(f"{what}: {damaged}")
        return found


def _first_computed(desk: Desk, name: str, files: Mapping[str, str]) -> Mapping[str, str]:
    """Note in the log what was computed; where two did, the first one's counts."""
    if name not in desk.state.computed:
        desk.append("computed", {"name": name, "files": dict(files)})
    return desk.state.computed[name]


def _unlogged(connection: Connection, campaign: int) -> dict[str, dict[str, str]]:
    table = schema.artifacts
    query = select(table.c.name, table.c.files).where(table.c.campaign == campaign)
    return {row.name: json.loads(row.files) for row in connection.execute(query)}


def _joined_frames(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of the same columns below one another; a category keeps its place, new ones come last."""
    columns: dict[str, Any] = {}
    for name in parts[0].columns:
        cells = [part[name] for part in parts]
        if isinstance(cells[0].dtype, pd.CategoricalDtype):
            values = list(dict.fromkeys(value for cell in cells for value in cell.cat.categories))
            place = {value: code for code, value in enumerate(values)}
            codes = [
                np.array([*(place[value] for value in cell.cat.categories), -1])[cell.cat.codes.to_numpy()]
                for cell in cells
            ]
            columns[name] = pd.Categorical.from_codes(np.concatenate(codes).astype(np.int64), pd.Index(values))
        else:
            columns[name] = np.concatenate([cell.to_numpy() for cell in cells])
    return pd.DataFrame(columns)


def _named_files(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What each file of a batch is, its name and its ending."""
    yield "the labels", manifest["labels"], ".npy"
    for part, name in manifest["features"].items():
        yield f"the features ({part})", name, ".txt" if part == "columns" else ".npy"
    if manifest.get("held_out") is not None:
        yield "the rows held out for the audit", manifest["held_out"], ".npy"
    if manifest.get("drawn") is not None:
        yield "the rows drawn to learn from", manifest["drawn"], ".npy"
    if manifest.get("known") is not None:
        yield "the rows whose group was handed in", manifest["known"], ".npy"
    if manifest.get("scores") is not None:
        yield "the model's scores", manifest["scores"]["file"], ".npy"
    for part, name in (manifest.get("contents") or {}).get("arrays", {}).items():
        yield f"what embeds texts ({part})", name, ".npy"
    if manifest.get("display") is not None:
        yield "the shown rows", manifest["display"]["rows"], ".jsonl"
        yield "the index of the shown rows", manifest["display"]["index"], ".npy"


def store_features(files: Files, features: Any, groups: Sequence[Sequence[str]]) -> dict[str, object]:
    """Write the features; return what `Materials.features` needs. `groups` are those of every attribute."""
    if isinstance(features, pd.DataFrame):
        return _store_frame(files, features, groups)
    array = np.asarray(features)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(f"X is of shape {array.shape} and type {array.dtype}: pass a table or a matrix of numbers.")
    return {"array": files.put_array(array)}


def _store_frame(files: Files, frame: pd.DataFrame, groups: Sequence[Sequence[str]]) -> dict[str, object]:
    if frame.columns.duplicated().any():
        raise InputError("Two columns of X have the same name: rename one.")
    columns: list[dict[str, object]] = []
    numbers: list[npt.NDArray[np.float64]] = []
    codes: list[npt.NDArray[np.int32]] = []
    for name in frame.columns:
        values = frame[name]
        if any(holds_groups(values, names) for names in groups):
            raise InputError(
                f"Column {str(name)!r} of X seems to be the sensitive attribute itself: drop it from the features."
            )
        if pd.api.types.is_numeric_dtype(values):
            columns.append({"name": str(name), "kind": "number", "at": len(numbers)})
            numbers.append(values.to_numpy(dtype=np.float64, na_value=np.nan))
        elif pd.api.types.is_datetime64_any_dtype(values):
            raise InputError(f"Column {str(name)!r} of X holds dates: turn them into numbers first.")
        else:
            check_cells(str(name), values)
            texts = values.astype(object).map(lambda value: None if pd.isna(value) else str(value))
            category = pd.Categorical(texts)
            columns.append(
                {"name": str(name), "kind": "category", "at": len(codes), "values": list(map(str, category.categories))}
            )
            codes.append(np.asarray(category.codes, dtype=np.int32))
    empty = np.empty((len(frame), 0))
    return {
        "numbers": files.put_array(np.stack(numbers, axis=1) if numbers else empty),
        "codes": files.put_array(np.stack(codes, axis=1) if codes else empty.astype(np.int32)),
        "columns": files.put_text(canonical(columns)),
    }


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Probabilities of the positive label by a model that lives elsewhere."""

    values: npt.NDArray[np.float64]  # (n,)
    column: str | None = None  # what the table calls them


def scores_from(score: Any, frame: Any, show: Sequence[str] | None = None) -> GivenScores | None:
    """The scores as they were handed in: a column of the table, by name, or one number per row; None without any."""
    if score is None:
        return None
    if not isinstance(score, str):
        values = probabilities_of(score, "The scores")
        if len(values) != len(frame):
            raise InputError(f"There are {len(values)} scores for {len(frame)} rows: pass one per row.")
        return GivenScores(values)
    if score in (show or ()):
        raise InputError(f"{score!r} is the model's score: leave it out of the columns that annotators see.")
    require_column(score, [str(name) for name in getattr(frame, "columns", ())], "the table")
    return GivenScores(probabilities_of(frame[score], f"The column {score!r}"), score)


def without_scores(frame: pd.DataFrame | Any, scores: GivenScores | None) -> Any:
    """A table without the column of scores: it is neither a feature nor shown."""
    if scores is None or scores.column is None or not isinstance(frame, pd.DataFrame):
        return frame
    return frame.drop(columns=scores.column, errors="ignore")
