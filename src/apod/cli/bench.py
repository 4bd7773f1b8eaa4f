"""`apod bench`, `apod figures`, `apod select`: the paper's comparisons, their pictures, selection alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.shared import ADDRESS, DECIMAL, ENCODING, ENGINE, SEP, chosen_backend, chosen_engine, echo, echo_json
from apod.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def bench(
    table: Path | None = typer.Argument(None, help="Your own table instead of the paper's: CSV, Excel, Parquet, ..."),
    label: str | None = typer.Option(None, help="Own table: the column to predict (two values)."),
    sensitive: str | None = typer.Option(None, help="Own table: the recorded group column."),
    positive: str | None = typer.Option(None, help="Own table: the label value that counts as 1."),
    drop: str | None = typer.Option(None, help="Own table: columns that must not be features, comma-separated."),
    reference: str | None = typer.Option(None, help="Own table: the group the others are compared with."),
    budget: float | None = typer.Option(None, help="Own table: answers, or a share (below 1); default 30."),
    sep: str | None = SEP,
    decimal: str | None = DECIMAL,
    encoding: str | None = ENCODING,
    datasets: str | None = typer.Option(
        None, help="Names from `apod datasets`, comma-separated (default: the paper's five tables)."
    ),
    methods: str | None = typer.Option(
        None,
        help="Names of methods, comma-separated; `paper` (the default), `rivals`, `corrections` (the "
        "default of `apod run` among them) and `all` name several.",
    ),
    strengths: str | None = typer.Option(
        None, help="Penalty strengths instead of the grid, comma-separated; for methods with a penalty."
    ),
    seeds: int = typer.Option(5, help="How many seeds: 0, 1, 2, ..."),
    out: Path = typer.Option(Path("results"), help="Results folder; an interrupted bench resumes where it stopped."),
    jobs: int | None = typer.Option(None, help="Processes (default: one per core); the numbers do not depend on it."),
    retry_failed: bool = typer.Option(
        False, "--retry-failed", help="Run failed runs again; otherwise they stay failed."
    ),
    skip_bad: bool = typer.Option(
        False, "--skip-bad", help="Leave out pictures that do not decode or have no attributes; otherwise an error."
    ),
    embed: str | None = typer.Option(
        None, help="CelebA: a pre-trained body (efficientnet-lite0, or as in `apod run`) in the place of the paper's."
    ),
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
    engine: str = ENGINE,
    address: str | None = ADDRESS,
) -> None:
    """Compare all methods on all datasets, every strength, several seeds. Finished runs are kept.

    Example: apod bench --datasets adult,meps --methods vanilla,apod,pod-rs --seeds 3 --out results

    Example: apod bench people.csv --label hired --sensitive gender --methods vanilla,apod,pod-all --out mine
    """
    from apod.bench.methods import resolve
    from apod.bench.runner import TABLES, BenchPlan, run_bench
    from apod.bench.unit import OwnTable
    from apod.cli.progress_lines import shown_progress
    from apod.cli.shared import numbers, words
    from apod.data.own import FileColumns
    from apod.data.text_files import dialect

    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}.")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}.")
    own = None
    if table is not None:
        said = FileColumns(
            label,
            sensitive,
            reference,
            positive=positive,
            drop=tuple(words(drop or "")),
            dialect=dialect(sep, decimal, encoding),
        )
        own = OwnTable(table.absolute(), said, budget)
    elif label is not None or sensitive is not None or budget is not None:
        raise InputError("--label, --sensitive and --budget are for your own table: name its file first.")
    named = tuple(words(datasets)) if datasets is not None else TABLES if own is None else ()
    plan = BenchPlan(
        datasets=named if own is None else (own.name, *named),
        methods=tuple(resolve(words(methods) if methods is not None else ["paper"])),
        seeds=tuple(range(seeds)),
        strengths=numbers("--strengths", strengths),
        data_dir=data_dir,
        retry_failed=retry_failed,
        skip_bad=skip_bad,
        own=own,
        embed=embed,
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


def select(
    embeddings: Path = typer.Argument(
        help="Matrix of embeddings, .npy or a folder of them, one row per person; may be larger than memory."
    ),
    answered: Path | None = typer.Option(None, help="Row numbers already annotated, .npy."),
    labels: Path | None = typer.Option(None, help="Labels, .npy; with --groups and --subgroup."),
    groups: Path | None = typer.Option(None, help="Groups as far as guessed, .npy."),
    subgroup: str | None = typer.Option(None, help="Pick only among this group and label, e.g. 0,1."),
    k: int = typer.Option(1, "-k", help="How many people."),
    ids: Path | None = typer.Option(None, help="An id per row, .npy; --answered then holds ids too."),
    engine: str = ENGINE,
    address: str | None = ADDRESS,
    parts: int | None = typer.Option(None, help="Parts a file is cut into on a cluster (default: one per machine)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON: picks in order, seconds, passes over the matrix."),
) -> None:
    """Pick the k people farthest from all annotated ones: exact max-min, a few passes over the matrix.

    Example: apod select embeddings.npy --answered rows.npy -k 100 --json
    """
    from apod.maxmin import select as select_rows

    with chosen_engine(engine, address, parts) as opened:
        found = select_rows(
            str(embeddings),
            str(answered) if answered is not None else (),
            k,
            labels=None if labels is None else str(labels),
            groups=None if groups is None else str(groups),
            subgroup=subgroup,
            engine=opened,
            ids=None if ids is None else str(ids),
        ).to_dict()
    if len(found["picks"]) < k:
        echo(f"only {len(found['picks'])} people were there to pick from, of {k} asked for", err=True)
    if as_json:
        echo_json(found)
        return
    for pick in found["picks"]:
        echo(pick.get("id", pick["row"]), "inf" if pick["distance"] is None else pick["distance"])
