"""`apod bench` and `apod figures`: the comparisons of the paper, and their pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.options import ADDRESS, ENGINE, chosen_backend
from apod.cli.output import echo
from apod.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def bench(
    datasets: str = typer.Option("adult,meps,loan,german,bank", help="Names from `apod datasets`, comma-separated."),
    methods: str | None = typer.Option(
        None, help="Names of methods, comma-separated; `paper` (the default), `rivals` and `all` name several."
    ),
    strengths: str | None = typer.Option(
        None, help="Penalty strengths instead of the grid, comma-separated; for methods with a penalty."
    ),
    seeds: int = typer.Option(5, help="How many seeds: 0, 1, 2, ..."),
    out: Path = typer.Option(Path("results"), help="Results folder; an interrupted bench goes on where it was."),
    jobs: int | None = typer.Option(None, help="Processes (default: one per core); the numbers do not depend on it."),
    retry_failed: bool = typer.Option(
        False, "--retry-failed", help="Run failed runs again; otherwise they stay failed."
    ),
    skip_bad: bool = typer.Option(
        False, "--skip-bad", help="Leave out pictures that do not decode or have no attributes; otherwise an error."
    ),
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
    engine: str = ENGINE,
    address: str | None = ADDRESS,
) -> None:
    """Compare all methods on all datasets, every strength, several seeds. Finished runs are kept.

    Example: apod bench --datasets adult,meps --methods vanilla,apod,pod-rs --seeds 3 --out results
    """
    from apod.bench.methods import resolve
    from apod.bench.runner import BenchPlan, run_bench
    from apod.cli.options import numbers, words
    from apod.cli.progress_lines import shown_progress

    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}.")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}.")
    plan = BenchPlan(
        datasets=tuple(words(datasets)),
        methods=tuple(resolve(words(methods) if methods is not None else ["paper"])),
        seeds=tuple(range(seeds)),
        strengths=numbers("--strengths", strengths),
        data_dir=data_dir,
        retry_failed=retry_failed,
        skip_bad=skip_bad,
    )
    with shown_progress("Banks of heads") as show, chosen_backend(engine, address) as (backend, processors):
        store = run_bench(
            plan,
            out.absolute(),
            jobs or processors,
            show,
            backend,
            note=lambda text: echo(f"note: {text}", err=True),
        )
    runs = store.read("runs")
    for line in _finished(runs, out):
        echo(line, err=True)
    if (runs["status"] == "failed").all():
        raise typer.Exit(1)


def _finished(runs: pd.DataFrame, out: Path) -> list[str]:
    """What is on record, what failed and why, and what comes next."""
    failed = runs.loc[runs["status"] == "failed", "error"]
    said = [f"{len(runs)} runs on record in {out}, {len(failed)} failed."]
    for error, times in failed.value_counts().head(3).items():
        said.append(f"  {times} times: {error}")
    if len(failed):
        said.append("Once the cause is mended, --retry-failed runs them again.")
    if len(failed) < len(runs):
        said.append(f"Next: apod figures {out}")
    return said


def figures(
    results: Path = typer.Argument(help="The results folder of `apod bench`."),
    out: Path | None = typer.Option(None, help="Where the figures go (default: RESULTS/figures)."),
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
) -> None:
    """Draw the paper's figures and write the summary from bench results.

    Example: apod figures results
    """
    from apod.bench.figures import draw_figures
    from apod.cli.progress_lines import shown_progress

    if not (results / "bench.json").exists():
        raise InputError(f"{results} holds no results of `apod bench`: run that first, or name another folder.")
    with shown_progress("Drawing figures") as show:
        written = draw_figures(results, out or results / "figures", data_dir, show)
    for path in written:
        echo(path)
