"""The `apod` command. Thin: parse, call one method, render. Heavy modules load inside the commands that need them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import typer

from apod.cli.audit import audit
from apod.cli.bench import bench, figures, select
from apod.cli.campaign import add_commands
from apod.cli.data import check, datasets
from apod.cli.evidence import verify
from apod.cli.run import predict, run
from apod.cli.serve import add_commands as add_web_commands
from apod.cli.shared import echo, offers_settings
from apod.errors import ApodError
from apod.text import printable


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"apod {version('apod-fairness')}")
        raise typer.Exit


def _options(
    show: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Make a classifier fairer when almost nobody's group is known."""


def build_app() -> typer.Typer:
    """The command with all its parts."""
    app = typer.Typer(
        name="apod",
        help="Make a classifier fairer when almost nobody's group is known.",
        epilog="Documentation: README.md and docs/index.md in the source; `make docs` builds it as a site.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for command in (offers_settings(run), predict, check, datasets, bench, figures, select, audit, verify):
        app.command()(command)
    add_commands(app)
    add_web_commands(app)
    return app


def _invoke(invoke: Callable[[Any], Any], context: Any) -> Any:
    """Run a command: Ctrl-C ends it with one line, and what it says of wrong usage steers no terminal."""
    try:
        return invoke(context)
    except KeyboardInterrupt:
        echo("interrupted: what was written before stays; run the command again to resume.", err=True)
        raise typer.Exit(130) from None
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong usage, as click says it: what was typed may be a file's name
            vars(error)["message"] = printable(vars(error)["message"])
        raise


def main() -> None:
    """Run the command; an error a user can mend is one line on stderr and status 2."""
    for library in ("OMP", "OPENBLAS", "MKL"):  # before NumPy and torch load: see apod.processes
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    app = typer.main.get_command(build_app())
    app.invoke = partial(_invoke, app.invoke)  # type: ignore[method-assign]
    try:
        app()
    except ApodError as error:
        for line in re.split(r"\n(?=  \d+\. )", f"error: {error}"):  # several problems of one table: a line each
            echo(line, err=True)
        sys.exit(2)
