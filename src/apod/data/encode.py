"""Raw columns to a numeric matrix: one-hot categories and standardised numbers, learned from `fit`'s rows only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import IntArray, as_frame, category_codes, is_number
from apod.errors import CheckpointError, InputError
from apod.files import Unchecked

MISSING = "missing"
"""Category of a cell without a value. A category that is spelled like this is taken for the same."""

MAX_CATEGORIES = 256
"""How many categories of one column get a column of their own."""

FEWEST_EMBEDDED, EMBEDDED = 32, 200
"""So many columns of numbers that differ in a number at the end are an embedding: `face.0`, `face.1`, ...; `x0`, ..."""
FARTHEST = 30.0
"""Times the median deviation: an embedding with a column of more has columns in units of their own."""

SURE = 0.005
"""Probabilities nearer to 0 or 1 than this are read as this near: no column is to settle a question alone."""

Floats = npt.NDArray[np.float64]
ReadAs = Literal["number", "log odds", "log"]
FORMAT = 2
READABLE = (1, 2)  # 1: number columns without gaps


@dataclass(frozen=True)
class NumberColumn:
    """A column that becomes (x - mean) / scale; a missing x is `fill`, and a 0/1 column says so where `fit` saw one.

    A column of probabilities is read as their log odds, or logarithms: x is these then.
    """

    name: str
    mean: float
    scale: float
    fill: float | None = None  # the median; None where a number may not be missing
    flags_missing: bool = False
    read_as: ReadAs = "number"

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name, f"{self.name}={MISSING}") if self.flags_missing else (self.name,)

    def encode(self, column: pd.Series[Any]) -> npt.NDArray[np.floating[Any]]:
        """The standardised column and, where numbers were missing in `fit`, which ones are: (n, 1 or 2)."""
        if not is_number(column) and column.notna().any():
            raise InputError(f"Column {self.name!r} held numbers when the encoder was fitted, and now holds text.")
        values = _numbers(self.name, column, gaps=self.fill is not None)
        missing = np.isnan(values)
        if self.fill is not None:
            values = np.where(missing, self.fill, values)
        values = _read_as(self.name, values, self.read_as)
        with np.errstate(over="ignore"):  # refused just below
            scaled = ((values - self.mean) / self.scale).astype(np.float32)
        if not np.isfinite(scaled).all():
            raise InputError(f"Column {self.name!r} has a value too large to be scaled: it would become infinity.")
        return np.stack([scaled, missing.astype(np.float32)], axis=1) if self.flags_missing else scaled[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A column that becomes one 0/1 column per category; an unknown category becomes all zeros."""

    name: str
    categories: tuple[str, ...]

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, column: pd.Series[Any]) -> npt.NDArray[np.floating[Any]]:
        """The one-hot columns, (n, categories)."""
        codes, keys = _with_missing(self.name, column)
        place = {category: i for i, category in enumerate(self.categories)}
        places = np.array([place.get(key, -1) for key in keys], dtype=np.int64)[codes]
        hot = np.zeros((len(codes), len(self.categories)), dtype=np.float32)
        rows = np.flatnonzero(places >= 0)
        hot[rows, places[rows]] = 1.0
        return hot


class TableEncoder:
    """One-hot encoding and standard scaling that know only the rows given to `fit`.

    Numbers and booleans are standardised (population standard deviation; a constant column becomes 0). A missing
    number is the median, and where `fit` saw one, a 0/1 column says which are; with `gaps=False` it raises InputError,
    as infinity always does. All other columns are categories: 0/1 columns in alphabetical order, left unscaled. A
    missing cell is the category "missing"; a category not seen in `fit` gets zeros; beyond `max_categories` only the
    most frequent ones get a column.

    After `fit`: `columns_` (what became of each raw column), `n_features_in_` raw columns, `feature_names_` of
    the d encoded columns, `blocks_` (d,) the raw column each encoded one came from.
    """

    columns_: tuple[NumberColumn | CategoryColumn, ...]
    n_features_in_: int
    feature_names_: tuple[str, ...]
    blocks_: IntArray

    def __init__(self, max_categories: int = MAX_CATEGORIES, *, gaps: bool = True) -> None:
        self.max_categories, self.gaps = max_categories, gaps

    def fit(self, X: Any, rows: IntArray | None = None, read_as: Mapping[str, ReadAs] | None = None) -> Self:
        """Learn means, deviations and categories from these rows and no others: from `rows` of X where given.

        What is wrong with a number is said of any row of X, by its position in X. Columns that `read_as` names hold
        probabilities.
        """
        frame = as_frame(X)
        if len(frame) == 0:
            raise InputError(f"X has 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required.")
        if rows is not None:
            for name in frame.columns:
                if is_number(frame[name]):
                    _numbers(str(name), frame[name], self.gaps)
            frame = frame.iloc[rows]
        told = read_as or {}
        return self._settle(
            tuple(self._fit_column(str(name), frame[name], told.get(str(name), "number")) for name in frame.columns)
        )

    @classmethod
    def of_numbers(cls, names: Sequence[str], means: Floats, scales: Floats) -> Self:
        """An encoder of number columns whose moments are known."""
        triples = zip(names, means.tolist(), scales.tolist(), strict=True)
        return cls()._settle(tuple(NumberColumn(*one) for one in triples))

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """The encoded rows, (n, d) float32; columns are found by name, those of plain arrays by position."""
        if not hasattr(self, "columns_"):
            raise InputError("This TableEncoder is not fitted yet: call fit first.")
        frame = self._align(as_frame(X))
        encoded = np.empty((len(frame), len(self.feature_names_)), dtype=np.float32)
        start = 0
        for column in self.columns_:
            stop = start + len(column.encoded_names)
            encoded[:, start:stop] = column.encode(frame[column.name])
            start = stop
        return encoded

    def embedded_blocks(self) -> list[EmbeddedBlock]:
        """The encoded columns that hold an embedding, each."""
        place = {name: at for at, name in enumerate(self.feature_names_)}
        numbers = [column for column in self.columns_ if isinstance(column, NumberColumn)]
        return [
            EmbeddedBlock(
                np.array([place[numbers[at].name] for at in block]),
                own_proportions(np.array([numbers[at].scale for at in block])),
            )
            for block in embedded_blocks([column.name for column in numbers])
        ]

    def fit_transform(self, X: Any) -> npt.NDArray[np.float32]:
        """`fit(X)`, then `transform(X)`."""
        return self.fit(X).transform(X)

    def to_dict(self) -> dict[str, object]:
        """All that was learned, as plain data that JSON holds without loss."""
        columns = [
            {"name": c.name, "mean": c.mean, "scale": c.scale, "fill": c.fill, "flags_missing": c.flags_missing}
            | ({} if c.read_as == "number" else {"read_as": c.read_as})
            if isinstance(c, NumberColumn)
            else {"name": c.name, "categories": list(c.categories)}
            for c in self.columns_
        ]
        return {"format": FORMAT, "max_categories": self.max_categories, "columns": columns}

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Self:
        """The encoder that `to_dict` described."""
        if saved.get("format") not in READABLE:
            raise CheckpointError(f"A saved encoder of format {saved.get('format')!r} cannot be read: need {FORMAT}.")
        try:
            columns = tuple(_column_from(entry) for entry in saved["columns"])
            return cls(int(saved["max_categories"]))._settle(columns)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError("The saved encoder is damaged: fit and save it again.") from error

    def _settle(self, columns: tuple[NumberColumn | CategoryColumn, ...]) -> Self:
        self.columns_ = columns
        self.n_features_in_ = len(columns)
        self.feature_names_ = tuple(name for column in columns for name in column.encoded_names)
        widths = [len(column.encoded_names) for column in columns]
        self.blocks_ = np.repeat(np.arange(len(columns), dtype=np.int64), widths)
        return self

    def _fit_column(self, name: str, column: pd.Series[Any], read_as: ReadAs) -> NumberColumn | CategoryColumn:
        if is_number(column):
            return _fitted(name, _numbers(name, column, self.gaps), self.gaps, read_as)
        if read_as != "number":
            raise InputError(f"Column {name!r} is to hold probabilities, and holds text: give numbers from 0 to 1.")
        codes, keys = _with_missing(name, column)
        counts: dict[str, int] = {}
        for key, count in zip(keys, np.bincount(codes, minlength=len(keys)), strict=True):
            if count:  # a pandas category nobody in these rows has must not show
                counts[key] = counts.get(key, 0) + int(count)
        frequent = sorted(counts, key=lambda key: (-counts[key], key))[: self.max_categories]
        return CategoryColumn(name, tuple(sorted(frequent)))

    def _align(self, frame: pd.DataFrame) -> pd.DataFrame:
        names = [column.name for column in self.columns_]
        if frame.shape[1] != len(names):
            raise InputError(
                f"X has {frame.shape[1]} features, but TableEncoder is expecting {len(names)} features as input."
            )
        if list(frame.columns) == [f"x{i}" for i in range(len(names))]:  # a plain array: by position
            return frame.set_axis(names, axis=1)
        lost = [name for name in names if name not in frame.columns]
        if lost:
            raise InputError(f"X lacks column {lost[0]!r}, which was there when the encoder was fitted.")
        return frame


@dataclass(frozen=True, eq=False)
class EmbeddedBlock:
    """The encoded columns of one embedding."""

    places: IntArray
    deviations: Floats  # before they were standardised: how much of the embedding each column is


def embedded_blocks(names: Sequence[str]) -> list[IntArray]:
    """The places of numbers named alike but for a number at the end: what pictures or texts became, each by itself.

    Names as `face.0` are those of our own embeddings; any other is believed from 200 columns on.
    """
    stems: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        stem = name.rstrip("0123456789")
        if stem != name:
            stems.setdefault(stem, []).append(place)
    least = {stem: FEWEST_EMBEDDED if stem.endswith(".") else EMBEDDED for stem in stems}
    return [np.array(places) for stem, places in stems.items() if len(places) >= least[stem]]


def own_proportions(deviations: Floats) -> Floats:
    """How much of an embedding each column is: its deviation; all the same where columns have units of their own."""
    apart = deviations.max() > FARTHEST * max(float(np.median(deviations)), 1e-300)
    return np.ones(len(deviations)) if apart else deviations


def check_numbers(X: Any, rows: IntArray, gaps: bool = True) -> None:
    """InputError, with the column and the row, where a number cannot be standardised by what `rows` of X show."""
    if not isinstance(X, pd.DataFrame):
        X = pd.DataFrame(np.asarray(X), copy=False).add_prefix("x")
    for place, name in enumerate(map(str, X.columns)):
        column = X.iloc[:, place]
        if is_number(column):
            _fitted(name, _numbers(name, column, gaps)[rows], gaps).encode(column)


def _column_from(entry: Unchecked) -> NumberColumn | CategoryColumn:
    if "categories" in entry:
        return CategoryColumn(str(entry["name"]), tuple(str(c) for c in entry["categories"]))
    fill, read_as = entry.get("fill"), entry.get("read_as", "number")
    if read_as not in get_args(ReadAs):
        raise ValueError(read_as)
    return NumberColumn(
        str(entry["name"]),
        float(entry["mean"]),
        float(entry["scale"]),
        None if fill is None else float(fill),
        entry.get("flags_missing") is True,
        read_as,
    )


def _fitted(name: str, values: Floats, gaps: bool, read_as: ReadAs = "number") -> NumberColumn:
    """The number column these values teach."""
    missing = np.isnan(values)
    if not gaps or not missing.any():
        moments = _mean_and_scale(_read_as(name, values, read_as))
        return NumberColumn(name, *moments, _median(values) if gaps else None, read_as=read_as)
    fill = 0.0 if missing.all() else _median(values[~missing])
    moments = _mean_and_scale(_read_as(name, np.where(missing, fill, values), read_as))
    return NumberColumn(name, *moments, fill, flags_missing=True, read_as=read_as)


def _read_as(name: str, values: Floats, read_as: ReadAs) -> Floats:
    """Probabilities on the scale that they are read on; InputError where one is none."""
    if read_as == "number":
        return values
    outside = ~((values >= 0) & (values <= 1))
    if outside.any():
        raise InputError(
            f"Column {name!r} holds {values[outside][0]:g} in row {int(outside.argmax())} (counting from 0): "
            "probabilities are numbers from 0 to 1."
        )
    inside = values.clip(SURE, 1 - SURE)
    return np.asarray(np.log(inside) - (np.log1p(-inside) if read_as == "log odds" else 0.0))


def _median(values: Floats) -> float:
    return 2 * float(np.median(values / 2))  # the sum of two very large numbers would be infinite


def _numbers(name: str, column: pd.Series[Any], gaps: bool) -> Floats:
    """The column's numbers, NaN where one is missing; InputError where one is infinite, or missing and may not be."""
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isinf(values) if gaps else ~np.isfinite(values)
    if bad.any():
        what = "NaN (a missing value)" if np.isnan(values[bad][0]) else "infinity (inf)"
        raise InputError(
            f"Column {name!r} contains {what} in {int(bad.sum())} row(s), first in row {int(bad.argmax())} "
            "(counting from 0): fill in a number or remove those rows."
        )
    return values


def _mean_and_scale(values: Floats) -> tuple[float, float]:
    limits = np.finfo(np.float64)
    peak = float(np.abs(values).max())
    if peak < limits.tiny:
        return 0.0, 1.0
    shares = values / peak  # squares of very large or very small numbers would leave the range of floats
    mean, deviation = float(shares.mean()), float(shares.std())
    spread = deviation > 10 * limits.eps and deviation * peak > limits.tiny
    return mean * peak, deviation * peak if spread else max(1.0, peak)  # rounding alone must not be blown up


def _with_missing(name: str, column: pd.Series[Any]) -> tuple[IntArray, list[str]]:
    """Each row's position in a list of category names; the last position is the missing cells."""
    codes, keys = category_codes(name, column)
    return np.where(codes < 0, len(keys), codes), [*keys, MISSING]
