"""Pictures and texts of a campaign: embedded when it is created, kept with it, and shown to annotators as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from apod.campaign.files import Files
from apod.data.contents import ARCHIVE_SUFFIXES, Content, FilesIn, named_pictures, picture_cells, some, text_cells
from apod.data.dataset import Dataset
from apod.data.own import FileColumns
from apod.errors import InputError
from apod.files import Unchecked, write_private

if TYPE_CHECKING:
    from apod.campaign.session import Session
    from apod.models.content_columns import ContentColumns
    from apod.models.embedder import EmbedderNames

_FORMS = {b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"GIF8": "gif", b"RIFF": "webp"}


@dataclass(frozen=True)
class ContentOptions:
    """What of a campaign's table is pictures and text, and what becomes of it."""

    labels: Path | None = None  # the table, where the campaign is over a folder or archive of pictures
    picture: str | None = None  # the column of pictures, or of their names
    text: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None  # the only ordinary features; None: all of a table, none beside a folder
    embedders: EmbedderNames | None = None  # None: the defaults
    skip_bad: bool = False
    keep: bool = True  # embeddings, for the next time
    image_root: Path | None = None  # where pictures of an archive or a table are unpacked, for annotators to see
    hide: bool = False  # annotators see no picture
    progress: Callable[[int, int, str], None] = field(default=lambda done, total, text: None)

    def said(self, said: FileColumns, place: Path) -> FileColumns:
        """What was said of the file's columns, these among it; `place` is what the campaign is over."""
        over_pictures = self.labels is not None
        columns = (self.columns or ()) if over_pictures else self.columns
        return replace(
            said, text=self.text, picture=self.picture, columns=columns, place=place if over_pictures else None
        )


@dataclass(frozen=True, eq=False)
class EmbeddedPool:
    """A table with its pictures and texts embedded, the rows that annotators see, and where their pictures lie."""

    dataset: Dataset
    made: ContentColumns
    shown: pd.DataFrame
    image: tuple[str, str] | None  # column, and the folder that it goes from


def embed_pool(dataset: Dataset, frame: pd.DataFrame, options: ContentOptions) -> EmbeddedPool:
    """Embed what a campaign is over; a text embedder learns from all of its texts, nobody's label or group."""
    from apod.models.content_columns import embed_dataset
    from apod.models.embedder import EmbedderNames
    from apod.models.embedding import embedding_folder

    pictures = next((content for content in dataset.contents if content.kind == "picture"), None)
    root = None if pictures is None or options.hide else _root(pictures, options)  # before minutes are spent
    embedded, made = embed_dataset(
        dataset,
        options.embedders or EmbedderNames(),
        folder=embedding_folder() if options.keep else None,
        skip_bad=options.skip_bad,
        progress=options.progress,
    )
    shown = frame.iloc[embedded.rows].reset_index(drop=True)
    if pictures is None:
        return EmbeddedPool(embedded, made, shown, None)
    if root is None:
        return EmbeddedPool(embedded, made, shown.drop(columns=pictures.column), None)
    left = pictures.take(embedded.rows)
    cells = left.cells
    in_folder = isinstance(cells, FilesIn) and not _is_archive(cells.place)
    shown[pictures.column] = list(cells.names) if isinstance(cells, FilesIn) and in_folder else _unpacked(left, root)
    return EmbeddedPool(embedded, made, shown, (pictures.column, str(root.resolve())))


def new_contents(
    session: Session,
    ordinary: pd.DataFrame,
    frame: pd.DataFrame,
    path: Path,
    place: Path | None,
    progress: Callable[[int, int, str], None],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pictures and texts of rows that arrive later, embedded as the campaign's were; and the rows as they are shown.

    Paths in the table go from `place`, a folder or an archive; by default from the folder of the campaign's pictures.
    """
    rules, made = session.settings, stored_contents(session.files, session.materials.manifest.get("contents"))
    assert made is not None
    root = Path(rules.image_root) if rules.image_root is not None else path.parent
    contents, shown = list[Content](), frame.copy()
    for own in made.columns:
        if own.embedder.kind == "text":
            contents.append(Content(own.column, "text", text_cells(frame[own.column])))
            continue
        cells = (
            picture_cells(own.column, frame[own.column], root)
            if place is None
            else named_pictures(place, frame, own.column)[1]
        )
        contents.append(Content(own.column, "picture", cells))
    embedded = made.embedded(ordinary, contents, progress)
    for content in contents:
        if content.kind == "picture" and content.column == rules.image_column:
            cells = content.cells
            there = isinstance(cells, FilesIn) and cells.place.resolve() == root.resolve()
            first = len(session.materials)
            shown[content.column] = (
                list(cells.names) if isinstance(cells, FilesIn) and there else _unpacked(content, root, first)
            )
    return embedded, shown


def _is_archive(place: Path) -> bool:
    return place.name.lower().endswith(ARCHIVE_SUFFIXES)


def _root(pictures: Content, options: ContentOptions) -> Path:
    """The folder that shown pictures lie in."""
    if isinstance(pictures.cells, FilesIn) and not _is_archive(pictures.cells.place):
        return pictures.cells.place
    if options.image_root is None:
        raise InputError(
            "Annotators see pictures as files, and these are in an archive or a table: name a folder to unpack them to "
            "(--image-root), or show none (--hide-pictures)."
        )
    return options.image_root


def _unpacked(pictures: Content, root: Path, first: int = 0) -> list[str]:
    """Write pictures to a folder that their owner alone may read; gives their names, numbered from `first`."""
    names = []
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"{root} cannot be made ({error.strerror}): choose another --image-root.") from None
    with pictures.cells.opened() as read:
        for row in range(len(pictures.cells)):
            data = read(row)
            form = next((form for start, form in _FORMS.items() if data.startswith(start)), None)
            if form is None:
                raise InputError(
                    f"{some([pictures.cells.name(row)])} is of no type a browser shows: convert it to JPEG or PNG."
                )
            names.append(f"{first + row:07d}.{form}")
            write_private(root / names[-1], data)
    return names


def store_contents(files: Files, made: ContentColumns) -> dict[str, object]:
    """Write what embeds; returns what `stored_contents` needs."""
    from apod.models.content_columns import packed_contents

    facts, arrays = packed_contents(made)
    return {"columns": facts, "arrays": {name: files.put_array(array) for name, array in arrays.items()}}


def stored_contents(files: Files, stored: Unchecked | None) -> ContentColumns | None:
    """What embedded a campaign's pictures and texts, for new people; None where there were none."""
    if stored is None:
        return None
    from apod.models.content_columns import saved_contents

    return saved_contents(stored["columns"], {name: files.array(file) for name, file in stored["arrays"].items()})
