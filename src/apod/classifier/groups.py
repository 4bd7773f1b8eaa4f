"""Groups as users hand them in: names with gaps, of one attribute or of several; or probabilities of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import UNKNOWN, Grouping, IntArray, category_codes, check_group_count
from apod.errors import InputError

BELIEVED = 10
"""So many groups are always believed; beyond, most of them must have been seen more than once."""


def group_codes(column: pd.Series[Any], n: int) -> tuple[IntArray, tuple[str, ...]]:
    """Every row's group as a code into the names that follow, in alphabetical order; UNKNOWN = not annotated."""
    if len(column) != n:
        raise InputError(
            f"X has {n} rows and sensitive_features has {len(column)}: pass one entry per row, missing where nobody "
            "was asked."
        )
    found, cells = category_codes("sensitive_features", column)
    _refuse_blanks(found, cells)
    known = found >= 0
    texts = np.array([*cells, ""], dtype=object)[found]  # -1 reaches the last one
    names, codes = np.unique(texts[known].astype(str), return_inverse=True)
    _check_groups(len(names), int(known.sum()))
    groups = np.full(n, UNKNOWN, dtype=np.int64)
    groups[known] = codes
    return groups, tuple(names.tolist())


def _refuse_blanks(codes: IntArray, names: Sequence[str]) -> None:
    """An empty text is hardly a group, and must not become one in silence."""
    blank = [code for code, name in enumerate(names) if not name.strip()]
    if blank:
        raise InputError(
            f"sensitive_features holds empty texts in {int(np.isin(codes, blank).sum())} rows: use None or NaN "
            "where nobody was asked."
        )


def _columns(given: Any) -> list[pd.Series[Any]]:
    """The columns of whatever was given, cells untouched."""
    if isinstance(given, str) or not hasattr(given, "__len__") or getattr(given, "shape", (1,)) == ():
        raise InputError("sensitive_features must hold one entry per row of X: pass the values, not a column's name.")
    if not isinstance(given, pd.Series | pd.DataFrame) and hasattr(given, "to_pandas"):
        given = given.to_pandas()
    if isinstance(given, pd.Series):
        return [given]
    if isinstance(given, pd.DataFrame):
        return [given.iloc[:, place] for place in range(given.shape[1])]
    if isinstance(given, np.ndarray):
        if given.dtype.kind == "U" and (given == "nan").any():
            raise InputError(
                "sensitive_features holds the text 'nan', which is what NumPy makes of a missing value among texts: "
                "use None, or an array of dtype object."
            )
        cells = given.astype(object)
        frame = pd.DataFrame(cells if cells.ndim > 1 else cells[:, None])
    else:
        rows = [cell if isinstance(cell, list | tuple | np.ndarray) else [cell] for cell in given]
        frame = pd.DataFrame(rows, dtype=object)
    return [frame[name] for name in frame.columns]


def _check_groups(groups: int, known: int) -> None:
    """Refuse what cannot be compared; the message says nothing of any person."""
    if groups == 1:
        raise InputError(
            f"All {known} annotated rows are of one group: fairness needs at least two to compare; annotate more rows "
            "(query with a larger batch_size, on the last fit), or leave sensitive_features out for now."
        )
    if groups > max(BELIEVED, known // 2):
        raise InputError(
            f"sensitive_features has {groups} different groups in {known} annotated rows: pass names of groups, "
            "not a number for each person."
        )
    check_group_count(groups)


@dataclass(frozen=True, eq=False)
class Groups:
    """Everybody's group as far as it is known."""

    codes: IntArray  # (n,) into names, UNKNOWN where not annotated; the most probable, where answers are not certain
    names: tuple[str, ...] = ()
    weights: npt.NDArray[np.float64] | None = None  # (n, g) probability of each group, where answers are not certain
    attribute: str = "group"
    further: tuple[Grouping, ...] = ()  # of several attributes, the others


class SeveralAttributesWarning(UserWarning):
    """Columns of sensitive_features are attributes of their own since 0.2; before, they were merged into one."""


def known_groups(sensitive_features: Any, n: int) -> Groups:
    """Groups by name, missing where nobody was asked; None: nobody was. Several columns are several attributes."""
    if sensitive_features is None:
        return Groups(np.full(n, UNKNOWN, dtype=np.int64))
    columns = _columns(sensitive_features)
    if not columns:
        raise InputError(
            f"X has {n} rows and sensitive_features has 0: pass one entry per row, missing where nobody was asked."
        )
    if len(columns) == 1:
        return Groups(*group_codes(columns[0], n))
    warnings.warn(
        f"The {len(columns)} columns of sensitive_features are attributes of their own, mitigated together and missing "
        "per cell; before 0.2 they were merged into one, which a column with the merged names still does.",
        SeveralAttributesWarning,
        stacklevel=5,
    )
    given = [column.name for column in columns]
    names = [name if isinstance(name, str) else f"attribute {place}" for place, name in enumerate(given, 1)]
    if len(set(names)) < len(names):
        raise InputError("Two columns of sensitive_features have the same name: rename one.")
    found = []
    for name, one in zip(names, columns, strict=True):
        codes, groups = group_codes(one, n)
        found.append(Grouping(name, groups, codes))
    empty = [one.name for one in found if not one.names]
    if len(empty) == len(found):
        return Groups(np.full(n, UNKNOWN, dtype=np.int64))
    if empty:
        raise InputError(f"Nobody is annotated in the column {empty[0]!r} of sensitive_features: leave it out for now.")
    return Groups(found[0].codes, found[0].names, attribute=found[0].name, further=tuple(found[1:]))


def probable_groups(membership: npt.ArrayLike, group_names: Sequence[str], n: int) -> Groups:
    """Groups known with some probability (n, g); a row of zeros where nobody was asked."""
    weights, names = np.asarray(membership, dtype=np.float64), tuple(group_names)
    if weights.shape != (n, len(names)) or not (weights >= 0).all():
        raise InputError(f"membership must hold {n} x {len(names)} probabilities, one per row and group.")
    check_group_count(len(names))
    order = np.argsort(np.array(names))
    weights, names = weights[:, order], tuple(names[place] for place in order)
    return Groups(np.where(weights.sum(axis=1) > 0, weights.argmax(axis=1), UNKNOWN), names, weights)
