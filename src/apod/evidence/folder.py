"""A folder of evidence: written whole, read with its hashes checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apod.errors import InputError
from apod.evidence.documents import documents
from apod.evidence.sections import SCHEMA_VERSION, Evidence, check_version
from apod.files import Unchecked, write_private

EVIDENCE, MANIFEST = "evidence.json", "manifest.json"


def sha256(data: bytes) -> str:
    """In hex, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


def file_hashes(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The hashes of those files that there are."""
    return {name: sha256((folder / name).read_bytes()) for name in names if (folder / name).is_file()}


def write_evidence(evidence: Evidence, folder: Path) -> str:
    """Write all files and their manifest; gives the manifest's hash, which is worth noting elsewhere."""
    facts = evidence.to_dict()
    files = {EVIDENCE: encoded(facts), **documents(facts)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot hold evidence ({error.strerror}): name another folder.") from None
    strange = {one.name for one in folder.iterdir()} - set(files) - {MANIFEST}
    if strange:
        raise InputError(f"{folder} holds other files ({', '.join(sorted(strange)[:3])}): name an empty folder.")
    for name, data in files.items():
        write_private(folder / name, data)
    manifest = encoded(
        {
            "schema_version": SCHEMA_VERSION,
            "made_at": evidence.made_at,
            "apod_version": evidence.apod_version,
            "files": {name: sha256(data) for name, data in sorted(files.items())},
        }
    )
    write_private(folder / MANIFEST, manifest)
    return sha256(manifest)


def encoded(facts: Mapping[str, object]) -> bytes:
    """JSON as evidence has it."""
    return (json.dumps(facts, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class Folder:
    """What was found in a folder of evidence."""

    evidence: Unchecked
    files: Mapping[str, bytes]
    manifest: str  # its hash
    problems: tuple[str, ...]  # files that are not as the manifest says


def read_folder(folder: Path) -> Folder:
    """The evidence of a folder and what is wrong with its files; InputError where it is no such folder."""
    manifest_bytes = _bytes(folder, MANIFEST)
    manifest = _json(manifest_bytes, folder / MANIFEST)
    evidence = _json(_bytes(folder, EVIDENCE), folder / EVIDENCE)
    check_version(evidence, str(folder / EVIDENCE))
    listed = manifest.get("files")
    if not isinstance(listed, dict) or EVIDENCE not in listed:
        raise InputError(f"{folder / MANIFEST} lists no files: take a whole copy of the folder.")
    problems, files = [], {}
    for name, expected in listed.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            problems.append(f"{name}: missing")
            continue
        files[name] = path.read_bytes()
        if sha256(files[name]) != expected:
            problems.append(f"{name}: changed since the manifest was written")
    strange = {one.name for one in folder.iterdir()} - set(listed) - {MANIFEST}
    problems += [f"{name}: not in the manifest" for name in sorted(strange)]
    return Folder(evidence, files, sha256(manifest_bytes), tuple(problems))


def read_evidence(place: Path) -> Unchecked:
    """The evidence of a folder, or of its evidence.json alone."""
    path = place / EVIDENCE if place.is_dir() else place
    if not path.is_file():
        raise InputError(f"There is no evidence in {place}: name a folder that `apod report ... --evidence` wrote.")
    found = _json(path.read_bytes(), path)
    check_version(found, str(path))
    return found


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        whole = "is not there" if not folder.is_dir() else f"has no {name}, so it is not a whole folder of evidence"
        raise InputError(f"{folder} {whole}: take a whole copy of it.") from None


def _json(data: bytes, path: Path) -> Unchecked:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged: it is no JSON object.")
    return found
