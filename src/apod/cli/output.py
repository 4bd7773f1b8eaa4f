"""All that a command prints goes through here: nothing from a user's data can steer the terminal."""

from __future__ import annotations

import json
from typing import Any

import typer

from apod.printable import printable


def echo(*cells: object, err: bool = False, end: str = "\n", **style: Any) -> None:
    """Print a line, or cells with tabs between them; `style` is that of `typer.style` and holds for the line."""
    line = "\t".join(map(printable, cells))
    typer.echo((typer.style(line, **style) if style else line) + end, nl=False, err=err)


def echo_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON, all of it in ASCII."""
    text = json.dumps(value, indent=indent)
    typer.echo(text.replace("\x7f", "\\u007f"))  # the one control character that JSON lets stand
