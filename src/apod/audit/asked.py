"""The file of people to ask: written by a draw, filled in by annotators, read back by their ids.

It has a line per person: the number of the table's row, the person's id where the table has one, the columns an
annotator needs, the probability of the draw, and `group`, to be filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.audit.shares import FloatArray
from apod.data.cells import unescaped
from apod.data.columns import looks_like_person_names
from apod.data.dataset import IntArray, category_name
from apod.data.files import read_table
from apod.data.own import require_column
from apod.data.text_columns import read_text, text_of
from apod.data.text_files import RECOGNISED, Dialect
from apod.errors import InputError
from apod.text import printable

ROW, GROUP, PROBABILITY = "row", "group", "draw_probability"


def ids_of(frame: pd.DataFrame, named: str | None) -> pd.Series[str] | None:
    """Everybody's id as text: of the column that was named, or of one that is called id; None where there is none."""
    name = named if named is not None else next((str(n) for n in frame.columns if str(n).lower() == "id"), None)
    if name is None:
        return None
    column = frame[name]
    if column.isna().any() or column.duplicated().any():
        if named is None:
            return None
        raise InputError(f"Column {name!r} must hold another id in every row: some are missing or repeated.")
    return _texts(column).rename(name)


def _texts(column: pd.Series[Any]) -> pd.Series[str]:
    name = str(column.name)
    return column.map(lambda cell: unescaped(category_name(name, cell).strip()), na_action="ignore")


def shown_columns(frame: pd.DataFrame, show: Sequence[str] | None, used: Sequence[str]) -> list[str]:
    """The columns an annotator needs: those asked for, or all but persons' names and what `used` names."""
    if show is not None:
        return list(show)
    kept = {*used, ROW, GROUP, PROBABILITY, ""}
    names = [str(name) for name in frame.columns if name not in kept]
    return [name for name in names if not looks_like_person_names(name, frame[name])]


def people_to_ask(drawn: pd.DataFrame, ids: pd.Series[str] | None, shown: pd.DataFrame) -> pd.DataFrame:
    """The drawn people as they are written: row, id, what an annotator needs, probability, group."""
    rows = drawn[ROW].to_numpy()
    columns: dict[str, npt.NDArray[Any]] = {ROW: rows}
    if ids is not None:
        columns[str(ids.name)] = ids.to_numpy()[rows]
    for name in (name for name in shown.columns if name not in columns):  # of control characters only their names
        cells = shown[name].iloc[rows]
        columns[printable(name)] = cells.map(lambda cell: printable(cell) if isinstance(cell, str) else cell).to_numpy()
    columns |= {PROBABILITY: drawn[PROBABILITY].to_numpy(), GROUP: drawn[GROUP].to_numpy()}
    return pd.DataFrame(columns)


def read_answers(
    path: Path, group: str, probability: str, ids: pd.Series[str] | None, rows: int
) -> tuple[pd.Series[Any], pd.Series[Any] | None]:
    """The answers and draw probabilities per row of the table, from a file that names people by id or by row."""
    given = read_table(path)
    columns = [str(name) for name in given.columns]
    column = group if group in columns or GROUP not in columns else GROUP
    require_column(column, columns, path.name)
    places = _places(path, given, ids, rows)
    empty = pd.Series([None] * rows, dtype=object)
    told, chance = empty.copy(), empty.copy()
    written = given[column].map(lambda cell: unescaped(cell) if isinstance(cell, str) else cell)
    told.iloc[places] = written.astype(object).where(written.notna(), None).to_numpy()
    if probability not in columns:
        return told, None
    chance.iloc[places] = given[probability].to_numpy()
    return told, chance


def _places(path: Path, given: pd.DataFrame, ids: pd.Series[str] | None, rows: int) -> IntArray:
    """The table's row of every line of the file: by id where there is one, for sorting a table moves its rows."""
    columns = [str(name) for name in given.columns]
    if ids is not None and ids.name in columns:
        places = pd.Index(ids).get_indexer(pd.Index(_texts(given[ids.name])))
        bad = (places < 0) | pd.Series(places).duplicated().to_numpy()
        if bad.any():
            raise InputError(
                f"Column {ids.name!r} of {path.name} has {int(bad.sum())} ids that are not in the table or repeated, "
                f"first in data row {int(bad.argmax()) + 1}: list people of the table, each once."
            )
        return np.asarray(places, dtype=np.int64)
    require_column(ROW, columns, path.name)
    numbers = read_numbers(ROW, given[ROW])
    whole = ~np.isnan(numbers) & (numbers >= 0) & (numbers < rows) & (numbers % 1 == 0)
    if not whole.all() or len(set(numbers)) < len(numbers):
        raise InputError(f"Column 'row' of {path.name} needs whole numbers from 0 to {rows - 1}, each once.")
    return numbers.astype(np.int64)


def refuse_losing_answers(path: Path, written: pd.DataFrame, column: str, ids: pd.Series[str] | None) -> None:
    """InputError where writing these people to the file would lose an answer that stands in it."""
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        there = read_table(path)
    except InputError:
        there = pd.DataFrame()
    named = [name for name in dict.fromkeys((column, GROUP)) if name in there.columns]
    key = str(ids.name) if ids is not None and ids.name in there.columns else ROW
    if ROW not in there.columns or not named:
        raise InputError(f"{path} is there already and is no list of people to ask: choose another --out.")
    kept = set(zip(_texts(written[key]), written[GROUP], strict=True))
    for name in named:
        answered = there[filled(there[name])]
        groups = answered[name].astype(str).str.strip().map(unescaped)
        lost = set(zip(_texts(answered[key]), groups, strict=True)) - kept
        if lost:
            raise InputError(
                f"{path} holds {len(lost)} answers that would be lost: pass it as --answers, or choose another --out."
            )


def filled(column: pd.Series[Any]) -> pd.Series[bool]:
    """Where an answer stands."""
    return column.notna() & (column.astype(str).str.strip() != "")


def read_numbers(name: str, column: pd.Series[Any], how: Dialect = RECOGNISED) -> FloatArray:
    """The column's numbers, however they are spelled; NaN where a cell is empty, InputError where it is other text."""
    text, decimal = text_of(column), how.decimal
    if text is None or not text.cells:
        numbers = pd.to_numeric(column, errors="coerce")
        other = int((numbers.isna() & filled(column)).sum())
    else:
        try:
            kind, numbers, _ = read_text(name, text, column.index, decimal, decimal is not None)
        except InputError:
            kind, numbers = "category", column
        other = 0 if kind == "number" else int(pd.to_numeric(column, errors="coerce").isna().sum())
    if other:
        raise InputError(f"Column {name!r} holds text in {other} cells: it needs numbers, or nothing.")
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
