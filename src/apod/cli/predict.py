"""`apod predict`: a saved classifier decides about the people of a table."""

from __future__ import annotations

from pathlib import Path

import typer

from apod.cli.output import echo, echo_json
from apod.errors import InputError


def predict(
    classifier: Path = typer.Argument(help="The file that `apod run` or a campaign wrote: classifier.apod."),
    table: Path = typer.Argument(
        help="New people: a CSV or Parquet file with the columns of the first table, or .npy."
    ),
    out: Path = typer.Option(..., help="File for row, id, base and corrected decision and score of everybody."),
    id_column: str | None = typer.Option(None, "--id", help="The column that names people (default: one named id)."),
    strength: float | None = typer.Option(None, help="Another operating point than the saved one; 0: the model alone."),
    as_json: bool = typer.Option(False, "--json", help="Print a summary as JSON."),
) -> None:
    """Decide about new people: by the model alone and corrected. Nobody's group is needed, and none is written.

    Example: apod predict out/people/classifier.apod new.csv --out scored.csv
    """
    from apod.classifier import APODClassifier
    from apod.classifier.deploying import decide, read_people
    from apod.data.csv_cells import write_cells
    from apod.files import write_private

    if out.exists() and any(path.exists() and out.samefile(path) for path in (classifier, table)):
        raise InputError(f"{out} is what is read here: choose another --out.")
    if not out.parent.is_dir():
        raise InputError(f"There is no folder {str(out.parent)!r}: create it first.")
    loaded = APODClassifier.load(classifier)
    if strength is not None:
        loaded = loaded.at(strength)
    people, ids = read_people(loaded, table, id_column)
    found = decide(loaded, people, ids)
    columns = [found.table[name].tolist() for name in found.table.columns]
    write_private(out, write_cells(list(found.table.columns), zip(*columns, strict=True)))
    for warning in found.warnings:
        echo(f"warning: {warning}", err=True)
    if as_json:
        echo_json(
            {
                "rows": len(found.table),
                "strength": loaded.selected_strength_,
                "changed": found.changed,
                "expected_changed": found.expected_changed,
                "warnings": list(found.warnings),
                "out": str(out),
            }
        )
        return
    echo(
        f"{len(found.table)} people in {out}: {found.changed:.1%} of the decisions differ from the model's "
        f"(strength {loaded.selected_strength_:g})."
    )
