"""`apod run`: Algorithm 1 on a dataset or a file, with live progress, a result and a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apod.cli.options import numbers, words
from apod.cli.output import echo, echo_json
from apod.errors import ApodError, InputError
from apod.method.settings import SHARED, Settings, settings_from

if TYPE_CHECKING:
    from apod.data import Dataset
    from apod.method.annotators import Annotator


def run(
    dataset: str = typer.Argument(
        help="A name from `apod datasets`, your own CSV or Parquet file or folder, or a .npy matrix."
    ),
    label: str | None = typer.Option(
        None, help="Own file: the column to predict (two values); for a .npy matrix, its .npy file of labels."
    ),
    sensitive: str | None = typer.Option(
        None, help="Own file: the recorded group column, or .npy file; read only when asked for."
    ),
    groups: str | None = typer.Option(None, help="Own file without that column: group names, comma-separated."),
    positive: str | None = typer.Option(
        None, help="Own file: the label value that counts as 1 (default: 1, yes, true)."
    ),
    drop: str | None = typer.Option(None, help="Own file: columns that must not be features, comma-separated."),
    reference: str | None = typer.Option(None, help="The group the others are compared with (default: the larger)."),
    budget: float | None = typer.Option(None, help="Answers: a count, or a share (below 1) of the training part."),
    audit_share: float = typer.Option(0.0, help="Share of the budget kept for measuring, on random test people."),
    *,
    settings: Mapping[str, Any],
    split: str | None = typer.Option(None, help="Training, validation and test shares, e.g. 0.25,0.25,0.5."),
    seed: int = typer.Option(0, help="Same seed, same result."),
    out: Path | None = typer.Option(None, help="Folder for report.html and result.json (default: out/NAME)."),
    resume: bool = typer.Option(False, "--resume", help="Continue an interrupted run in the same folder."),
    data_dir: Path | None = typer.Option(None, help="Folder with data files; APOD_DATA is another way to name it."),
    as_json: bool = typer.Option(False, "--json", help="Print result.json to standard output."),
) -> None:
    """Choose whom to ask, hear the answers, retrain after each, and report what it did.

    Example: apod run adult --budget 30 --seed 0 --out out/adult

    Example: apod run people.csv --label hired --sensitive gender --budget 40
    """
    chosen = for_matrix(dataset, settings_from(settings), settings.get("body"))
    own = {"label": label, "sensitive": sensitive, "positive": positive, "drop": tuple(words(drop or ""))}
    data = _load(dataset, groups, own | {"reference": reference, "data_dir": data_dir}, _split(split), chosen.body)
    annotator = _person(data, chosen) if groups is not None else None
    folder = out or Path("out") / data.name
    _check_folder(folder, resume, asks_a_person=annotator is not None)

    from apod.cli.progress import TerminalListener
    from apod.run import run_experiment
    from apod.run.files import write_outcome

    listener = TerminalListener(quiet=annotator is not None)
    try:
        with listener:
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
            )
            listener.stage("Writing the report")
            report = write_outcome(outcome, folder)
    except KeyboardInterrupt:
        kept = (folder / "checkpoint" / "answers.jsonl").exists()
        then = "All answers are kept: run the same command with --resume." if kept else "Nothing was asked yet."
        raise ApodError(f"Interrupted. {then}") from None
    except OSError as error:
        raise InputError(f"Cannot write to {folder} ({error.strerror}): choose another --out.") from None
    if as_json:
        echo_json(outcome.result)
    listener.summary(outcome.result, report)


def for_matrix(name: str, settings: Settings, said: str | None) -> Settings:
    """The settings, with the columns of a .npy matrix taken for embeddings."""
    from apod.data.embeddings import is_matrix

    if not is_matrix(Path(name)):
        return settings
    if said not in (None, "precomputed"):
        raise InputError(f"A .npy matrix holds embeddings already: leave out --body {said}.")
    return replace(settings, body="precomputed")


def _load(
    name: str, groups: str | None, options: dict[str, Any], split: tuple[float, float, float] | None, body: str
) -> Dataset:
    from apod.data import DATASETS, load_dataset
    from apod.data.embeddings import is_matrix, is_parquet_folder, load_embedded
    from apod.data.own import FileColumns

    sensitive = options["sensitive"]
    if name not in DATASETS and sensitive is None and groups is None and Path(name).exists():
        raise InputError("Say where groups come from: --sensitive COLUMN (recorded), or --groups a,b (you are asked).")
    if sensitive is not None and groups is not None:
        raise InputError("Give --sensitive (groups are recorded) or --groups (you are asked), not both.")
    names = None if groups is None else tuple(words(groups))
    if names is not None and len(set(names)) < 2:
        raise InputError("--groups needs at least two different names, comma-separated.")
    path = Path(name)
    if is_matrix(path) or (body == "precomputed" and is_parquet_folder(path)):
        options.pop("data_dir")
        data = load_embedded(path, FileColumns(**options, group_names=names))
    else:
        data = load_dataset(name, group_names=names, **options)
    if names is not None and not is_matrix(path):
        _refuse_group_columns(data, names)
    return data if split is None else replace(data, task=replace(data.task, split=split))


def _refuse_group_columns(data: Dataset, names: tuple[str, ...]) -> None:
    from apod.campaign.display import holds_groups

    found = [str(column) for column in data.features.columns if holds_groups(data.features[column], names)]
    if found:
        raise InputError(f"The column {found[0]!r} holds the groups themselves: name it with --sensitive or --drop it.")


def _person(data: Dataset, settings: Settings) -> Annotator:
    from apod.method.annotators import TerminalPrompt

    if settings.trajectories != SHARED:
        raise InputError("The paper preset asks anew for every strength: answer by hand with the default preset.")
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
