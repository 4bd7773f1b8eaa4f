"""What a named dataset is: a row that says where its file comes from; and the synthetic population of Figure 1.

A person's group is drawn first, then the label by the group's positive rate, then two features, normal and
independent given group and label:

| | group 0 (circle) | ... group k ... | group g - 1 (triangle) |
| --- | --- | --- | --- |
| share of the population | .3 (for two) | grows linearly | .7 (for two) |
| P(label = 1 given the group) | .1 | grows linearly | .7 |
| merit, given the label | mean -1 or +1, deviation 1 | the same | the same |
| neighbourhood, given the group | mean -1 (for two), deviation .8 | 2 more per group | mean 1 (for two) |

Given the label, merit does not depend on the group, so every boundary merit = constant has exactly the same
true and false positive rates in all groups. But neighbourhood foretells the group and by it the label, so that
the most accurate boundary leans: it accepts too few positives of the first group and too many negatives of the
last. For two groups a logistic regression on everybody reaches accuracy .864 with TPR .68 / .89 and FPR .07 / .24
(gap .38); the fair boundary merit = 0 reaches .841 with TPR .84 and FPR .16 in both.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import Dataset, IntArray, Task
from apod.data.sources import Origin, load_bytes
from apod.errors import InputError
from apod.randomness import generator

SHAPES = ("circle", "square", "diamond", "pentagon", "hexagon", "star", "cross", "triangle")
POSITIVE_RATE_FIRST, POSITIVE_RATE_LAST = 0.1, 0.7
MERIT_MEANS, MERIT_DEVIATION = (-1.0, 1.0), 1.0
NEIGHBOURHOOD_STEP, NEIGHBOURHOOD_DEVIATION = 2.0, 0.8


def group_shares(n_groups: int) -> npt.NDArray[np.float64]:
    """P(group), growing linearly from the first group to the last; .3 and .7 for two."""
    weights = np.linspace(3.0, 7.0, n_groups)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def positive_rates(n_groups: int) -> npt.NDArray[np.float64]:
    """P(label = 1 given the group), growing linearly from .1 to .7."""
    return np.linspace(POSITIVE_RATE_FIRST, POSITIVE_RATE_LAST, n_groups)


def make_example(n: int = 4000, n_groups: int = 2, seed: int = 0) -> Dataset:
    """A generated population of n people in two to eight groups; the same seed gives the same people."""
    if not 2 <= n_groups <= len(SHAPES):
        raise InputError(f"n_groups is {n_groups}: the example has 2 to {len(SHAPES)} groups.")
    if n < 1:
        raise InputError(f"n is {n}: the example needs at least one person.")
    rng = generator(seed, "example", n_groups)
    groups = rng.choice(n_groups, size=n, p=group_shares(n_groups))
    labels = (rng.random(n) < positive_rates(n_groups)[groups]).astype(np.int64)
    merit = np.asarray(MERIT_MEANS)[labels] + MERIT_DEVIATION * rng.standard_normal(n)
    centre = NEIGHBOURHOOD_STEP * (groups - (n_groups - 1) / 2)
    neighbourhood = centre + NEIGHBOURHOOD_DEVIATION * rng.standard_normal(n)
    return Dataset(
        name="example" if n_groups == 2 else f"example-{n_groups}",
        features=pd.DataFrame({"merit": merit, "neighbourhood": neighbourhood}),
        labels=labels,
        groups=groups.astype(np.int64),
        group_names=(*SHAPES[: n_groups - 1], SHAPES[-1]),
        rows=np.arange(n, dtype=np.int64),
        label_names=("negative", "positive"),
        task=Task(budget=30, embedding=64, hidden=(32,), metric="delta_eo"),
        notes=("Generated people: a boundary along merit alone has no gap between the groups.",),
    )


MOST_HEADER_LINES = 3


@dataclass(frozen=True, kw_only=True)
class NamedDataset(ABC):
    """What every named dataset says of itself; how it is loaded is its kind's business."""

    name: str
    what: str
    n_rows: int
    label_names: tuple[str, str]
    group_names: tuple[str, ...]
    task: Task
    licence: str
    origin: Origin | None = None
    notes: tuple[str, ...] = ()

    @abstractmethod
    def load(self, data_dir: str | Path | None = None) -> Dataset:
        """The dataset, from the first source that has it."""


@dataclass(frozen=True, kw_only=True)
class GeneratedDataset(NamedDataset):
    """The generated example population, always the one of seed 0."""

    def load(self, data_dir: str | Path | None = None) -> Dataset:
        """The generated people; needs no file."""
        return make_example(self.n_rows)


@dataclass(frozen=True, kw_only=True)
class TableDataset(NamedDataset):
    """A public table: which cells are label, group, numbers, categories, and which are no features at all."""

    origin: Origin
    separator: str
    columns: tuple[str, ...]  # of the file, in its order
    by_name: bool = False  # columns are found by the header instead of by position
    cells_sha256: str  # of all cells that are features, label or (with `pin_group`) group
    pin_group: bool = True
    label: str
    positive: str  # the label's cell that means 1
    group: str  # column the group is read from
    is_reference: Callable[[pd.Series[Any]], npt.NDArray[np.bool_]]  # True = last group, False = first
    dropped: tuple[str, ...] = ()  # besides label and group
    numbers: tuple[str, ...]  # all other features are categories
    missing: str | None = None  # cell that makes a row incomplete; incomplete rows are left out

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns: never the label, the group's column, or one of the dropped."""
        return tuple(c for c in self.columns if c not in (self.label, self.group, *self.dropped))

    def load(self, data_dir: str | Path | None = None) -> Dataset:
        """The dataset, from the first source that has its file."""
        data, _ = load_bytes(self.name, self.origin, self.same_table, data_dir)
        return self.build(self.cells(data))

    def cells(self, data: bytes) -> pd.DataFrame:
        """All rows of the file as clean text, numbers in one spelling, header or not."""
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        raw = pd.read_csv(
            io.BytesIO(data),
            sep=self.separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
        )
        if self.by_name:
            header = raw.iloc[0].tolist()
            raw = raw.iloc[1:, [header.index(column) for column in self.columns]]
        else:
            first = self.columns.index(self.numbers[0])
            readable = pd.to_numeric(raw.iloc[:MOST_HEADER_LINES, first], errors="coerce").notna()
            raw = raw.iloc[int(readable.to_numpy().argmax()) :, : len(self.columns)]
        raw = raw.set_axis(list(self.columns), axis=1).reset_index(drop=True)
        return raw.apply(_clean)

    def same_table(self, data: bytes) -> bool:
        """Whether a file with unknown bytes holds exactly the known table."""
        try:
            return cells_digest(self.cells(data), self._pinned()) == self.cells_sha256
        except (ValueError, IndexError, OSError, EOFError, zlib.error):  # not even a table of this shape
            return False

    def build(self, cells: pd.DataFrame) -> Dataset:
        """The Dataset of these cells: incomplete rows left out, label and group coded, features typed."""
        used = cells[[*self.features, self.label, self.group]]
        rows = np.arange(len(used))
        if self.missing is not None:
            rows = np.flatnonzero(~(used == self.missing).any(axis=1).to_numpy())
        used = used.iloc[rows].reset_index(drop=True)
        return Dataset(
            name=self.name,
            features=pd.DataFrame({column: self._typed(used[column]) for column in self.features}),
            labels=_codes(used[self.label].to_numpy() == self.positive),
            groups=_codes(self.is_reference(used[self.group])),
            group_names=self.group_names,
            rows=rows.astype(np.int64),
            label_names=self.label_names,
            task=self.task,
            notes=self.notes,
            attribute=self.group,
        )

    def _pinned(self) -> list[str]:
        return [*self.features, self.label, *([self.group] if self.pin_group else [])]

    def _typed(self, column: pd.Series[Any]) -> pd.Series[Any]:
        return pd.to_numeric(column) if column.name in self.numbers else column.astype("category")


def cells_digest(cells: pd.DataFrame, columns: list[str]) -> str:
    """sha256 over the cells of these columns, column by column; the same for every edition of one table."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update("\x1f".join([column, *cells[column]]).encode())
        digest.update(b"\x1e")
    return digest.hexdigest()


def _clean(column: pd.Series[Any]) -> pd.Series[Any]:
    codes, uniques = pd.factorize(column)
    spelled = np.array([_spell(str(cell)) for cell in uniques], dtype=object)
    return pd.Series(spelled[codes], index=column.index, dtype=object)


def _spell(cell: str) -> str:
    """A cell without blanks around it, a number in its shortest form (1.0 and 1 are the same cell)."""
    cell = cell.strip()
    try:
        number = float(cell)
    except ValueError:
        return cell
    return str(int(number)) if number.is_integer() else repr(number)


def _codes(mask: npt.NDArray[np.bool_]) -> IntArray:
    return mask.astype(np.int64)
