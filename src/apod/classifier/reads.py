"""What f_a, and a standard model, read of X: numbers, categories, and words of free text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from apod.classifier.inputs import is_table
from apod.data import IntArray, as_frame
from apod.data.dataset import is_words
from apod.data.groups import copies
from apod.errors import InputError

ONLY = "x0"
"""Name of the only column of X where X has none: a list of texts."""
MOST_WORDS = 100
RAREST_WORD, COMMONEST_WORD = 5, 0.9
"""Rows, and share of rows: a word that few people use could tell who they are, one that all use tells nothing."""
MANY_TEXTS = 20
_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class Reads:
    """What f_a reads: columns of X by name (x0, x1, ... of a plain array), and which words a free text uses."""

    columns: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by column of free text
    step: Any = None  # of the user's pipeline: what embeds pictures or texts, which are read embedded

    def of(self, X: Any) -> pd.DataFrame:
        """What f_a reads of these rows: the columns, and for each word whether it is used."""
        frame = raw_frame(X if self.step is None else self.step.transform(X))
        lost = [name for name in (*self.columns, *self.words) if name not in frame.columns]
        if lost:
            raise InputError(f"X lacks column {lost[0]!r}, which was there in fit.")
        plain = as_frame(frame[list(self.columns)]) if self.columns else pd.DataFrame(index=frame.index)
        parts: dict[str, Any] = {name: plain[name] for name in self.columns}
        for name, words in self.words.items():
            used = [_words(cell) for cell in frame[name]]
            parts |= {self.name(name, word): np.array([word in one for one in used]) for word in words}
        return pd.DataFrame(parts, index=frame.index)

    @staticmethod
    def name(column: str, word: str) -> str:
        """What the column of a word is called."""
        return f"{column}: {word}"

    def raw(self, name: str) -> str:
        """The column of X that a column read here comes from."""
        own = [column for column, words in self.words.items() if name in {self.name(column, word) for word in words}]
        return name if name in self.columns or not own else own[0]


def raw_frame(X: Any) -> pd.DataFrame:
    """X as a frame with text names for columns; cells as they are. A list or array of single cells is one column."""
    if isinstance(X, pd.DataFrame):
        return X.set_axis([str(name) for name in X.columns], axis=1)
    if not is_table(X) and not hasattr(X, "toarray"):
        cells = X.to_numpy() if hasattr(X, "to_numpy") else X
        cells = cells if isinstance(cells, np.ndarray) else np.array(cells, dtype=object)
        if cells.ndim == 1:
            return pd.DataFrame({ONLY: cells})
        if cells.ndim == 2 and cells.dtype == object:  # a column that cannot be read is left out, not the table
            return pd.DataFrame(cells, columns=[f"x{place}" for place in range(cells.shape[1])])
    return as_frame(X)


def fit_reads(X: Any, groups: IntArray | None = None, group_names: Sequence[str] = (), step: Any = None) -> Reads:
    """All columns of numbers and text, but for those that hold the groups themselves, where these are given.

    groups (n,): codes, negative where nobody's is known. Of free text it is words that many use: no text of one person
    is kept. `step`: what embeds X in the user's pipeline; its numbers are read then.
    """
    if step is not None:
        return Reads(tuple(map(str, raw_frame(step.transform(X)).columns)), step=step)
    frame = raw_frame(X)
    kept, words = [], {}
    for name in frame.columns:
        column = _readable(frame[[name]])
        if column is None or (groups is not None and _tells(column, groups, group_names)):
            continue
        if is_free_text(column[name]):
            words[name] = _common_words(column[name])
        else:
            kept.append(name)
    if not kept and not any(words.values()):
        raise InputError("X has no column of numbers, categories or words that several people share: add one.")
    return Reads(tuple(kept), {name: own for name, own in words.items() if own})


def is_free_text(column: pd.Series[Any]) -> bool:
    """Whether a column of texts says something else of nearly everybody: sentences, names, numbers of files."""
    known = column.dropna()
    return is_words(column) and known.nunique() > max(MANY_TEXTS, len(known) / 2)


def _common_words(column: pd.Series[Any]) -> tuple[str, ...]:
    counts = Counter(word for cell in column for word in _words(cell))
    most = COMMONEST_WORD * len(column)
    fit = [word for word, count in counts.items() if RAREST_WORD <= count <= most]
    return tuple(sorted(sorted(fit, key=lambda word: (-counts[word], word))[:MOST_WORDS]))


def _words(cell: Any) -> set[str]:
    return set(_WORD.findall(cell.lower())) if isinstance(cell, str) else set()


def _readable(column: pd.DataFrame) -> pd.DataFrame | None:
    try:
        return as_frame(column)
    except InputError:
        return None


def _tells(column: pd.DataFrame, groups: IntArray, group_names: Sequence[str]) -> bool:
    """Whether a column is the group over again: by what is known of people's groups, or by its very values."""
    if copies(column, "sensitive_features", groups, least=len(groups) // 2):
        return True
    values = {str(value).strip().lower() for value in column.iloc[:, 0].dropna().unique()[: 4 * len(group_names) + 4]}
    return len(group_names) > 1 and values == {name.strip().lower() for name in group_names}
