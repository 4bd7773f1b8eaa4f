"""`apod run` and `apod predict`: Algorithm 1 on a dataset or a file, and its classifier at work on new people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apod.cli.shared import (
    COLUMNS,
    DECIMAL,
    EMBED,
    ENCODING,
    LABELS,
    NO_CACHE,
    PICTURE_COLUMN,
    PICTURE_SIZE,
    SEP,
    SKIP_BAD,
    TEXT,
    TEXT_EMBED,
    WEIGHT,
    echo,
    echo_json,
    embedder_names,
    for_labels,
    group_names,
    numbers,
    words,
)
from apod.errors import ApodError, InputError
from apod.fairness.criterion import parse_criterion
from apod.method.checks import answers_allowed
from apod.method.settings import SHARED, Settings, settings_from

if TYPE_CHECKING:
    from apod.data import Dataset
    from apod.data.own import FileColumns
    from apod.method.annotators import Annotator
    from apod.models.content_columns import ContentColumns
    from apod.models.embedder import EmbedderNames
    from apod.run import Listener


def run(
    dataset: str = typer.Argument(
        help="A name from `apod datasets`, your own table (CSV, Excel, JSON Lines, Parquet, ...), a .npy matrix, or a "
        "folder, tar or zip of pictures."
    ),
    label: str | None = typer.Option(
        None, help="Own file: the column to predict (two to 20 values); for a .npy matrix, its .npy file of labels."
    ),
    sensitive: str | None = typer.Option(
        None,
        help="Own file: the recorded group column or .npy file, or several, comma-separated; read only when asked.",
    ),
    known_groups: str | None = typer.Option(
        None, help="Own file: a column of groups that you hand in, at no cost; you are asked about its blanks."
    ),
    groups: list[str] | None = typer.Option(
        None, help="Own file without that column: group names, comma-separated; of several attributes each NAME=a,b."
    ),
    positive: str | None = typer.Option(
        None, help="Own file: the label value of two that counts as 1 (default: 1, yes, true)."
    ),
    drop: str | None = typer.Option(None, help="Own file: columns that must not be features, comma-separated."),
    score: str | None = typer.Option(
        None, help="The column with the scores of your own model, P(positive), to correct; by default one is fitted."
    ),
    weight: str | None = WEIGHT,
    reference: str | None = typer.Option(None, help="The group the others are compared with (default: the larger)."),
    budget: float | None = typer.Option(None, help="Answers: a count, or a share (below 1) of the training part."),
    audit_share: float = typer.Option(0.0, help="Share of the budget kept for measuring, on random test people."),
    sep: str | None = SEP,
    decimal: str | None = DECIMAL,
    encoding: str | None = ENCODING,
    verify_share: float = typer.Option(
        0.0, help="Share of the budget, up to 0.33, kept to try a correction on people whose decision it changes."
    ),
    criterion: str | None = typer.Option(
        None, help='What must hold at the end, fixed before the first answer: "gap:sex <= 0.05", "accuracy >= 0.8".'
    ),
    labels: Path | None = LABELS,
    picture_column: str | None = PICTURE_COLUMN,
    text: str | None = TEXT,
    columns: str | None = COLUMNS,
    embed: str | None = EMBED,
    text_embed: str | None = TEXT_EMBED,
    picture_size: str | None = PICTURE_SIZE,
    skip_bad: bool = SKIP_BAD,
    no_embed_cache: bool = NO_CACHE,
    thumbnails: bool = typer.Option(
        False, "--thumbnails", help="Show the pictures of those asked about in the report; they are personal data."
    ),
    *,
    settings: Mapping[str, Any],
    split: str | None = typer.Option(None, help="Training, validation and test shares, e.g. 0.25,0.25,0.5."),
    seed: int = typer.Option(0, help="Same seed, same result."),
    out: Path | None = typer.Option(None, help="Folder for report.html and result.json (default: out/NAME)."),
    compare: str | None = typer.Option(
        None, help="Run another preset on the same people with the same budget, and show both: paper, heads."
    ),
    plan: bool = typer.Option(
        False, "--plan", help="Ask nobody: say what gap this budget can tell from none, and what would be needed."
    ),
    resume: bool = typer.Option(False, "--resume", help="Continue an interrupted run in the same folder."),
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
    as_json: bool = typer.Option(False, "--json", help="Print result.json to standard output."),
) -> None:
    """Choose whom to ask, hear the answers, correct a model after each, and report what that did.

    Example: apod run adult --budget 30 --seed 0 --out out/adult

    Example: apod run people.csv --label hired --sensitive gender --budget 40

    Example: apod run people.csv --label hired --sensitive gender --score model_score

    Example: apod run pictures/ --labels labels.csv --label wavy --sensitive male

    Example: apod run people.csv --label hired --groups female,male --budget 40 --plan
    """
    from apod.data.own import FileColumns
    from apod.data.text_files import dialect

    names_given, groups_of = group_names(groups)
    chosen = settings_from(for_matrix(dataset, settings))
    said = FileColumns(
        label=label,
        sensitive=sensitive,
        reference=reference,
        group_names=names_given,
        groups_of=groups_of,
        positive=positive,
        drop=tuple(words(drop or "")),
        known=known_groups,
        weight=weight,
        dialect=dialect(sep, decimal, encoding),
        text=tuple(words(text or "")),
        picture=picture_column,
        columns=None if columns is None else tuple(words(columns)),
    )
    names = embedder_names(embed, text_embed, picture_size)
    data = _load(dataset, said, data_dir, _split(split), chosen.body, labels)
    if thumbnails and not any(content.kind == "picture" for content in data.contents):
        raise InputError("There are no pictures to show: leave --thumbnails out.")
    chosen = for_labels(chosen, settings, data.classes)
    if plan:
        from apod.cli.progress import TerminalListener

        listener = TerminalListener(quiet=True)
        with listener:
            data, _ = _embedded(data, names, seed, skip_bad, not no_embed_cache, listener)
        _plan(data, chosen, seed, score, budget, as_json)
        return
    asks = (bool(groups) or known_groups is not None) and budget != 0
    if asks:
        _check_person(chosen)
    against = _compared(compare, data, asks)
    folder = out or Path("out") / data.name
    _check_folder(folder, resume, asks_a_person=asks)

    from apod.cli.progress import TerminalListener
    from apod.models.content_columns import picture_thumbnails
    from apod.run import run_experiment
    from apod.run.approach import without_score
    from apod.run.files import fix_criterion, write_outcome
    from apod.run.record import compared

    if criterion is not None:
        parse_criterion(criterion).check_attribute(data.attribute)
    fixed = fix_criterion(folder, criterion, resume)
    shown = partial(picture_thumbnails, data) if thumbnails else None  # of pictures before they are embedded
    listener = TerminalListener(quiet=asks)
    try:
        with listener:
            data, contents = _embedded(data, names, seed, skip_bad, not no_embed_cache, listener)
            annotator = _person(data, chosen, score) if asks else None
            outcome = run_experiment(
                data,
                chosen,
                seed=seed,
                budget=budget,
                preset=settings["preset"],
                annotator=annotator,
                checkpoint=folder / "checkpoint",
                resume=resume,
                listener=listener,
                audit_share=audit_share,
                verify_share=verify_share,
                score=score,
                criterion=fixed,
            )
            if against is not None:
                listener.stage(f"The same people with the preset {compare}")
                seen = data if score is None else without_score(data, score)
                other = run_experiment(seen, against, seed=seed, budget=budget, preset=str(compare))
                outcome.result["compared"] = compared(other.result)
            listener.stage("Writing the report")
            report = write_outcome(outcome, folder, contents, shown)
    except KeyboardInterrupt:
        kept = (folder / "checkpoint" / "answers.jsonl").exists()
        then = "All answers are kept: run the same command with --resume." if kept else "Nothing was asked yet."
        raise ApodError(f"Interrupted. {then}") from None
    except OSError as error:
        raise InputError(f"Cannot write to {folder} ({error.strerror}): choose another --out.") from None
    if as_json:
        echo_json(outcome.result)
    listener.summary(outcome.result, report)


def for_matrix(name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings given, for a .npy matrix: its columns are embeddings."""
    from apod.data.embeddings import is_matrix

    if not is_matrix(Path(name)):
        return given
    if given.get("body", "precomputed") != "precomputed":
        raise InputError(f"A .npy matrix holds embeddings already: leave out --body {given['body']}.")
    if given["preset"] != "default" or "body" in given:
        return {**given, "body": "precomputed"}
    return given


def _load(
    name: str,
    said: FileColumns,
    data_dir: Path | None,
    split: tuple[float, float, float] | None,
    body: str | None,
    labels: Path | None,
) -> Dataset:
    from apod.data import DATASETS
    from apod.data.embeddings import is_matrix, is_parquet_folder, load_embedded
    from apod.data.load import load_data

    path, names = Path(name), said.group_names
    if name not in DATASETS and said.recorded is None and names is None and not said.groups_of and path.exists():
        raise InputError(
            "Say where groups come from: --sensitive COLUMN (recorded), --known-groups COLUMN (you hand in some), or "
            "--groups a,b (you are asked)."
        )
    if said.sensitive is not None and (names is not None or said.groups_of):
        raise InputError("Give --sensitive (groups are recorded) or --groups (you are asked), not both.")
    if names is not None and len(set(names)) < 2:
        raise InputError("--groups needs at least two different names, comma-separated.")
    if name not in DATASETS and (labels is not None or said.text or said.picture):
        from apod.data.load import load_contents

        data = load_contents(path, said, labels)
    elif is_matrix(path) or (body == "precomputed" and is_parquet_folder(path)):
        data = load_embedded(path, said)
    else:
        data = load_data(name, said, data_dir)
    return data if split is None else replace(data, task=replace(data.task, split=split))


def _embedded(
    data: Dataset, names: EmbedderNames, seed: int, skip_bad: bool, keep: bool, listener: Listener
) -> tuple[Dataset, ContentColumns | None]:
    """The dataset with pictures and texts embedded, texts as the training part alone teaches; as it is without any."""
    if not data.contents:
        return data, None
    from apod.data.dataset import split_rows
    from apod.models.content_columns import embed_dataset
    from apod.models.embedding import embedding_folder

    def progress(done: int, total: int, text: str) -> None:
        if done == 0:
            listener.stage(text)
        listener.body(done, total, text)

    return embed_dataset(
        data,
        names,
        folder=embedding_folder() if keep else None,
        learn_from=lambda own: split_rows(own.key, len(own), own.task.split, seed).train,
        skip_bad=skip_bad,
        progress=progress,
    )


def _compared(preset: str | None, data: Dataset, asks: bool) -> Settings | None:
    """The settings of the preset to compare with; InputError where it cannot run on this."""
    if preset is None:
        return None
    if asks:
        raise InputError("--compare asks about other people: it needs recorded groups (--sensitive).")
    body = {"body": "precomputed"} if data.embedded and preset != "default" else {}
    return settings_from({"preset": preset, **body})


def _check_person(settings: Settings) -> None:
    if settings.trajectories != SHARED:
        raise InputError("The paper preset asks anew for every strength: answer by hand with the default preset.")


def _plan(data: Dataset, settings: Settings, seed: int, score: str | None, budget: float | None, as_json: bool) -> None:
    """What the budget can tell, from the model's decisions and the share of the group alone."""
    from apod.method.group_knowledge import read_knowledge
    from apod.method.plan import plan_budget
    from apod.run.correction import CorrectionOfModel

    if not settings.corrects:
        raise InputError("--plan is for a corrected model: leave --body and its preset out.")
    population = CorrectionOfModel(data, settings, seed, score).mitigation.population
    answers = answers_allowed(data.task.budget if budget is None else budget, population.training, population.n_groups)
    known = read_knowledge(settings, data.group_names, data.label_names)
    labels, decided = (own[: population.training] for own in (population.people.labels, population.people.decisions))
    found = plan_budget(population.notion, labels, decided, None if known is None else known.share, answers)
    if as_json:
        echo_json(found.to_dict())
    for line in [] if as_json else found.words():
        echo(line)


def _person(data: Dataset, settings: Settings, score: str | None) -> Annotator:
    from apod.method.annotators import TerminalPrompt
    from apod.method.group_knowledge import columns_named
    from apod.run.approach import without_score

    data = data if score is None else without_score(data, score)  # whoever answers must not see a prediction
    told = columns_named(settings.group_probability)
    data = replace(data, features=data.features.drop(columns=told, errors="ignore"))
    return TerminalPrompt(data, say=lambda text: echo(text, err=True), listen=_listen)


def _listen(prompt: str) -> str:
    echo(prompt, end="", err=True)
    return input()


def _check_folder(folder: Path, resume: bool, asks_a_person: bool) -> None:
    """Refuse before anything is written: a file in the way, or a person's answers that would be lost."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose another --out.")
    if asks_a_person and (folder / "checkpoint" / "answers.jsonl").exists() and not resume:
        raise InputError(f"{folder} holds answers of an earlier run: add --resume, or choose another --out.")


def _split(text: str | None) -> tuple[float, float, float] | None:
    shares = numbers("--split", text)
    if shares is None:
        return None
    if len(shares) != 3 or not all(share > 0 for share in shares) or not abs(sum(shares) - 1) <= 1e-9:
        raise InputError(f"--split takes three positive shares that add up to 1, got {text!r}.")
    return shares[0], shares[1], shares[2]


def predict(
    classifier: Path = typer.Argument(help="The file that `apod run` or a campaign wrote: classifier.apod."),
    table: Path = typer.Argument(
        help="New people: a CSV or Parquet file with the columns of the first table, or .npy."
    ),
    out: Path = typer.Option(..., help="File for row, id, base and corrected decision and score of everybody."),
    id_column: str | None = typer.Option(None, "--id", help="The column that names people (default: one named id)."),
    pictures: Path | None = typer.Option(None, help="Folder, tar or zip that the table's pictures lie in."),
    strength: float | None = typer.Option(None, help="Another operating point than the saved one; 0: the model alone."),
    as_json: bool = typer.Option(False, "--json", help="Print a summary as JSON."),
) -> None:
    """Decide about new people: by the model alone and corrected. Nobody's group is needed, and none is written.

    Example: apod predict out/people/classifier.apod new.csv --out scored.csv
    """
    from apod.classifier import APODClassifier
    from apod.classifier.deployment import decide, read_people
    from apod.data.cells import write_cells
    from apod.files import require_folder, write_private

    if out.exists() and any(path.exists() and out.samefile(path) for path in (classifier, table)):
        raise InputError(f"{out} is what is read here: choose another --out.")
    require_folder(out)
    loaded = APODClassifier.load(classifier)
    if strength is not None:
        loaded = loaded.at(strength)
    people, ids = read_people(loaded, table, id_column, pictures)
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
