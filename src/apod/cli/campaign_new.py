"""`apod campaign new`: a campaign over a table of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from apod.cli.shared import (
    COLUMNS,
    DECIMAL,
    EMBED,
    ENCODING,
    FILES,
    LABELS,
    NAME,
    NO_CACHE,
    PICTURE_COLUMN,
    PICTURE_SIZE,
    SEP,
    SKIP_BAD,
    TEXT,
    TEXT_EMBED,
    URL,
    echo,
    embedder_names,
    group_names,
    without_password,
    words,
)


def new(
    url: str = URL,
    table: Path = typer.Argument(
        help="Your people, one row each: CSV, Excel, Parquet, ..., a .npy matrix, or a folder, tar or zip of pictures."
    ),
    label: str = typer.Option(..., help="The column to predict (two values); of a .npy matrix, its .npy labels."),
    groups: list[str] | None = typer.Option(
        None,
        help="Names of the groups, comma-separated, in the order of their keys (default: of --known-groups). Several "
        "attributes: NAME=a,b each.",
    ),
    budget: int = typer.Option(..., help="How many answers may be asked for in all; with several attributes: people."),
    campaign: str | None = NAME,
    positive: str | None = typer.Option(None, help="The label value that counts as 1 (default: 1, yes, true)."),
    sensitive: str | None = typer.Option(
        None, help="A recorded group column that must be no feature and not shown, or several, comma-separated."
    ),
    known_groups: str | None = typer.Option(
        None, help="A column of groups that you hand in: answers that cost nothing; blanks may be asked about."
    ),
    drop: str | None = typer.Option(None, help="Columns that must not be features, comma-separated."),
    show: str | None = typer.Option(None, help="Columns an annotator sees (default: all but label and names)."),
    show_label: bool = typer.Option(False, "--show-label", help="Annotators see the label too."),
    id_column: str | None = typer.Option(None, help="Column with an id per person."),
    score: str | None = typer.Option(
        None, help="Column with probabilities by the model to correct (default: a standard model is fitted)."
    ),
    sep: str | None = SEP,
    decimal: str | None = DECIMAL,
    encoding: str | None = ENCODING,
    labels: Path | None = LABELS,
    picture_column: str | None = PICTURE_COLUMN,
    text: str | None = TEXT,
    columns: str | None = COLUMNS,
    embed: str | None = EMBED,
    text_embed: str | None = TEXT_EMBED,
    picture_size: str | None = PICTURE_SIZE,
    skip_bad: bool = SKIP_BAD,
    no_embed_cache: bool = NO_CACHE,
    hide_pictures: bool = typer.Option(False, "--hide-pictures", help="Annotators see no picture."),
    *,
    settings: Mapping[str, Any],
    guidelines: Path | None = typer.Option(None, exists=True, dir_okay=False, help="Text file with guidelines."),
    legal_basis: str | None = typer.Option(None, help="Why you may ask for this special-category data."),
    criterion: str | None = typer.Option(
        None, help='What must hold at the end, fixed now: "gap <= 0.05"; it changes only with a reason.'
    ),
    keep_until: str | None = typer.Option(None, help="The day from which answers are to be erased: 2027-06-30."),
    purpose: str | None = typer.Option(None, help="What answers are for: told to the person before a self-report."),
    question: str | None = typer.Option(None, help="What annotators are asked (default: a sentence by --kind)."),
    kind: str = typer.Option("perceived", help="Where answers come from: self_reported, records or perceived."),
    overlap: int = typer.Option(1, help="How many people answer each question."),
    lease_minutes: float = typer.Option(30.0, help="How long a question is assigned to one person."),
    audit_share: float = typer.Option(
        0.2, help="Share of the questions kept for measuring, about people drawn at random; 0: no audit."
    ),
    verify_share: float = typer.Option(
        0.0,
        help="Share of the questions, up to 0.33, that try the correction on people whose decision it changes before "
        "it is applied; 0: none.",
    ),
    least_gain: float = typer.Option(
        0.0,
        help="Pause once the rest of the budget is expected to gain less, e.g. 0.005: of the expected fall of the gap "
        "minus caution times its deviation; of heads, experimental, of the gap. 0: never.",
    ),
    image_column: str | None = typer.Option(None, help="Column with the path of each person's picture."),
    image_root: Path | None = typer.Option(None, help="Folder the pictures lie under (default: the table's)."),
    gold: Path | None = typer.Option(
        None, exists=True, dir_okay=False, help="Known answers: CSV of row and group, or of row and several attributes."
    ),
    gold_every: int = typer.Option(10, help="One question in so many checks the annotator by a known answer."),
    seed: int = typer.Option(0, help="Same seed, same questions."),
    files: Path | None = FILES,
) -> None:
    """Create a campaign over a table of people.

    Example: apod campaign new hiring.db people.csv --label hired --groups female,male --budget 40

    Example: apod campaign new hiring.db people.csv --label hired --groups sex=female,male --groups race=a,b --budget 60

    Example: apod campaign new faces.db pictures/ --labels labels.csv --label wavy --groups female,male --budget 40
    """
    from apod.campaign import Campaign
    from apod.campaign.audit_sample import audit_advice
    from apod.campaign.contents import ContentOptions
    from apod.campaign.settings import LONGEST_LEASE
    from apod.cli.progress_lines import shown_progress
    from apod.data.text_files import dialect
    from apod.errors import InputError

    if not 0.001 <= lease_minutes <= LONGEST_LEASE / 60:
        longest = LONGEST_LEASE // 60
        raise InputError(f"--lease-minutes is {lease_minutes:g}: give minutes from 0.001 to {longest} (a year).")
    names, named = group_names(groups)
    with shown_progress("Creating the campaign", at_once=True) as progress:
        contents = None
        if labels is not None or picture_column is not None or text is not None:
            contents = ContentOptions(
                labels=labels,
                picture=picture_column,
                text=tuple(words(text or "")),
                columns=None if columns is None else tuple(words(columns)),
                embedders=embedder_names(embed, text_embed, picture_size),
                skip_bad=skip_bad,
                keep=not no_embed_cache,
                image_root=image_root,
                hide=hide_pictures,
                progress=progress,
            )
        created = Campaign.create_from_table(
            url,
            table,
            label=label,
            groups=named or names,
            budget=budget,
            name=campaign,
            positive=positive,
            sensitive=sensitive,
            known_groups=known_groups,
            drop=words(drop or ""),
            show=words(show) if show is not None else None,
            id_column=id_column,
            score=score,
            dialect=dialect(sep, decimal, encoding),
            contents=contents,
            engine_options=settings,
            files=files,
            refit="demand",
            guidelines=guidelines.read_text(encoding="utf-8") if guidelines is not None else None,
            legal_basis=legal_basis,
            criterion=criterion,
            keep_until=keep_until,
            purpose=purpose,
            question=question,
            kind=kind,
            overlap=overlap,
            lease_seconds=lease_minutes * 60,
            show_label=show_label,
            audit_share=audit_share,
            verify_share=verify_share,
            least_gain=least_gain,
            image_column=image_column,
            image_root=str((image_root or table.parent).resolve()) if image_column is not None else None,
            gold=_gold(gold, tuple(named) if len(named) > 1 else ()) if gold is not None else None,
            gold_every=gold_every,
            seed=seed,
        )
    try:
        status, drawn = created.status(), created.materials.drawn
    finally:
        created.close()
    if status.known:
        echo(f"{status.known} groups are handed in; they cost nothing.")
    echo(f"{status.name}: {status.budget} answers to ask for. Next: apod ask {without_password(url)}")
    for reminder in status.reminders:
        echo(f"reminder: {reminder}", err=True)
    if drawn:
        echo(f"note: of so many people {drawn:,} were drawn at random to learn from and to ask about.", err=True)
    advice = audit_advice(budget, audit_share, overlap)
    if advice is not None:
        echo(f"note: {advice}", err=True)


def _gold(path: Path, attributes: Sequence[str]) -> Mapping[int, str | Mapping[str, str | None]]:
    """Rows whose group is known, by row number."""
    from apod.campaign.formats import read_gold

    return read_gold(path, attributes)
