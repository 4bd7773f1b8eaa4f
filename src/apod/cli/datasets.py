"""`apod datasets`: what is known, what is here, where the rest comes from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from apod.cli.output import echo, echo_json


def datasets(
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
    as_json: bool = typer.Option(False, "--json", help="Print the list as JSON."),
) -> None:
    """List the datasets known by name, whether they are here, and where the rest comes from.

    Example: apod datasets --data-dir ~/data
    """
    from apod.data.catalogue import catalogue

    rows = catalogue(data_dir)
    if as_json:
        echo_json([asdict(row) for row in rows], indent=2)
        return
    for row in rows:
        echo(f"{row.name}  {row.what}", bold=True)
        echo(f"  {row.rows:,} rows; groups {' / '.join(row.groups)}; {row.budget} answers; {row.licence}")
        echo(f"  {row.status}", fg="green" if row.here else "yellow")
