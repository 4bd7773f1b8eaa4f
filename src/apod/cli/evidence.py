"""`apod report ... --evidence` and `apod verify`: evidence for an auditor, and its verification by a stranger."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.shared import FILES, JSON, NAME, echo, echo_json, opened_campaign
from apod.errors import InputError
from apod.files import Unchecked

if TYPE_CHECKING:
    from apod.campaign import Campaign
    from apod.evidence.folder import Folder
    from apod.evidence.sections import Evidence
    from apod.evidence.sources import Stated

RUN_FILES = ("result.json", "classifier.apod")


def verify(
    folder: Path = typer.Argument(help="A folder that `apod report ... --evidence` wrote."),
    data: str | None = typer.Option(
        None, help="Compute everything again from this: the run's folder, the audit's JSON or the campaign."
    ),
    manifest: str | None = typer.Option(None, help="The manifest's hash, as it was noted elsewhere."),
    campaign: str | None = NAME,
    files: Path | None = FILES,
    as_json: bool = JSON,
) -> None:
    """Recompute every number of a folder of evidence, from its JSON and from the data, and say what differs.

    Status 1 where something differs. Example: apod verify evidence --data out/adult
    """
    from apod.evidence.folder import read_folder
    from apod.evidence.sources import Stated
    from apod.evidence.verification import verify as check

    rebuilt, noted = None, manifest
    stored = read_folder(folder)
    if data is not None:
        told = stored.evidence["scope"]
        stated = Stated(told["system"], told["decided_by"])
        if _is_campaign(data):
            with opened_campaign(data, campaign, files) as opened:
                rebuilt = _of_campaign(opened, stated)
                missing = _missing_in_log(opened, stored)
        else:
            rebuilt, missing = evidence_of(data, stated), []
    found = check(folder, rebuilt, noted)
    found = replace(found, problems=(*found.problems, *missing)) if data is not None else found
    if as_json:
        echo_json(found.to_dict())
    else:
        for problem in found.problems:
            echo(f"differs: {problem}")
        for said in found.open:
            echo(f"not computed again without --data: {said}")
        by_data = f", {found.from_data} from the data" if rebuilt is not None else ""
        verdict = "nothing differs" if found.ok else f"{len(found.problems)} differences"
        echo(f"{verdict}; {found.recomputed} numbers computed again from the JSON{by_data}.")
        echo(f"manifest {found.manifest}")
    if not found.ok:
        raise typer.Exit(1)


def write_evidence_of(source: str, folder: Path, stated: Stated, campaign: str | None, files: Path | None) -> None:
    """Write the evidence of a run, an audit or a campaign and print the hash to note; a campaign's log notes it."""
    from apod.evidence.folder import write_evidence

    if _is_campaign(source):
        with opened_campaign(source, campaign, files) as opened:
            found = _of_campaign(opened, stated)
            noted = write_evidence(found, folder)
            opened.owner.note_evidence(noted)
    else:
        found = evidence_of(source, stated)
        noted = write_evidence(found, folder)
    echo(f"{folder / 'evidence.html'} and the files beside it are written.")
    echo(f"criterion: {found.criterion.words}")
    echo(f"manifest {noted}: note it elsewhere; `apod verify {folder} --manifest ...` compares.")


def evidence_of(source: str, stated: Stated) -> Evidence:
    """The evidence of a run's folder or an audit's JSON."""
    from apod.evidence.folder import file_hashes
    from apod.evidence.sources import evidence_of_audit, evidence_of_run

    place = Path(source)
    if place.is_dir():
        if not (place / "result.json").is_file():
            raise InputError(f"{place} holds no result.json: name a run's folder, an audit's JSON or a campaign.")
        return evidence_of_run(_read(place / "result.json"), stated, file_hashes(place, RUN_FILES))
    return evidence_of_audit(_read(place), stated, file_hashes(place.parent, (place.name,)))


def _is_campaign(source: str) -> bool:
    return not Path(source).is_dir() and Path(source).suffix != ".json"


def _of_campaign(opened: Campaign, stated: Stated) -> Evidence:
    from apod.evidence.campaign import evidence_of_campaign

    return evidence_of_campaign(opened, stated)


def _missing_in_log(opened: Campaign, stored: Folder) -> list[str]:
    """What the campaign's log does not confirm: the head that evidence names, and the manifest's hash."""
    found = opened.owner.verify_log(stored.evidence["fingerprints"]["log head"])
    problems = [f"log: {problem}" for problem in found.problems]
    noted = {entry["manifest"] for entry in opened.owner.log() if entry["what"] == "evidence"}
    return problems if stored.manifest in noted else [*problems, "manifest.json: its hash does not stand in the log"]


def _read(path: Path) -> Unchecked:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise InputError(
            f"{path} cannot be read as JSON: name what `apod run` or `apod audit --result` wrote."
        ) from None
    if not isinstance(found, dict) or "schema_version" not in found:
        raise InputError(f"{path} is no result: name what `apod run` or `apod audit --result` wrote.")
    return found
