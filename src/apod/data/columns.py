"""What each column of a user's table holds: the label and its positive value, a feature, an identifier, nothing.

The one rule of the package, for tables, arrays, campaigns, audits and `APODClassifier`: the positive label is the one
asked for; else the only one of the two that reads 1, true, yes, y or t; else the larger number, or the later in
alphabetical order.

Rules
- Numbers, yes or no, and dates are number columns, as such or as text (`text_columns`); missing cells stay missing.
- Any other column is a category, its missing cells the category "missing".
- Left out, with a note: identifiers (a column named id, whole numbers that differ in every row and are named or
  numbered like ids, text that differs in every row), constant columns, and the row numbers that pandas writes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
from pandas.api import types

from apod.data.cells import Decimal, days_of
from apod.data.dataset import IntArray, LabelValue, as_frame, category_codes, category_name, is_number
from apod.data.encode import MAX_CATEGORIES
from apod.data.text_columns import NO, YES, Text, decimal_of, finite, read_text, text_of
from apod.errors import InputError, TableProblems, UnknownName

MOST_LABELS = 20
"""Labels that can be compared: with a hundred, next to nobody of a group has each."""
FEWEST_OF_LABEL = 10
"""Rows of each label of more than two."""
AFFIRMATIVE = frozenset({"1", "true", "yes", "y", "t"})


@dataclass(frozen=True, eq=False)
class Labels:
    """Everybody's label, and what the codes stand for: of two labels 1 is the positive one."""

    codes: IntArray  # (n,) 0 or 1; of K labels 0 to K - 1
    names: tuple[str, ...]  # of the codes, to be shown
    values: tuple[LabelValue, ...]  # of the codes, of the type they were given in


def check_label_count(what: str, count: int, rows: int) -> None:
    """InputError where there are more labels than can be compared, or next to nobody has each."""
    if count > MOST_LABELS or count > max(2, rows // 2):
        raise InputError(
            f"{what} has {count} different values in {rows} rows, and at most {MOST_LABELS} labels can be compared: "
            "merge them into a few bands, or name another column."
        )


def table_labels(what: str, column: pd.Series[Any], positive: object = None) -> Labels:
    """The labels of a column without gaps: two, or more in ascending order. `what` names it in errors."""
    codes, names = category_codes(what, column)
    if len(names) < 2:
        raise InputError(f"{what} has one value only; a label has two at least: there is nothing to tell apart.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what} has {twice!r} both as a number and as text: write it one way.")
    if len(names) > 2:
        return _many_labels(what, column, codes, names, positive)
    refuse_control(what, names)
    one = positive_of(what, names, positive)
    first = [_plain(column.iloc[int(np.argmax(codes == code))]) for code in (1 - one, one)]
    return Labels((codes == one).astype(np.int64), (names[1 - one], names[one]), (first[0], first[1]))


def _many_labels(what: str, column: pd.Series[Any], codes: IntArray, names: list[str], positive: object) -> Labels:
    check_label_count(what, len(names), len(column))
    if positive is not None:
        raise InputError(f"{what} has {len(names)} labels, none of which is the positive one: leave --positive out.")
    refuse_control(what, names)
    counts = np.bincount(codes, minlength=len(names))
    if counts.min() < FEWEST_OF_LABEL:
        raise InputError(
            f"{what} has the label {names[int(counts.argmin())]!r} in {int(counts.min())} row(s), and a label needs at "
            f"least {FEWEST_OF_LABEL} to train, judge and report on: merge it with another, or leave those rows out."
        )
    values = [_plain(column.iloc[int(np.argmax(codes == code))]) for code in range(len(names))]
    texts = any(isinstance(value, str) for value in values)
    order = sorted(range(len(names)), key=lambda code: names[code] if texts else values[code])
    place = np.argsort(order)
    return Labels(place[codes], tuple(names[code] for code in order), tuple(values[code] for code in order))


def binary_labels(what: str, column: pd.Series[Any], positive: object = None) -> Labels:
    """The labels of a column without gaps; InputError unless there are two values. `what` names it in errors."""
    found = table_labels(what, column, positive)
    if len(found.names) > 2:
        shown = f"{len(found.names)} distinct values ({_some(sorted(found.names))})"
        raise InputError(f"{what} has {shown}; a binary label has two: use one of them against the rest.")
    return found


def positive_of(what: str, names: Sequence[str], positive: object = None) -> int:
    """Which of two label names is the positive one, 0 or 1."""
    if positive is not None:
        wanted = positive.item() if isinstance(positive, np.generic) else positive
        wanted = str(int(wanted)) if isinstance(wanted, float) and wanted.is_integer() else str(wanted)
        if wanted not in names:
            raise UnknownName(f"label value in {what},", wanted, names)
        return list(names).index(wanted)
    affirmative = [place for place, name in enumerate(names) if name.strip().lower() in AFFIRMATIVE]
    if len(affirmative) == 1:
        return affirmative[0]
    try:
        return int(float(names[1]) > float(names[0]))
    except ValueError:
        return int(names[1] > names[0])


def refuse_control(what: str, values: Sequence[str]) -> None:
    """InputError where a name that will be shown holds a control character; it does not repeat the name."""
    if any(unicodedata.category(letter) == "Cc" for value in values for letter in value):
        raise InputError(f"{what} has a value with a control character (NUL, escape, tab, ...): clean the table.")


def _plain(value: Any) -> LabelValue:
    """A cell as Python has it, so that JSON keeps its type."""
    plain: LabelValue = value.item() if isinstance(value, np.generic) else value
    return plain


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


Kind = Literal["number", "yes or no", "date", "time of day", "category", "identifier", "constant", "row number"]

FEW_ROWS = 20  # up to here, values that differ in every row need not be identifiers
_ID_WORDS = frozenset(
    {"id", "ids", "uid", "uuid", "guid", "key", "pk", "nr", "no", "num", "number", "index", "idx", "rowid"}
)

_NAME_WORDS = {
    "name", "names", "firstname", "lastname", "fullname", "surname", "forename", "givenname", "familyname",
    "middlename", "maidenname", "nickname", "vorname", "nachname", "prenom", "nom", "nombre", "apellido", "apellidos",
}  # fmt: skip
_NOT_PERSONS = {"company", "product", "school", "country", "city", "street", "file", "job", "column", "brand", "bank"}
_TWO_NAMES = re.compile(r"^[^\W\d_][\w'’.-]*(,? [^\W\d_][\w'’.-]*){1,3}$")


@dataclass(frozen=True, eq=False)
class TableColumn:
    """What was understood of one column."""

    name: str
    kind: Kind
    values: pd.Series[Any] | None = None  # as a feature; None: it is none
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    missing: int = 0  # cells
    distinct: int = 0  # values, missing ones aside


def read_features(frame: pd.DataFrame, decimal: Decimal | None = None) -> tuple[pd.DataFrame, list[str]]:
    """The columns that are features, as numbers and categories, and notes; TableProblems with all that is wrong."""
    columns = read_columns(frame, decimal)
    features, problems = features_of(columns)
    if problems:
        raise TableProblems("The table", problems)
    return features, [note for column in columns for note in column.notes]


def features_of(columns: Sequence[TableColumn], needed: bool = True) -> tuple[pd.DataFrame, list[str]]:
    """The features among the columns, of which there must be one where they are `needed`, and all that is wrong."""
    kept = {column.name: column.values for column in columns if column.values is not None}
    problems = [problem for column in columns for problem in column.problems]
    if needed and not kept and not problems:
        problems = ["No column is left to learn from: besides label and groups the table needs features."]
    return pd.DataFrame(kept), problems


def read_columns(frame: pd.DataFrame, decimal: Decimal | None = None) -> list[TableColumn]:
    """What is understood of every column. Without a decimal sign that was given, each column's is recognised."""
    texts = {str(name): text_of(frame.iloc[:, place]) for place, name in enumerate(frame.columns)}
    decimal_known = decimal or decimal_of([text for text in texts.values() if text is not None])
    return [
        _column(str(name), frame.iloc[:, place], texts[str(name)], decimal_known, given=decimal is not None)
        for place, name in enumerate(frame.columns)
    ]


def read_like(
    frame: pd.DataFrame, numbers: Sequence[str], words: Sequence[str], what: str, by: str = "the classifier"
) -> pd.DataFrame:
    """These columns of a table as another table's were understood before: numbers, or words.

    TableProblems with all that is wrong; `what` is the table's name, `by` says who reads them.
    """
    lost = [name for name in (*numbers, *words) if name not in frame.columns]
    problems = [f"There is no column {name!r}, which {by} reads: add it." for name in lost]
    texts = {name: text_of(frame[name]) for name in (*numbers, *words) if name not in lost}
    decimal = decimal_of([text for text in texts.values() if text is not None])
    found: dict[str, pd.Series[Any]] = {}
    for name, text in texts.items():
        try:
            found[name] = (
                _as_words(name, frame[name], text)
                if name in words
                else _as_numbers(name, frame[name], text, decimal, by)
            )
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise TableProblems(what, problems)
    return pd.DataFrame(found, index=frame.index)


def _as_numbers(
    name: str, column: pd.Series[Any], text: Text | None, decimal: Decimal | None, by: str
) -> pd.Series[Any]:
    if column.isna().all() or (text is not None and not text.cells):
        return pd.Series(np.nan, index=column.index)
    if text is not None and {cell.casefold() for cell in text.cells} <= YES | NO:  # also where all say the same
        ones = np.array([float(cell.casefold() in YES) for cell in text.cells])
        return pd.Series(text.spread(ones), index=column.index)
    kind, values, _ = (
        _typed(name, column) if text is None else read_text(name, text, column.index, decimal, given=False)
    )
    if kind == "category":
        where = "" if text is None else f" ({text.first(np.ones(len(text.cells), dtype=bool))})"
        raise InputError(f"Column {name!r} held numbers when {by} was made and holds text{where}: mend it.")
    return values


def _as_words(name: str, column: pd.Series[Any], text: Text | None) -> pd.Series[Any]:
    if text is not None:
        cells = np.array([*text.cells, None], dtype=object)[text.codes]
        return pd.Series(cells, index=column.index, dtype=object)
    return column.astype(object).map(lambda value: category_name(name, value), na_action="ignore")


def _column(name: str, column: pd.Series[Any], text: Text | None, decimal: Decimal | None, given: bool) -> TableColumn:
    if not name or name.startswith(("Unnamed: ", "__index_level_")):
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.notna().all() and numbers.is_unique:
            return TableColumn(name, "row number", distinct=len(numbers))
        if not name:
            return TableColumn(name, "category", problems=("A column has no name: name it in the header.",))
    try:
        if name.lower() == "id":
            return _identifier(name, column)
        if text is None:
            kind, values, notes = _typed(name, column)
        else:
            kind, values, notes = read_text(name, text, column.index, decimal, given)
    except InputError as error:
        return TableColumn(name, "category", problems=(str(error),), missing=int(column.isna().sum()))
    return _used(name, kind, values, [f"Column {name!r} {note}." for note in notes])


class Counted(TypedDict):
    """How many values a column lacks, and how many different ones it has."""

    missing: int
    distinct: int


def _used(name: str, kind: Kind, values: pd.Series[Any], notes: list[str]) -> TableColumn:
    """The column as a feature, or left out: constant, or an identifier."""
    missing, distinct = int(values.isna().sum()), int(values.nunique())
    facts: Counted = {"missing": missing, "distinct": distinct}
    if distinct + (missing > 0) == 1:
        return TableColumn(
            name, "constant", notes=(f"Column {name!r} is the same in every row: not a feature.",), **facts
        )
    unique = distinct == len(values) > FEW_ROWS
    if kind == "category" and unique:
        return TableColumn(
            name,
            "identifier",
            notes=(f"Column {name!r} differs in every row, like an identifier: not a feature.",),
            **facts,
        )
    if kind == "number" and unique and (why := _like_ids(name, values)):
        note = f"Column {name!r} {why}, like an identifier: not a feature."
        return TableColumn(name, "identifier", notes=(note,), **facts)
    if kind == "category" and distinct > MAX_CATEGORIES:
        notes.append(f"Column {name!r} has {distinct} categories: only the {MAX_CATEGORIES} most frequent count.")
    if kind != "category" and missing:
        notes.append(
            f"Column {name!r} has {missing} missing number(s) ({missing / len(values):.1%} of the rows): the median of "
            "the training part stands for them, and a column of its own says where."
        )
    return TableColumn(name, kind, values, tuple(notes), **facts)


def _like_ids(name: str, values: pd.Series[Any]) -> str | None:
    """In what whole numbers that differ in every row are like identifiers: their column's name, or their numbering."""
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not (numbers % 1 == 0).all():
        return None
    if (np.diff(numbers) == 1).all() and (numbers[0] in (0, 1) or numbers[0] >= 1000):
        return "counts the rows"
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    last = words[-1].lower() if words else ""
    if last in _ID_WORDS or (len(words) == 1 and last.endswith("id") and last not in ("paid", "bid", "aid")):
        return "has another whole number in every row"
    return None


def _identifier(name: str, column: pd.Series[Any]) -> TableColumn:
    repeated = column.duplicated().to_numpy()
    if repeated.any():
        raise InputError(
            f"Column {name!r} repeats an identifier in data row {int(np.flatnonzero(repeated)[0]) + 1} "
            f"({int(repeated.sum())} in all): keep one row per person, or rename the column."
        )
    note = f"Column {name!r} is an identifier: not a feature."
    return TableColumn(name, "identifier", notes=(note,), missing=int(column.isna().sum()), distinct=len(column))


def _typed(name: str, column: pd.Series[Any]) -> tuple[Kind, pd.Series[Any], list[str]]:
    """A column that is no text: numbers, categories, dates; InputError where it is none of them."""
    if types.is_datetime64_any_dtype(column.dtype) or types.infer_dtype(column, skipna=True) in ("date", "datetime"):
        try:
            return "date", pd.Series(days_of(column), index=column.index), ["holds dates: a feature in days"]
        except (ValueError, TypeError, OverflowError):
            raise InputError(f"Column {name!r} holds dates that cannot be read: mend it, or --drop {name}.") from None
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category", column, []
    settled = as_frame(column.to_frame(name))[name]
    if not is_number(settled):
        category_name(name, settled.dropna().iloc[0])
    kind: Kind = "yes or no" if types.is_bool_dtype(column.dtype) else "number"
    return kind, finite(name, settled), []


def looks_like_person_names(column: str, values: pd.Series[Any]) -> bool:
    """Whether a column seems to name persons, by its title or by what stands in it."""
    words = set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", column).lower()))
    joined = re.sub(r"[^a-z]", "", column.lower())
    if (words & _NAME_WORDS or joined in _NAME_WORDS) and not words & _NOT_PERSONS:
        return True
    if pd.api.types.is_numeric_dtype(values):
        return False
    sample = values.dropna().astype(str).head(200)
    if len(sample) < 5 or sample.nunique() < 0.5 * len(sample):
        return False
    named = [bool(_TWO_NAMES.match(text)) and text.split()[0][0].isupper() and _all_capital(text) for text in sample]
    return sum(named) >= 0.6 * len(sample)


def _all_capital(text: str) -> bool:
    return sum(word[:1].isupper() for word in text.split()) >= 2
