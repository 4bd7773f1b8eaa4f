"""Sensitive attributes of a table: reading their groups, and columns that say the same as another.

Messages say nothing of any row: who belongs where is nobody's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from apod.data.columns import FEW_ROWS, refuse_control
from apod.data.dataset import MOST_GROUPS, UNKNOWN, Grouping, IntArray, category_codes, check_group_count
from apod.data.text_columns import MANY_WORDS, one_spelling
from apod.errors import InputError, TableProblems, UnknownName


@dataclass(frozen=True)
class Attribute:
    """A sensitive attribute as it was told: the column that records it, its groups; None where that was not told."""

    name: str
    column: str | None
    group_names: Sequence[str] | None


def read_groups(
    name: str | None,
    frame: pd.DataFrame,
    reference: str | None,
    given: Sequence[str] | None,
    partly: bool = False,
) -> tuple[IntArray, tuple[str, ...]]:
    """Group codes and names. Messages say nothing of any row: who belongs where is nobody's business.

    Of groups that are given by name, not all need be in a column that records only some people's (`partly`).
    """
    if given is not None and (len(given) < 2 or len(set(given)) < len(given)):
        raise InputError("Name at least two groups, each once.")
    refuse_control("The list of groups", given or ())
    codes, found = (np.full(len(frame), UNKNOWN), []) if name is None else _recorded_groups(name, frame[name])
    counts = {value: int((codes == i).sum()) for i, value in enumerate(found)}
    names = list(given) if given is not None else sorted(found)
    strangers = [value for value in found if value not in names]
    if strangers:
        rows = sum(counts[value] for value in strangers)
        raise InputError(
            f"Column {name!r} has {rows} row(s) with a group other than {some_names(names)}: name all groups."
        )
    if name is not None and len(found) < 2 and not (partly and given is not None):
        raise InputError(f"Column {name!r} records {len(found)} group(s): there must be at least two to compare.")
    check_group_count(len(names))
    if reference is not None and reference not in names:
        raise UnknownName("group", reference, names) if names else InputError("A reference group needs groups.")
    if reference is None and given is None and names:
        reference = max(names, key=lambda value: counts[value])
    if reference is not None:
        names = [*(value for value in names if value != reference), reference]
    place = np.array([*(names.index(value) for value in found), UNKNOWN], dtype=np.int64)  # -1 stays -1
    return place[codes], tuple(names)


def refuse_variants(what: str, column: pd.Series[Any]) -> None:
    """InputError where texts differ by capitals or blanks alone; it does not repeat them: they may be groups."""
    cells = [cell for cell in column.unique() if isinstance(cell, str)]
    alike = len(cells) - len({one_spelling(cell) for cell in cells})
    if alike and len(cells) <= MANY_WORDS:
        raise InputError(
            f"{what} spells the same value in more than one way ({len(cells)} spellings, {len(cells) - alike} without "
            "capitals and blanks): write each value one way."
        )


def _recorded_groups(name: str, column: pd.Series[Any]) -> tuple[IntArray, list[str]]:
    codes, cells = category_codes(name, column)
    spelled = [cell.strip() for cell in cells]
    found = list(dict.fromkeys(cell for cell in spelled if cell))
    place = np.array([*(found.index(cell) if cell else UNKNOWN for cell in spelled), UNKNOWN], dtype=np.int64)
    codes = place[codes]
    known = int((codes >= 0).sum())
    refuse_control(f"Column {name!r}", found)
    refuse_variants(f"Column {name!r}", pd.Series(found, dtype=object))
    if len(found) > max(FEW_ROWS, known // 2):
        raise InputError(f"Column {name!r} has {len(found)} different groups in {known} rows: name a column of groups.")
    return codes, found


def same_twice(groupings: Sequence[Grouping]) -> list[str]:
    """A problem where one attribute tells another, row by row."""
    for place, one in enumerate(groupings):
        for other in groupings[place + 1 :]:
            both = (one.codes != UNKNOWN) & (other.codes != UNKNOWN)
            pairs = len(np.unique(one.codes[both] * MOST_GROUPS + other.codes[both]))
            if both.sum() > FEW_ROWS and pairs == len(np.unique(one.codes[both])) == len(np.unique(other.codes[both])):
                return [f"The attributes {one.name!r} and {other.name!r} are the same, row by row: name one of them."]
    return []


def some_names(names: Sequence[str], most: int = 12) -> str:
    """The first of them, for a message."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def copies(features: pd.DataFrame, what: str, codes: IntArray, least: int = 0) -> list[str]:
    """The features that are the label or the group over again, however their values are spelled, a problem each.

    `codes` (n,), -1 where nothing is known; up to `least` known rows may agree by chance.
    """
    known = codes >= 0
    if known.sum() <= max(least, FEW_ROWS):
        return []
    size, found = int(codes.max()) + 1, []
    for name in map(str, features.columns):
        own = pd.factorize(features[name])[0]
        both = known & (own >= 0)
        values, seen = np.unique(own[both]), np.unique(codes[both])
        if len(values) != len(seen) or len(values) < 2:
            continue
        if len(np.unique(own[both] * size + codes[both])) == len(values):
            remedy = "leave it out of X" if what in ("y", "sensitive_features") else f"leave it out (--drop {name})"
            found.append(f"Column {name!r} is {what} once more, row by row: {remedy}.")
    return found


def refuse_copies(features: pd.DataFrame, what: str, codes: IntArray, least: int = 0) -> None:
    """InputError where a feature is the label or the group over again."""
    found = copies(features, what, codes, least)
    if found:
        raise TableProblems("The table", found)
