"""An audit of a user's table: which column is what, and whom to ask next."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import pandas as pd

from apod.audit.asked import filled, ids_of, people_to_ask, read_answers, read_numbers, shown_columns
from apod.audit.estimate import Audit, audit, cell_shares
from apod.audit.json_types import ToldJson
from apod.audit.sampling import CellPlan, People, allocate, cells_of, check_people, draw_people, group_proxies
from apod.audit.shares import FloatArray
from apod.data.columns import Labels, read_features
from apod.data.dataset import UNKNOWN, IntArray
from apod.data.encode import TableEncoder
from apod.data.files import read_table
from apod.data.groups import read_groups
from apod.data.own import Problems, read_labels, require_column
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError
from apod.fairness.counts import JointCounts, checked_weights, joint_counts
from apod.fairness.notions import EQUALIZED_ODDS, Notion
from apod.files import digest
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
    id: str | None = None  # column with an id per person; by default one that is called id
    show: tuple[str, ...] | None = None  # columns an annotator needs; None: all but label, predictions and names
    dialect: Dialect = RECOGNISED
    weight: str | None = None  # column that says how many people a row stands for
    crossed: tuple[str, ...] = ()  # attributes whose intersections are the groups; `group` is what they are called

    @property
    def proxied(self) -> tuple[str, ...]:
        """The columns of probabilities."""
        return tuple((self.proxies or {}).values())

    @property
    def named(self) -> tuple[str, ...]:
        """All columns of the table that were named, the label and the predictions first."""
        alone = [name for name in (self.id, self.weight) if name]
        more = (*self.proxied, *(self.features or ()), *self.drop, *alone, *(self.show or ()))
        return (self.label, *self.predictions, *more)


class DescribedTable(TypedDict):
    """What an audit is of."""

    file: str
    rows: int
    label: str
    label_names: list[str]
    base_rate: float
    features: list[str]
    fingerprint: str
    attribute: str
    weight: NotRequired[str]  # the column of weights, where there is one


UNNAMED: DescribedTable = {
    "file": "",
    "rows": 0,
    "label": "",
    "label_names": [],
    "base_rate": 0.0,
    "features": [],
    "fingerprint": "",
    "attribute": "",
}
"""A table of which nothing is said."""


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
    described: DescribedTable = field(default_factory=lambda: UNNAMED.copy())  # the table in words, for a report
    ids: pd.Series[str] | None = None  # (n,) named as their column
    shown: pd.DataFrame | None = None  # (n, columns) what an annotator needs
    weights: FloatArray | None = None  # (n,) how many people a row stands for

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
            weights=self.weights,
            notion=self.notion,
            seed=self.seed,
            level=level,
        )

    def draw(self, n: int) -> pd.DataFrame:
        """The audit's people with n more of them drawn: row, draw_probability, and the answer where there is one.

        Probabilities are those of the whole sample, earlier draws included: within a cell of label and decisions
        everybody had the same chance.
        """
        told = self.groups, self.group_names, self.probability, self.weights
        people = check_people(self.labels, self.predictions, *told)
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

    def people_to_ask(self, n: int) -> pd.DataFrame:
        """`draw` with ids and the columns an annotator needs, as it is written to a file."""
        shown = self.shown if self.shown is not None else pd.DataFrame(index=range(len(self.labels)))
        return people_to_ask(self.draw(n), self.ids, shown)

    def told(self) -> dict[str, ToldJson]:
        """How many answers there are of every group and label."""
        positive = self.labels == 1
        return {
            name: {
                "negative": int(((self.groups == code) & ~positive).sum()),
                "positive": int(((self.groups == code) & positive).sum()),
            }
            for code, name in enumerate(self.group_names)
        }

    def without_few(self, least: int) -> tuple[AuditTable, list[str]]:
        """The same without groups that fewer answers name, as if these people had not been asked; and their names.

        All stay where fewer than two groups would be left.
        """
        named = np.bincount(self.groups[self.groups != UNKNOWN], minlength=len(self.group_names))
        kept = np.flatnonzero(named >= least)
        if len(kept) < 2 or len(kept) == len(named):
            return self, []
        place = np.full(len(named) + 1, UNKNOWN)
        place[kept] = np.arange(len(kept))
        dropped = (self.groups != UNKNOWN) & (place[self.groups] == UNKNOWN)
        chance = None if self.probability is None else np.where(dropped, np.nan, self.probability)
        names = tuple(self.group_names[code] for code in kept)
        fewer = replace(self, groups=place[self.groups], group_names=names, probability=chance)
        return fewer, [name for code, name in enumerate(self.group_names) if code not in kept]

    def joint(self) -> JointCounts:
        """People by told group, label and both decisions; of one set of predictions, twice the same."""
        first, last = (list(self.predictions.values())[place] for place in (0, -1))
        return joint_counts(self.labels, first, last, self.groups, self.group_names)

    def _shares(self, people: People, plan: CellPlan) -> FloatArray:
        """The group shares a draw is planned with: what is known by now, even shares at the start."""
        g = len(self.group_names)
        if not len(people.drawn):
            return np.full((len(plan.sizes), g), 1 / g)
        _, found = cell_shares(people, plan, group_proxies(people, self.proxies, self.features, self.seed))
        worth = found.effective[:, None]
        return np.asarray((worth * found.share + 1) / (worth + g))


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
    """The table of a file; with `answers`, a file of people (by id or row), groups and probabilities, merged in.

    TableProblems with everything that must be mended.
    """
    frame, problems = read_table(path, said.dialect), Problems()
    columns = [str(name) for name in frame.columns]
    for name in dict.fromkeys(said.named):
        problems.collect(partial(require_column, name, columns, path.name))
    if not 1 <= len(said.predictions) <= 2 or len(set(said.predictions)) < len(said.predictions):
        problems.add("Name one column of predictions, or two different ones: before and after.")
    problems.settle(path.name)
    labels = problems.collect(lambda: _two_labels(read_labels(said.label, frame[said.label], said.positive)))
    names = labels.names if labels is not None else ("0", "1")
    predictions = {
        name: problems.collect(partial(_decisions, name, frame[name], names, said.dialect)) for name in said.predictions
    }
    ids = problems.collect(lambda: ids_of(frame, said.id))
    features = problems.collect(lambda: _features(frame, said))
    weights = problems.collect(lambda: _weights(frame, said))
    problems.settle(path.name)
    assert labels is not None
    group, chance = _answer_columns(frame, said, answers, ids)
    codes, group_names = _groups(group, said)
    kept = [
        *said.named[: 1 + len(said.predictions)],
        *said.proxied,
        said.group,
        *said.crossed,
        *([said.weight] if said.weight else []),
    ]
    shown = shown_columns(frame, said.show, kept)
    return AuditTable(
        labels=labels.codes,
        predictions={name: found for name, found in predictions.items() if found is not None},
        groups=codes,
        group_names=group_names,
        probability=None if chance is None else read_numbers(said.probability, chance),
        proxies=_proxies(frame, said, group_names) if said.proxies else None,
        features=None if features is None or not features[0] else features[1],
        seed=seed,
        notion=notion,
        described=_described(path, frame, said, labels, features[0] if features is not None else []),
        ids=ids,
        shown=frame[[name for name in shown if name != said.probability]],
        weights=weights,
    )


def _weights(frame: pd.DataFrame, said: AuditColumns) -> FloatArray | None:
    if said.weight is None:
        return None
    return checked_weights(
        f"Column {said.weight!r}", read_numbers(said.weight, frame[said.weight], said.dialect), len(frame)
    )


def _features(frame: pd.DataFrame, said: AuditColumns) -> tuple[list[str], FloatArray]:
    """The columns that groups are guessed from, and what they are to a proxy; none where proxies are given."""
    used = {
        said.label,
        said.group,
        *said.crossed,
        said.probability,
        *said.predictions,
        *said.proxied,
        *said.drop,
        said.id,
        said.weight,
    }
    wanted = [str(name) for name in frame.columns if name not in used] if said.features is None else said.features
    if said.proxied or not wanted:
        return [], np.empty((len(frame), 0))
    table, _ = read_features(frame[list(wanted)], said.dialect.decimal)
    return list(map(str, table.columns)), TableEncoder().fit(table).transform(table).astype(np.float64)


def _described(
    path: Path, frame: pd.DataFrame, said: AuditColumns, labels: Labels, features: list[str]
) -> DescribedTable:
    """What an audit is of: the file, its label, a fingerprint of all but the groups."""
    hidden = (said.group, *said.crossed, said.probability)
    kept = frame.drop(columns=[name for name in hidden if name in frame.columns])
    cells = pd.util.hash_pandas_object(kept.astype(str), index=False).to_numpy()
    described: DescribedTable = {
        "file": path.name,
        "rows": len(frame),
        "label": said.label,
        "label_names": list(labels.names),
        "base_rate": float(labels.codes.mean()),
        "features": features,
        "fingerprint": digest(json.dumps(list(kept.columns)), cells, size=8),
        "attribute": said.group,
    }
    if said.weight is not None:
        described["weight"] = said.weight
    return described


def _answer_columns(
    frame: pd.DataFrame, said: AuditColumns, answers: Path | None, ids: pd.Series[str] | None
) -> tuple[pd.Series[Any], pd.Series[Any] | None]:
    """The answers and draw probabilities per row of the table."""
    if said.crossed:
        each = [_answer_columns(frame, replace(said, group=name, crossed=()), answers, ids) for name in said.crossed]
        return crossed_answers([column for column, _ in each]), each[0][1]
    if answers is None:
        _refuse_misspelled(said, [str(name) for name in frame.columns])
        empty = pd.Series([None] * len(frame), dtype=object)
        group = frame[said.group] if said.group in frame.columns else empty
        return group, frame[said.probability] if said.probability in frame.columns else None
    return read_answers(answers, said.group, said.probability, ids, len(frame))


def crossed_answers(columns: Sequence[pd.Series[Any]]) -> pd.Series[Any]:
    """Everybody's intersection by name; empty where an attribute was not told."""
    told = np.all([filled(column).to_numpy() for column in columns], axis=0)
    cells = zip(*(column.astype(str).str.strip() for column in columns), strict=True)
    return pd.Series([", ".join(cell) if own else None for cell, own in zip(cells, told, strict=True)], dtype=object)


def _refuse_misspelled(said: AuditColumns, columns: list[str]) -> None:
    """InputError where the column of groups is meant to be in the table and is not; it may be missing before a draw."""
    if said.group in columns or said.group == AuditColumns.group:
        return
    if said.group_names is None or difflib.get_close_matches(said.group, columns, n=1, cutoff=0.75):
        require_column(said.group, columns, "the table")


def _groups(column: pd.Series[Any], said: AuditColumns) -> tuple[IntArray, tuple[str, ...]]:
    answered = filled(column)
    if said.group_names is None and not answered.any():
        raise InputError("Nobody has answered yet: name the groups (--groups female,male).")
    if not answered.any():
        names = read_groups(None, column.to_frame(), said.reference, said.group_names)[1]
        return np.full(len(column), UNKNOWN), names
    if said.group_names is None:
        return read_groups(said.group, column.to_frame(said.group), said.reference, None)
    names = read_groups(None, column.to_frame(), said.reference, said.group_names)[1]
    place = {name: code for code, name in enumerate(names)}
    cells = column.astype(str).str.strip()
    codes = np.where(answered, cells.map(place).fillna(len(names)).to_numpy(), UNKNOWN).astype(np.int64)
    if (codes == len(names)).any():
        raise InputError(f"{int((codes == len(names)).sum())} answers name none of the groups {', '.join(names)}.")
    return codes, names


def _two_labels(labels: Labels) -> Labels:
    if len(labels.names) > 2:
        raise InputError(
            f"An audit compares two labels, and this column has {len(labels.names)}: make one of them against the rest."
        )
    return labels


def _decisions(name: str, column: pd.Series[Any], label_names: Sequence[str], how: Dialect) -> IntArray:
    """0/1 from decisions, the label's own words, or probabilities (above one half is a yes)."""
    if column.isna().any():
        raise InputError(f"Column {name!r} has {int(column.isna().sum())} empty cells: every row needs a prediction.")
    words = column.astype(str).str.strip()
    if words.isin(list(label_names)).all():
        return np.asarray((words == label_names[1]).to_numpy(), dtype=np.int64)
    values = read_numbers(name, column, how)
    if ((values < 0) | (values > 1)).any():
        raise InputError(f"Column {name!r} holds neither 0/1 nor probabilities nor {' / '.join(label_names)}.")
    return np.asarray(values > 0.5, dtype=np.int64)


def _proxies(frame: pd.DataFrame, said: AuditColumns, names: Sequence[str]) -> FloatArray:
    """(n, g) from a column per group; of two groups one column is enough."""
    columns = said.proxies or {}
    unknown = [group for group in columns if group not in names]
    if unknown or len(columns) < len(names) - 1:
        raise InputError(f"Give a column of probabilities for each of {', '.join(names)} (of two groups one will do).")
    given = {group: read_numbers(column, frame[column], said.dialect) for group, column in columns.items()}
    total = np.sum(list(given.values()), axis=0)
    filled = np.stack([given.get(name, 1 - total) for name in names], axis=1)
    if np.isnan(filled).any() or (filled < -1e-6).any() or (filled > 1 + 1e-6).any():
        raise InputError("Proxies must be probabilities between 0 and 1 in every row.")
    filled = np.clip(filled, 0, 1)
    return np.asarray(filled / filled.sum(axis=1, keepdims=True))
