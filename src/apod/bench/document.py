"""A summary as sections of paragraphs, tables and pictures; Markdown and one self-contained HTML page from the same."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_<>[]|#~"} | {"\n": " ", "\r": " "})


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure: files name.svg and name.png beside the summary."""

    name: str
    task: str | None  # None: of all tasks
    title: str
    caption: str
    svg: bytes

    @property
    def source(self) -> str:
        """The picture itself, for a page that needs no other file."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg).decode()


@dataclass(frozen=True)
class Table:
    """A title, column heads, rows of text, and what a reader must know of them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    long: bool = False  # folded away in HTML
    words: bool = False  # mostly text: to the left, wrapped


@dataclass(frozen=True, eq=False)
class Section:
    """One heading and what stands under it."""

    title: str
    anchor: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, eq=False)
class Document:
    """The whole summary."""

    title: str
    sections: tuple[Section, ...]

    def markdown(self) -> str:
        """Tables as pipes, pictures as the PNG files beside it."""
        lines = [f"# {_plain(self.title)}"]
        for section in self.sections:
            lines += ["", f"## {_plain(section.title)}"]
            for paragraph in section.paragraphs:
                lines += ["", _plain(paragraph)]
            if section.points:
                lines += ["", *(f"- {_plain(point)}" for point in section.points)]
            for picture in section.pictures:
                lines += ["", f"![{_plain(picture.title)}]({picture.name}.png)", "", _plain(picture.caption)]
            for table in section.tables:
                lines += ["", *_table_lines(table)]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """One page, pictures inside it; it asks no host for anything."""
        environment = Environment(
            loader=PackageLoader("apod.bench", ""),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return environment.get_template("summary.html").render(title=self.title, sections=self.sections)


def _plain(text: str) -> str:
    """Text that Markdown takes as it is."""
    return text.translate(_ESCAPED)


def _table_lines(table: Table) -> list[str]:
    lines = [f"**{_plain(table.title)}**", "", _row(table.head), _row(["---"] * len(table.head), raw=True)]
    lines += [_row(row) for row in table.rows]
    for note in table.notes:
        lines += ["", _plain(note)]
    return lines


def _row(cells: Sequence[str], raw: bool = False) -> str:
    return f"| {' | '.join(cell if raw else _plain(cell) for cell in cells)} |"
