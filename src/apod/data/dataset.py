"""The vocabulary: a dataset, its task, its three parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.errors import InputError
from apod.randomness import generator

UNKNOWN = -1
"""Code of a group nobody recorded. Never a group of its own."""

MOST_GROUPS = 32
"""Groups that can be compared: the posterior of f_a has weights for each, and grows with the square of their number."""

IntArray = npt.NDArray[np.int64]
FairnessMetric = Literal["eop", "delta_eo"]
LabelValue = str | bool | int | float


def check_group_count(count: int) -> None:
    """InputError where there are more groups than can be compared."""
    if count > MOST_GROUPS:
        raise InputError(f"There are {count} groups, and at most {MOST_GROUPS} can be compared: merge the small ones.")


@dataclass(frozen=True)
class Task:
    """What the paper fixes per dataset: network sizes, budget, split, the metric of its figure."""

    budget: int | float = 30  # a count of answers, or a share (below 1) of the training part
    embedding: int = 64  # M, width of the body's output
    hidden: tuple[int, ...] = (32,)  # hidden layers of the head; one entry = the table's "2-layer MLP"
    metric: FairnessMetric = "delta_eo"
    split: tuple[float, float, float] = (0.25, 0.25, 0.5)  # training, validation, test


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with a binary label, and a group where one is on record.

    `features` never holds the label, the sensitive attribute, or the column it was derived from. `groups` are
    codes into `group_names` with UNKNOWN where nothing is on record; only an annotator and the report may read
    them. The last group is the reference (for two groups: the paper's group 1), the first the unprivileged one.
    """

    name: str
    features: pd.DataFrame  # (n, columns) raw values; object/category columns are categories, the rest numbers
    labels: IntArray  # (n,) 0 or 1
    groups: IntArray  # (n,) codes, UNKNOWN where not on record
    group_names: tuple[str, ...]
    rows: IntArray  # (n,) zero-based data row in the source file, before incomplete rows were dropped
    label_names: tuple[str, str] = ("0", "1")
    label_values: tuple[LabelValue, LabelValue] = (0, 1)  # as the file has them: what a classifier is to predict
    task: Task = field(default_factory=Task)
    notes: tuple[str, ...] = ()  # what a reader of the report should know about this data
    own: bool = False  # a user's file: its name says nothing and must change no random draw
    known: IntArray | None = None  # (n,) groups the user hands in, which cost nothing; UNKNOWN: may be asked about
    embedded: bool = False  # the features are an embedding, as given

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def key(self) -> str:
        """What random draws are keyed by beside the seed: the same file under another name draws the same."""
        return "own file" if self.own else self.name


@dataclass(frozen=True, eq=False)
class Split:
    """Row indices of the three parts; disjoint, sorted, together all rows."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split_rows(name: str, n: int, fractions: tuple[float, float, float], seed: int) -> Split:
    """Shuffle n rows by seed and dataset name, cut at the fractions (rounded down; the rest is test)."""
    order = generator(seed, "split", name).permutation(n)
    first, second = int(n * fractions[0]), int(n * fractions[0]) + int(n * fractions[1])
    return Split(np.sort(order[:first]), np.sort(order[first:second]), np.sort(order[second:]))
