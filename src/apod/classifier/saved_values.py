"""What a saved classifier may hold: every value checked before anything is built from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data import TableEncoder
from apod.data.columns import MOST_LABELS
from apod.data.encode import NumberColumn
from apod.errors import CheckpointError, InputError
from apod.files import Unchecked

_WIDEST = 40_000  # bytes of a label: the type of an array of texts is as wide as its longest text ever was
_LABEL_KINDS = "biufUO"  # of NumPy dtypes: booleans, numbers, text, and objects that are one of these


def plain(value: Any) -> Any:
    """A setting or label as JSON holds it; a random generator is left out."""
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InputError(f"A {type(value).__name__} cannot be saved without pickle: use numbers or text.")


def table_rows(table: pd.DataFrame) -> list[list[float | None]]:
    """A table of numbers as JSON holds it."""
    return [[None if pd.isna(cell) else cell for cell in row] for row in table.astype(object).to_numpy().tolist()]


def require(fits: bool, otherwise: str) -> None:
    """CheckpointError unless this fits."""
    if not fits:
        raise CheckpointError(f"{otherwise}: fit and save again.")


def text(value: Any) -> str:
    """A text."""
    require(isinstance(value, str), "a name is not text")
    return str(value)


def texts(values: Any) -> tuple[str, ...]:
    """A list of texts."""
    require(isinstance(values, list), "there is no list of names")
    return tuple(text(value) for value in values)


def whole(value: Any) -> int:
    """A positive whole number."""
    require(
        isinstance(value, int) and not isinstance(value, bool) and value > 0, "a size is not a positive whole number"
    )
    return int(value)


def one_of_two(value: Any) -> int:
    """0 or 1."""
    require(value in (0, 1) and not isinstance(value, bool), "the positive class is neither the first nor the second")
    return int(value)


def finite(value: Any) -> float:
    """A finite number."""
    require(isinstance(value, int | float) and bool(np.isfinite(value)), "a number is missing or not finite")
    return float(value)


def matrix(
    array: npt.NDArray[Any], shape: tuple[int, ...], what: str, dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """An array of this type and shape, finite."""
    require(array.dtype == np.dtype(dtype) and array.shape == shape, f"the {what} have another type or shape")
    require(bool(np.isfinite(array).all()), f"the {what} are not all finite")
    return array


def saved_encoder(saved: Any) -> TableEncoder:
    """The encoder that was saved."""
    encoder = TableEncoder.from_dict(saved)
    for column in encoder.columns_:
        if isinstance(column, NumberColumn):
            finite(column.mean)
            require(finite(column.scale) > 0, "a column's scale is not positive")
            finite(column.fill or 0.0)
    return encoder


def saved_classes(saved: Unchecked) -> npt.NDArray[Any]:
    """(K,) the labels that were saved, in order."""
    dtype, values = np.dtype(text(saved["dtype"])), saved["values"]
    known = dtype.kind in _LABEL_KINDS and 2 <= len(values) <= MOST_LABELS
    require(known, "the classes are not two numbers or texts, or a few more")
    require(
        all(isinstance(value, str | bool | int | float) for value in values), "a class is neither a number nor a text"
    )
    width = max(_WIDEST, *(4 * len(str(value)) for value in values))
    require(
        dtype.itemsize <= width and dtype.shape == () and dtype.fields is None, "the classes are of no label's type"
    )
    classes = np.array(values, dtype=dtype)
    require(bool((classes[:-1] < classes[1:]).all()), "the classes are not in order")
    return classes


def saved_table(saved: Unchecked) -> pd.DataFrame:
    """The table of numbers that was saved."""
    columns = [text(name) for name in saved["columns"]]
    rows = [[np.nan if cell is None else finite(cell) for cell in row] for row in saved["rows"]]
    require(all(len(row) == len(columns) for row in rows), "the trade-off table is not rectangular")
    table = pd.DataFrame(rows, columns=columns, dtype=np.float64)
    return table.astype({name: np.int64 for name in ("round", "annotated") if name in columns})
