"""`apod select`: selection alone, for people with their own training."""

from __future__ import annotations

from pathlib import Path

import typer

from apod.cli.options import ADDRESS, ENGINE, chosen_engine
from apod.cli.output import echo, echo_json


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
