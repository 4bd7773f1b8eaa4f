"""The vocabulary: a dataset, its task, its three parts; any table a user may hold as one frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pandas.api import types
from pyarrow.interchange import from_dataframe
from scipy import sparse

from apod.data.contents import Content
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


@dataclass(frozen=True, eq=False)
class Grouping:
    """One sensitive attribute: its groups, and everybody's code where one is on record."""

    name: str
    names: tuple[str, ...]  # the reference is the last
    codes: IntArray  # (n,) UNKNOWN where not on record
    known: IntArray | None = None  # (n,) groups the user hands in, which cost nothing; UNKNOWN: may be asked about

    def take(self, rows: IntArray) -> Grouping:
        """The same of these rows, in this order."""
        return replace(self, codes=self.codes[rows], known=None if self.known is None else self.known[rows])


def answer_code(codes: Sequence[int], sizes: Sequence[int]) -> int:
    """One number for a person's groups in all attributes of so many groups each; of one attribute the code itself.

    UNKNOWN where none of them could be told.
    """
    found, step = UNKNOWN, 1
    for code, size in zip(codes, sizes, strict=True):
        found += (code + 1) * step
        step *= size + 1
    return found


def answer_count(sizes: Sequence[int]) -> int:
    """How many numbers of `answer_code` there are, besides UNKNOWN."""
    return answer_code([size - 1 for size in sizes], sizes) + 1


def answer_codes(code: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The group in every attribute, UNKNOWN where that could not be told, behind a number of `answer_code`."""
    found, rest = [], code + 1
    for size in sizes:
        rest, own = divmod(rest, size + 1)
        found.append(own - 1)
    return tuple(found)


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
    """Rows with a label, and a group where one is on record.

    `features` never holds the label, the sensitive attribute, or the column it was derived from. `groups` are
    codes into `group_names` with UNKNOWN where nothing is on record; only an annotator and the report may read
    them. The last group is the reference (for two groups: the paper's group 1), the first the unprivileged one.
    """

    name: str
    features: pd.DataFrame  # (n, columns) raw values; object/category columns are categories, the rest numbers
    labels: IntArray  # (n,) 0 or 1; of K labels 0 to K - 1
    groups: IntArray  # (n,) codes, UNKNOWN where not on record
    group_names: tuple[str, ...]
    rows: IntArray  # (n,) zero-based data row in the source file, before incomplete rows were dropped
    label_names: tuple[str, ...] = ("0", "1")
    label_values: tuple[LabelValue, ...] = (0, 1)  # as the file has them: what a classifier is to predict
    task: Task = field(default_factory=Task)
    notes: tuple[str, ...] = ()  # what a reader of the report should know about this data
    own: bool = False  # a user's file: its name says nothing and must change no random draw
    known: IntArray | None = None  # (n,) groups the user hands in, which cost nothing; UNKNOWN: may be asked about
    embedded: bool = False  # the features are an embedding, as given
    attribute: str = "group"  # what the groups are values of
    contents: tuple[Content, ...] = ()  # pictures and texts, until they are embedded among the features
    shown: pd.DataFrame | None = None  # what a person is shown of a row, where that is not the features
    weights: npt.NDArray[np.float64] | None = None  # (n,) how many people a row stands for; None: all alike
    weight: str | None = None  # the column that says so
    further: tuple[Grouping, ...] = ()  # sensitive attributes besides the first; one question asks about all of them

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """All sensitive attributes, the first included."""
        return (Grouping(self.attribute, self.group_names, self.groups, self.known), *self.further)

    def take(self, rows: IntArray) -> Dataset:
        """These rows, in this order."""
        return replace(
            self,
            features=self.features.iloc[rows].reset_index(drop=True),
            labels=self.labels[rows],
            groups=self.groups[rows],
            rows=self.rows[rows],
            known=None if self.known is None else self.known[rows],
            contents=tuple(content.take(rows) for content in self.contents),
            shown=None if self.shown is None else self.shown.iloc[rows].reset_index(drop=True),
            further=tuple(grouping.take(rows) for grouping in self.further),
            weights=None if self.weights is None else self.weights[rows],
        )

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return len(self.label_names)

    @property
    def key(self) -> str:
        """What random draws are keyed by beside the seed: the same file under another name draws the same."""
        return "own file" if self.own else self.name


@dataclass(frozen=True, eq=False)
class Split:
    """Row indices of the three parts; disjoint, sorted, together all rows unless `drawn_parts` left some out."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split_rows(name: str, n: int, fractions: tuple[float, float, float], seed: int) -> Split:
    """Shuffle n rows by seed and dataset name, cut at the fractions (rounded down; the rest is test)."""
    order = generator(seed, "split", name).permutation(n)
    first, second = int(n * fractions[0]), int(n * fractions[0]) + int(n * fractions[1])
    return Split(np.sort(order[:first]), np.sort(order[first:second]), np.sort(order[second:]))


def drawn_parts(split: Split, most: tuple[int, int, int], seed: int, name: str, keep: IntArray | None = None) -> Split:
    """At most so many people of each part, drawn at random by seed and dataset name; `keep` stay in training."""
    drawn = []
    for part, rows, size in zip(("training", "validation", "test"), vars(split).values(), most, strict=True):
        rng = generator(seed, "part of a large pool", part, name)
        drawn.append(rows if len(rows) <= size else np.sort(rng.choice(rows, size, replace=False)))
    if keep is not None:
        drawn[0] = np.union1d(drawn[0], np.intersect1d(split.train, keep))
    return Split(*drawn)


def check_parts(dataset: Dataset, split: Split) -> None:
    """InputError where there is nothing to compare, or a part holds one label only."""
    for grouping in dataset.groupings:
        if len(grouping.names) < 2:
            what = f"{grouping.name!r} of {dataset.name}" if dataset.further else dataset.name
            raise InputError(f"{what} has only one group: fairness needs at least two to compare.")
    for name, rows in (("training", split.train), ("validation", split.validation), ("test", split.test)):
        names = dataset.label_names
        missing = np.flatnonzero(np.bincount(dataset.labels[rows], minlength=len(names)) == 0)
        if len(names) > 2 and len(missing):
            people = int((dataset.labels == missing[0]).sum())
            raise InputError(
                f"Nobody in the {name} part of {dataset.name} ({len(rows)} rows) has the label {names[missing[0]]!r}, "
                f"which {people} people have in all: give more rows, another split, or merge it with another label."
            )
        if len(missing):
            raise InputError(
                f"The {name} part of {dataset.name} ({len(rows)} rows) does not hold both labels: "
                "give more rows or another split."
            )


_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean"}
_WORDS = {"string", "categorical", "mixed", "mixed-integer", "empty"}


def as_frame(X: Any) -> pd.DataFrame:
    """X as a pandas frame with unique text column names; the caller's own table is never changed.

    Takes pandas frames, NumPy arrays and nested lists (columns become x0, x1, ...), and any table that speaks
    Arrow's capsule protocol, has `to_pandas()`, or the dataframe interchange protocol (polars, pyarrow, ...).
    Object columns that hold nothing but numbers become numbers; other non-numeric columns are categories.
    """
    frame = _to_pandas(X)
    frame.columns = pd.Index([str(name) for name in frame.columns])
    refuse_repeated(list(frame.columns))
    if frame.shape[1] == 0:
        raise InputError(f"X has 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.")
    for position, name in enumerate(frame.columns):
        column = frame.iloc[:, position]
        if column.dtype == object:
            frame[name] = _settle_objects(str(name), column)
        elif not (is_number(column) or is_words(column)):
            raise InputError(
                f"Column {name!r} is of type {column.dtype}, which is neither a number nor text: "
                "turn it into one of them, or leave the column out."
            )
    return frame


def is_number(column: pd.Series[Any]) -> bool:
    """Whether the encoder scales this column (numbers and booleans) instead of one-hot encoding it."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return False
    return bool(types.is_bool_dtype(column.dtype) or types.is_numeric_dtype(column.dtype))


def is_words(column: pd.Series[Any]) -> bool:
    """Whether the encoder reads this column as categories."""
    return isinstance(column.dtype, pd.CategoricalDtype) or bool(types.is_string_dtype(column.dtype))


def category_codes(name: str, column: pd.Series[Any]) -> tuple[IntArray, list[str]]:
    """Each row's position in the list of category names that follows; -1 where the cell is missing.

    A code read as 1.0, because a cell was missing elsewhere in the column, is the category "1" like any other 1.
    """
    codes, uniques = pd.factorize(column.astype(object) if is_number(column) else column)
    return codes.astype(np.int64), [category_name(name, value) for value in uniques]


def refuse_repeated(names: list[str]) -> None:
    """InputError naming the first column name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"Column name {name!r} occurs more than once: rename or remove one of them.")
        seen.add(name)


def _to_pandas(X: Any) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X.copy(deep=False)
    if sparse.issparse(X):
        raise InputError("X is a sparse matrix, which is not supported: pass X.toarray().")
    if isinstance(X, pd.Series):
        return X.to_frame()
    if hasattr(X, "__arrow_c_stream__"):
        return pa.table(X).to_pandas()  # type: ignore[no-any-return]
    if hasattr(X, "to_pandas"):
        return _to_pandas(X.to_pandas())
    if hasattr(X, "__dataframe__"):
        return from_dataframe(X).to_pandas()  # type: ignore[no-any-return]
    return _array_to_pandas(X)


def _array_to_pandas(X: Any) -> pd.DataFrame:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError("X is not a table: its rows differ in length.") from error
    if np.iscomplexobj(array):
        raise InputError("Complex data not supported: pass real numbers.")
    if array.ndim != 2:
        raise InputError(
            f"Expected a 2D array, got {array.ndim}D instead. Reshape your data: one row per instance, "
            "one column per feature."
        )
    if array.dtype.kind in "USO":
        array = array.astype(object)
    elif array.dtype.kind not in "biuf":
        raise InputError(f"X is an array of {array.dtype}: pass numbers or text.")
    return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])


def _settle_objects(name: str, column: pd.Series[Any]) -> pd.Series[Any]:
    """An object column as numbers where all its values are numbers, else unchanged, as categories."""
    kind = types.infer_dtype(column, skipna=True)
    if kind in _NUMBERS:
        return column.astype("float64")
    if kind not in _WORDS or (kind.startswith("mixed") and not _all_plain(column)):
        raise InputError(
            f"Column {name!r} holds values that are neither numbers nor text ({kind}): "
            "turn them into one of them, or leave the column out."
        )
    return column


def _all_plain(column: pd.Series[Any]) -> bool:
    plain = (str, bool, int, float, np.generic)
    return all(isinstance(value, plain) for value in column.dropna())


def category_name(name: str, value: Any) -> str:
    """A cell as a category is called; `name` is the column's, for an error."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, str | bool | int | float | np.generic):
        return str(value)
    raise InputError(f"Column {name!r} holds {type(value).__name__} values: turn them into numbers or text.")
