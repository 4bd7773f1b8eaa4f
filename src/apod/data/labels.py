"""A binary label: its two values, which of them is the positive one, and everybody's label as 0 or 1.

The one rule of the package, for tables, arrays, campaigns, audits and `APODClassifier`: the positive label is the one
asked for; else the only one of the two that reads 1, true, yes, y or t; else the larger number, or the later in
alphabetical order.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from apod.data.dataset import IntArray, LabelValue
from apod.data.frames import category_codes
from apod.errors import InputError, UnknownName

AFFIRMATIVE = frozenset({"1", "true", "yes", "y", "t"})


@dataclass(frozen=True, eq=False)
class Labels:
    """Everybody's label, and what 0 and 1 stand for."""

    codes: IntArray  # (n,) 0 or 1
    names: tuple[str, str]  # of 0 and 1, to be shown
    values: tuple[LabelValue, LabelValue]  # of 0 and 1, of the type they were given in


def binary_labels(what: str, column: pd.Series[Any], positive: object = None) -> Labels:
    """The labels of a column without gaps; InputError unless there are two values. `what` names it in errors."""
    codes, names = category_codes(what, column)
    if len(names) != 2:
        found = f"{len(names)} distinct values ({_some(sorted(names))})" if len(names) > 1 else "one value only"
        remedy = "multi-class labels are not there yet" if len(names) > 2 else "there is nothing to tell apart"
        raise InputError(f"{what} has {found}; a binary label has two: {remedy}.")
    if names[0] == names[1]:
        raise InputError(f"{what} has {names[0]!r} both as a number and as text: write it one way.")
    refuse_control(what, names)
    one = positive_of(what, names, positive)
    first = [_plain(column.iloc[int(np.argmax(codes == code))]) for code in (1 - one, one)]
    return Labels((codes == one).astype(np.int64), (names[1 - one], names[one]), (first[0], first[1]))


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
