"""`apod datasets` and `apod check`: which data is known, and what is understood of a table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.shared import DECIMAL, ENCODING, SEP, echo, echo_json, group_names, words

if TYPE_CHECKING:
    from apod.data.summary import TableSummary


def datasets(
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
    as_json: bool = typer.Option(False, "--json", help="Print the list as JSON."),
) -> None:
    """List the datasets known by name, whether they are here, and where the rest comes from.

    Example: apod datasets --data-dir ~/data
    """
    from apod.data.load import catalogue

    rows = catalogue(data_dir)
    if as_json:
        echo_json([asdict(row) for row in rows], indent=2)
        return
    for row in rows:
        echo(f"{row.name}  {row.what}", bold=True)
        echo(f"  {row.rows:,} rows; groups {' / '.join(row.groups)}; {row.budget} answers; {row.licence}")
        echo(f"  {row.status}", fg="green" if row.here else "yellow")


def check(
    table: Path = typer.Argument(help="Your people, one row each: CSV, Excel, JSON Lines, Parquet, ..."),
    label: str | None = typer.Option(None, help="The column to predict (two values)."),
    sensitive: str | None = typer.Option(None, help="The recorded group column, as for apod run."),
    known_groups: str | None = typer.Option(None, help="The column of groups that are handed in, as for apod run."),
    groups: list[str] | None = typer.Option(None, help="Names of the groups, as for apod run."),
    positive: str | None = typer.Option(None, help="The label value that counts as 1 (default: 1, yes, true)."),
    drop: str | None = typer.Option(None, help="Columns that must not be features, comma-separated."),
    reference: str | None = typer.Option(None, help="The group the others are compared with (default: the larger)."),
    sep: str | None = SEP,
    decimal: str | None = DECIMAL,
    encoding: str | None = ENCODING,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print what is understood of a table: types, roles, shares, groups, problems; status 1 where there are problems.

    Example: apod check people.csv --label hired --sensitive gender
    """
    from apod.data.own import FileColumns, understand_file
    from apod.data.summary import summarize
    from apod.data.text_files import dialect

    names, groups_of = group_names(groups)
    said = FileColumns(
        label=label,
        sensitive=sensitive,
        reference=reference,
        group_names=names,
        groups_of=groups_of,
        positive=positive,
        drop=tuple(words(drop or "")),
        known=known_groups,
        dialect=dialect(sep, decimal, encoding),
    )
    found = summarize(understand_file(table, said))
    if as_json:
        echo_json(found.to_dict())
    else:
        _show(found)
    if found.problems:
        raise typer.Exit(1)


def _show(found: TableSummary) -> None:
    echo(f"{found.file}: {found.rows:,} rows, {len(found.columns)} columns", bold=True)
    if (label := found.label) is not None and label.labels is not None:
        each = ", ".join(f"{name} {count:,} ({count / found.rows:.1%})" for name, count in label.labels.items())
        echo(f"labels  {label.column}: {each}")
    elif label is not None:
        echo(
            f"label   {label.column}: {label.positive!r} counts as 1, in {label.positives:,} of {found.rows:,} rows "
            f"({label.base_rate:.1%}); {label.negative!r} as 0"
        )
    if found.group_column is not None and found.groups:
        people = ", ".join(
            f"{group.name} {group.people:,}"
            + ("" if group.base_rate is None else f" ({group.base_rate:.1%} with label 1)")
            for group in found.groups
        )
        blank = found.without_group or 0
        echo(f"groups  {found.group_column}: {people}; not recorded {blank:,} ({blank / found.rows:.1%})")
    elif found.groups:
        echo(f"groups  {', '.join(group.name for group in found.groups)}: nobody's is recorded")
    _table(found)
    for note in found.notes:
        echo(f"note: {note}")
    for problem in found.problems:
        echo(f"problem: {problem}")
    echo(f"{len(found.problems)} problem(s) to mend." if found.problems else "No problems.")


def _table(found: TableSummary) -> None:
    rows = [("column", "type", "used as", "missing", "values", "")]
    for column in found.columns:
        share = f"{column.missing_share:.1%}" if column.missing else "-"
        rows.append(
            (column.name or "(no name)", column.type, column.role, share, f"{column.distinct:,}", column.why or "")
        )
    widths = [min(40, max(len(row[place]) for row in rows)) for place in range(5)]
    echo()
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths[:3], strict=True)]
        cells += [cell.rjust(width) for cell, width in zip(row[3:5], widths[3:5], strict=True)]
        echo("  " + "  ".join([*cells, row[5]]).rstrip())
    echo()
