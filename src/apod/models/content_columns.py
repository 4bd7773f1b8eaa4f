"""Pictures, texts and ordinary columns side by side: a table whose pictures and texts have become columns of numbers.

Each content column NAME becomes NAME.0, NAME.1, ... beside the ordinary columns; the model standardises all numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.contents import Content, Inline, Kind
from apod.data.dataset import Dataset, IntArray
from apod.data.decoding import thumbnail
from apod.errors import InputError
from apod.files import Unchecked
from apod.models.embedder import Embedder, EmbedderNames
from apod.models.embedders import open_picture_embedder, open_text_embedder
from apod.models.embedding import EmbeddedCells, Progress, embed_content, silent
from apod.models.hashed_text import MOST_CHARACTERS, HashedText


@dataclass(frozen=True, eq=False)
class EmbeddedColumn:
    """A column of pictures or texts and what embeds it."""

    column: str
    embedder: Embedder

    @property
    def names(self) -> list[str]:
        """Of the columns of numbers that it becomes."""
        return [f"{self.column}.{place}" for place in range(self.embedder.width)]


@dataclass(frozen=True, eq=False)
class ContentColumns:
    """How the pictures and texts of a table become columns of numbers: the same for new people."""

    columns: tuple[EmbeddedColumn, ...]
    folder: Path | None = None  # where embeddings are kept

    def embedded(
        self, ordinary: pd.DataFrame, contents: Sequence[Content], progress: Progress = silent
    ) -> pd.DataFrame:
        """The whole table; InputError where a cell cannot be used."""
        frame, cells = self._frame(ordinary, contents, progress)
        for content, found in zip(contents, cells, strict=True):
            if found.unusable:
                raise InputError(f"{found.names(content)}. Replace them, or leave those rows out.")
        return frame

    def _frame(
        self, ordinary: pd.DataFrame, contents: Sequence[Content], progress: Progress
    ) -> tuple[pd.DataFrame, list[EmbeddedCells]]:
        parts, cells = [ordinary.reset_index(drop=True)], []
        for own, content in zip(self.columns, contents, strict=True):
            found = embed_content(own.embedder, content, self._kept(own), progress)
            parts.append(pd.DataFrame(found.rows, columns=own.names))
            cells.append(found)
        taken = parts[0].columns.intersection([name for own in self.columns for name in own.names])
        if len(taken):
            raise InputError(f"Column {taken[0]!r} has the name of an embedded one: rename it.")
        return pd.concat(parts, axis=1), cells

    def _kept(self, own: EmbeddedColumn) -> Path | None:
        """Where its embeddings are kept: those of hashed texts are quicker to compute than to read."""
        return None if isinstance(own.embedder, HashedText) else self.folder


def embed_dataset(
    dataset: Dataset,
    names: EmbedderNames,
    *,
    folder: Path | None = None,
    learn_from: Callable[[Dataset], IntArray] | None = None,
    skip_bad: bool = False,
    progress: Progress = silent,
) -> tuple[Dataset, ContentColumns]:
    """The dataset with its pictures and texts as columns of numbers, and what made them so.

    learn_from: the rows whose texts a text embedder may learn from, all by default · skip_bad: leave rows out whose
    picture cannot be used, and count them, in the place of an InputError that names them.
    """
    columns, whole = list[EmbeddedColumn](), replace(dataset, shown=_shown(dataset))
    for column in [
        content.column for kind in ("picture", "text") for content in dataset.contents if content.kind == kind
    ]:
        content = next(content for content in whole.contents if content.column == column)
        rows = None if learn_from is None else learn_from(whole)
        made = ContentColumns((own := _opened(content, names, rows),), folder)
        frame, (found,) = made._frame(whole.features, [content], progress)
        columns.append(own)
        notes = [_note(own), *found.notes, *(_text_notes(content) if content.kind == "text" else [])]
        rest = tuple(other for other in whole.contents if other.column != column)
        whole = replace(whole, features=frame, contents=rest, notes=(*whole.notes, *notes))
        if found.unusable:
            whole = _without(whole, found, found.names(content), skip_bad)
    return whole, ContentColumns(tuple(columns), folder)


def _without(dataset: Dataset, found: EmbeddedCells, said: str, skip_bad: bool) -> Dataset:
    """The dataset without the rows whose cells cannot be used."""
    if not skip_bad:
        raise InputError(f"{said}. Replace them, or leave those rows out: --skip-bad.")
    if len(found.unusable) == len(dataset):
        raise InputError(f"No row is left. {said}.")
    good = np.setdiff1d(np.arange(len(dataset)), list(found.unusable))
    return replace(dataset, notes=(*dataset.notes, f"Left out: {said}.")).take(good)


def _shown(dataset: Dataset) -> pd.DataFrame:
    """What a person is shown of a row: ordinary columns, texts as they stand, pictures by their names."""
    shown = dataset.features.reset_index(drop=True)
    for content in dataset.contents:
        cells, names = content.cells, [content.cells.name(row) for row in range(len(content.cells))]
        shown[content.column] = cells.texts() if content.kind == "text" and isinstance(cells, Inline) else names
    return shown


def picture_thumbnails(dataset: Dataset, rows: Sequence[int]) -> dict[int, bytes]:
    """Small pictures of these rows of the source file, of a dataset before it is embedded; without those unusable."""
    place = {int(row): at for at, row in enumerate(dataset.rows)}
    content = next(content for content in dataset.contents if content.kind == "picture")
    found = {}
    with content.cells.opened() as read:
        for row in rows:
            with suppress(InputError):  # it was embedded: it can only have gone since
                found[row] = thumbnail(read(place[row]))
    return found


def _opened(content: Content, names: EmbedderNames, learn_from: IntArray | None) -> EmbeddedColumn:
    if content.kind == "picture":
        return EmbeddedColumn(content.column, open_picture_embedder(names.pictures, names.size))
    seen = content if learn_from is None else content.take(learn_from)
    assert isinstance(seen.cells, Inline)
    try:
        return EmbeddedColumn(content.column, open_text_embedder(names.text, seen.cells))
    except InputError as error:
        if str(error)[0].isupper():
            raise
        raise InputError(f"Column {content.column!r} cannot be embedded: {error}.") from None


def _note(own: EmbeddedColumn) -> str:
    size = f" at {own.embedder.size[0]} x {own.embedder.size[1]}" if own.embedder.size else ""
    return f"Column {own.column!r} is {own.embedder.width} numbers by {own.embedder.name}{size}."


def _text_notes(content: Content) -> list[str]:
    """What is odd about texts, counted."""
    assert isinstance(content.cells, Inline)
    texts = content.cells.texts()
    odd = {
        "is empty": [row for row, text in enumerate(texts) if not text.strip()],
        f"is longer than {MOST_CHARACTERS:,} characters, of which the first are read": [
            row for row, text in enumerate(texts) if len(text) > MOST_CHARACTERS
        ],
        "holds control characters, which are read as blanks": [
            row for row, text in enumerate(texts) if any(c < " " and c not in "\t\n\r" for c in text[:MOST_CHARACTERS])
        ],
    }
    return [
        f"Column {content.column!r} {what} in {len(rows)} row(s), first in row {rows[0]} (counting from 0)."
        for what, rows in odd.items()
        if rows
    ]


def packed_contents(made: ContentColumns) -> tuple[list[dict[str, object]], dict[str, npt.NDArray[Any]]]:
    """What embedded columns are made from again, as JSON and arrays: of a picture body its name and fingerprint."""
    facts, arrays = list[dict[str, object]](), dict[str, npt.NDArray[Any]]()
    for place, own in enumerate(made.columns):
        embedder = own.embedder
        about: dict[str, object] = {"column": own.column, "kind": embedder.kind, "embedder": embedder.name}
        about |= {"width": embedder.width, "fingerprint": embedder.fingerprint}
        if embedder.size:
            about["size"] = list(embedder.size)
        if isinstance(embedder, HashedText):
            arrays |= {f"content.{place}.{name}": array for name, array in embedder.arrays().items()}
        facts.append(about)
    return facts, arrays


def saved_contents(facts: Sequence[Unchecked], arrays: Mapping[str, npt.NDArray[Any]]) -> ContentColumns:
    """The embedded columns that were packed; InputError where an embedder is not to be had, or is another one now."""
    columns = []
    for place, about in enumerate(facts):
        kind: Kind = "picture" if about["kind"] == "picture" else "text"
        own = {name.rsplit(".", 1)[1]: array for name, array in arrays.items() if name.startswith(f"content.{place}.")}
        embedder: Embedder
        if own:
            embedder = HashedText.from_arrays(own)
        elif kind == "picture":
            width, height = (int(side) for side in about.get("size", (0, 0)))
            embedder = open_picture_embedder(str(about["embedder"]), (width, height))
        else:
            embedder = open_text_embedder(str(about["embedder"]), Inline(()))
        if embedder.fingerprint != about["fingerprint"] or embedder.width != about["width"]:
            raise InputError(f"the embedder {about['embedder']!r} is not the one that the classifier was made with")
        columns.append(EmbeddedColumn(str(about["column"]), embedder))
    return ContentColumns(tuple(columns))
