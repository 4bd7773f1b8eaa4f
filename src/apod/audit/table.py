"""An audit of a user's table: which column is what, and whom to ask next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from apod.audit.estimate import Audit, audit, cell_shares, group_proxies
from apod.audit.sampling import CellPlan, People, allocate, cells_of, check_people, draw_people
from apod.audit.shares import FloatArray
from apod.data.columns import read_features
from apod.data.csv_cells import unescaped
from apod.data.dataset import UNKNOWN, IntArray
from apod.data.encode import TableEncoder
from apod.data.files import read_table
from apod.data.own import read_groups, read_labels, require_column
from apod.errors import InputError
from apod.fairness.notions import EQUALIZED_ODDS, Notion
from apod.randomness import generator


@dataclass(frozen=True)
class AuditColumns:
    """What the user says of the columns of their table."""

    label: str
    predictions: tuple[str, ...]  # one or two: before, after
    group: str = "group"  # the answers, mostly empty; in the table, or in the file of answers
    probability: str = "draw_probability"  # with which a row was drawn; no such column: all answered rows were, alike
    group_names: tuple[str, ...] | None = None
    reference: str | None = None
    positive: str | None = None
    proxies: Mapping[str, str] | None = None  # group -> column with its probability
    features: tuple[str, ...] | None = None  # for cross-fitted proxies; None: all other columns, (): no proxies
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AuditTable:
    """A table ready to be audited."""

    labels: IntArray
    predictions: dict[str, IntArray]
    groups: IntArray
    group_names: tuple[str, ...]
    probability: FloatArray | None
    proxies: FloatArray | None
    features: FloatArray | None
    seed: int = 0
    notion: Notion = EQUALIZED_ODDS

    def audit(self, level: float = 0.95) -> Audit:
        """How unfair the predictions are."""
        return audit(
            self.labels,
            self.predictions,
            self.groups,
            self.group_names,
            probability=self.probability,
            proxies=self.proxies,
            features=self.features,
            notion=self.notion,
            seed=self.seed,
            level=level,
        )

    def draw(self, n: int) -> pd.DataFrame:
        """The audit's people with n more of them drawn: row, draw_probability, and the answer where there is one.

        Probabilities are those of the whole sample, earlier draws included: within a cell of label and decisions
        everybody had the same chance.
        """
        people = check_people(self.labels, self.predictions, self.groups, self.group_names, self.probability)
        plan = cells_of(people, list(self.predictions))
        earlier = np.flatnonzero(~np.isnan(people.probability))
        _refuse_uneven(plan, people, earlier)
        free = np.setdiff1d(np.arange(len(plan.code)), np.union1d(earlier, people.known))
        room = np.bincount(plan.code[free], minlength=len(plan.sizes))
        counts = allocate(self._shares(people, plan), plan.views, n, room, self.notion)
        new = draw_people(plan.code, counts, free, generator(self.seed, "audit", "draw", len(earlier)))
        rows = np.concatenate([earlier, new.rows]).astype(np.int64)
        taken = np.bincount(plan.code[rows], minlength=len(plan.sizes)) / np.maximum(plan.sizes, 1)
        names = np.array([*self.group_names, ""], dtype=object)  # -1, no answer yet, is the last
        return pd.DataFrame(
            {"row": rows, "draw_probability": taken[plan.code[rows]], "group": names[self.groups[rows]]}
        )

    def _shares(self, people: People, plan: CellPlan) -> FloatArray:
        """The group shares a draw is planned with: what is known by now, even shares at the start."""
        g = len(self.group_names)
        if not len(people.drawn):
            return np.full((len(plan.sizes), g), 1 / g)
        _, found = cell_shares(people, plan, group_proxies(people, self.proxies, self.features, self.seed))
        worth = found.effective[:, None]
        return np.asarray((worth * found.share + 1) / (worth + g))


def refuse_losing_answers(path: Path, written: pd.DataFrame, column: str) -> None:
    """InputError where writing these people to the file would lose an answer that stands in it."""
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        there = read_table(path).rename(columns=str)
    except InputError:
        there = pd.DataFrame()
    named = [name for name in dict.fromkeys((column, "group")) if name in there.columns]
    if "row" not in there.columns or not named:
        raise InputError(f"{path} is there already and is no list of people to ask: choose another --out.")
    kept = set(zip(written["row"].astype(str), written["group"], strict=True))
    for name in named:
        filled = there[_filled(there[name])]
        groups = filled[name].astype(str).str.strip().map(unescaped)
        answers = zip(filled["row"].astype(str).str.strip(), groups, strict=True)
        lost = set(answers) - kept
        if lost:
            raise InputError(
                f"{path} holds {len(lost)} answers that would be lost: pass it as --answers, or choose another --out."
            )


def _refuse_uneven(plan: CellPlan, people: People, earlier: IntArray) -> None:
    for cell in np.unique(plan.code[earlier]):
        chances = people.probability[earlier][plan.code[earlier] == cell]
        if not np.isclose(chances, chances[0]).all():
            raise InputError(
                "People of the same label and decision were drawn with different probabilities: such a draw cannot be "
                "continued here. Draw the next ones the same way as the first, and audit them together."
            )


def read_audit(
    path: Path,
    said: AuditColumns,
    answers: Path | None = None,
    seed: int = 0,
    notion: Notion = EQUALIZED_ODDS,
) -> AuditTable:
    """The table of a CSV or Parquet file; with `answers`, a file of row, group and probability, merged in."""
    frame = read_table(path).rename(columns=str)
    columns = [str(name) for name in frame.columns]
    proxied = tuple((said.proxies or {}).values())
    for name in (said.label, *said.predictions, *proxied, *(said.features or ()), *said.drop):
        require_column(name, columns, path.name)
    if not 1 <= len(said.predictions) <= 2 or len(set(said.predictions)) < len(said.predictions):
        raise InputError("Name one column of predictions, or two different ones: before and after.")
    labels = read_labels(said.label, frame[said.label], said.positive)
    predictions = {name: _decisions(name, frame[name], labels.names) for name in said.predictions}
    group, chance = _answer_columns(frame, said, answers)
    codes, names = _groups(group, said)
    used = {said.label, said.group, said.probability, *said.predictions, *proxied, *said.drop}
    wanted = [name for name in columns if name not in used] if said.features is None else list(said.features)
    features = None
    if not proxied and wanted:
        table, _ = read_features(frame[wanted])
        features = TableEncoder().fit(table).transform(table).astype(np.float64)
    return AuditTable(
        labels=labels.codes,
        predictions=predictions,
        groups=codes,
        group_names=names,
        probability=None if chance is None else _numbers(said.probability, chance),
        proxies=_proxies(frame, said.proxies, names) if said.proxies else None,
        features=features,
        seed=seed,
        notion=notion,
    )


def _answer_columns(
    frame: pd.DataFrame, said: AuditColumns, answers: Path | None
) -> tuple[pd.Series[Any], pd.Series[Any] | None]:
    """The answers and draw probabilities per row of the table."""
    empty = pd.Series([None] * len(frame), dtype=object)
    if answers is None:
        group = frame[said.group] if said.group in frame.columns else empty
        return group, frame[said.probability] if said.probability in frame.columns else None
    given = read_table(answers).rename(columns=str)
    columns = [str(name) for name in given.columns]
    for name in ("row", said.group):
        require_column(name, columns, answers.name)
    rows = _numbers("row", given["row"])
    if (
        np.isnan(rows).any()
        or ((rows < 0) | (rows >= len(frame)) | (rows % 1 != 0)).any()
        or len(set(rows)) < len(rows)
    ):
        raise InputError(f"Column 'row' of {answers.name} needs whole numbers from 0 to {len(frame) - 1}, each once.")
    places = rows.astype(np.int64)
    group, chance = empty.copy(), empty.copy()
    written = given[said.group].map(lambda cell: unescaped(cell) if isinstance(cell, str) else cell)
    group.iloc[places] = written.astype(object).where(written.notna(), None).to_numpy()
    if said.probability not in columns:
        return group, None
    chance.iloc[places] = given[said.probability].to_numpy()
    return group, chance


def _filled(column: pd.Series[Any]) -> pd.Series[bool]:
    """Where an answer stands."""
    return column.notna() & (column.astype(str).str.strip() != "")


def _groups(column: pd.Series[Any], said: AuditColumns) -> tuple[IntArray, tuple[str, ...]]:
    filled = _filled(column)
    if said.group_names is None and not filled.any():
        raise InputError("Nobody has answered yet: name the groups (--groups female,male).")
    if not filled.any():
        names = read_groups(None, column.to_frame(), said.reference, said.group_names)[1]
        return np.full(len(column), UNKNOWN), names
    if said.group_names is None:
        return read_groups(said.group, column.to_frame(said.group), said.reference, None)
    names = read_groups(None, column.to_frame(), said.reference, said.group_names)[1]
    place = {name: code for code, name in enumerate(names)}
    cells = column.astype(str).str.strip()
    codes = np.where(filled, cells.map(place).fillna(len(names)).to_numpy(), UNKNOWN).astype(np.int64)
    if (codes == len(names)).any():
        raise InputError(f"{int((codes == len(names)).sum())} answers name none of the groups {', '.join(names)}.")
    return codes, names


def _numbers(name: str, column: pd.Series[Any]) -> FloatArray:
    numbers = pd.to_numeric(column, errors="coerce")
    text = numbers.isna() & column.notna() & (column.astype(str).str.strip() != "")
    if text.any():
        raise InputError(f"Column {name!r} holds text in {int(text.sum())} cells: it needs numbers, or nothing.")
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _decisions(name: str, column: pd.Series[Any], label_names: Sequence[str]) -> IntArray:
    """0/1 from decisions, the label's own words, or probabilities (above one half is a yes)."""
    if column.isna().any():
        raise InputError(f"Column {name!r} has {int(column.isna().sum())} empty cells: every row needs a prediction.")
    words = column.astype(str).str.strip()
    if words.isin(list(label_names)).all():
        return np.asarray((words == label_names[1]).to_numpy(), dtype=np.int64)
    values = _numbers(name, column)
    if ((values < 0) | (values > 1)).any():
        raise InputError(f"Column {name!r} holds neither 0/1 nor probabilities nor {' / '.join(label_names)}.")
    return np.asarray(values > 0.5, dtype=np.int64)


def _proxies(frame: pd.DataFrame, columns: Mapping[str, str], names: Sequence[str]) -> FloatArray:
    """(n, g) from a column per group; of two groups one column is enough."""
    unknown = [group for group in columns if group not in names]
    if unknown or len(columns) < len(names) - 1:
        raise InputError(f"Give a column of probabilities for each of {', '.join(names)} (of two groups one will do).")
    given = {group: _numbers(column, frame[column]) for group, column in columns.items()}
    total = np.sum(list(given.values()), axis=0)
    filled = np.stack([given.get(name, 1 - total) for name in names], axis=1)
    if np.isnan(filled).any() or (filled < -1e-6).any() or (filled > 1 + 1e-6).any():
        raise InputError("Proxies must be probabilities between 0 and 1 in every row.")
    filled = np.clip(filled, 0, 1)
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))
