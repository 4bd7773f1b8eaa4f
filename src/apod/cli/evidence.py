"""`apod report ... --evidence` and `apod verify`: evidence for an auditor, and its verification by a stranger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apod.cli.shared import JSON, echo, echo_json
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.evidence.sections import Evidence
    from apod.evidence.sources import Stated

RUN_FILES = ("result.json", "classifier.apod")


def verify(
    folder: Path = typer.Argument(help="A folder that `apod report ... --evidence` wrote."),
    data: str | None = typer.Option(
        None, help="Compute everything again from this: the run's folder or the audit's JSON."
    ),
    manifest: str | None = typer.Option(None, help="The manifest's hash, as it was noted elsewhere."),
    as_json: bool = JSON,
) -> None:
    """Recompute every number of a folder of evidence, from its JSON and from the data, and say what differs.

    Status 1 where something differs. Example: apod verify evidence --data out/adult
    """
    from apod.evidence.folder import read_folder
    from apod.evidence.sources import Stated
    from apod.evidence.verification import verify as check

    rebuilt = None
    if data is not None:
        scope = read_folder(folder).evidence["scope"]
        rebuilt = evidence_of(data, Stated(scope["system"], scope["decided_by"]))
    found = check(folder, rebuilt, manifest)
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


def write_evidence_of(source: str, folder: Path, stated: Stated) -> None:
    """Write the evidence of a run or an audit, and print the hash to note."""
    from apod.evidence.folder import write_evidence

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
    if (place / "result.json").is_file():
        return evidence_of_run(_read(place / "result.json"), stated, file_hashes(place, RUN_FILES))
    if place.is_dir():
        raise InputError(f"{place} holds no result.json: name a run's folder, or an audit's JSON.")
    if place.suffix == ".json":
        return evidence_of_audit(_read(place), stated, file_hashes(place.parent, (place.name,)))
    raise InputError(f"{source} is no run's folder and no audit's JSON: evidence is written of these.")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise InputError(
            f"{path} cannot be read as JSON: name what `apod run` or `apod audit --result` wrote."
        ) from None
    if not isinstance(found, dict) or "schema_version" not in found:
        raise InputError(f"{path} is no result: name what `apod run` or `apod audit --result` wrote.")
    return found
