"""Write constraints with the sha256 of every file that pip takes for them on this machine.

    python tools/hashed_constraints.py constraints.txt constraints-hashed.txt

A file that is there already keeps the hashes of versions that have not changed, so that running this on several
platforms, one after the other, gives one file for all of them. pip refuses whatever is not in it:

    pip install --require-hashes -r constraints-hashed.txt
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def main(constraints: Path, out: Path) -> None:
    """Read the constraints, ask pip, write the file."""
    requirements = pinned(constraints.read_text(encoding="utf-8"))
    known = read_hashes(out.read_text(encoding="utf-8")) if out.exists() else {}
    out.write_text(hashed(requirements, pip_report(constraints), known), encoding="utf-8")


def pinned(text: str) -> list[str]:
    """The requirements of a constraints file; each has to name one version."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    found = [line for line in lines if line]
    for line in found:
        if not re.fullmatch(r"[\w.-]+==[\w.+!-]+", line):
            sys.exit(f"error: {line!r} does not pin one version: write NAME==VERSION.")
    return found


def pip_report(constraints: Path) -> Mapping[str, Any]:
    """What pip would install for them here; wheels only, because a source archive would run its own code."""
    words = ["--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--only-binary=:all:", "--report", "-"]
    command = [sys.executable, "-P", "-m", "pip", "install", *words, "-r", str(constraints)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: pip ended with status {done.returncode}: see above.")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def hashed(requirements: Iterable[str], report: Mapping[str, Any], known: Mapping[str, set[str]]) -> str:
    """The text of the file: every requirement with its hashes, those that were known for the same version too."""
    here = {canonical(item["metadata"]["name"]): item["download_info"] for item in report["install"]}
    lines = [
        "# The sha256 of every file that may be installed; made by tools/hashed_constraints.py from constraints.txt."
    ]
    for requirement in requirements:
        fresh = here[canonical(requirement.partition("==")[0])]["archive_info"]["hashes"]["sha256"]
        hashes = sorted({fresh, *known.get(requirement, set())})
        lines.append(" \\\n    ".join([requirement, *(f"--hash=sha256:{value}" for value in hashes)]))
    return "\n".join(lines) + "\n"


def read_hashes(text: str) -> dict[str, set[str]]:
    """The hashes that a file made by this script holds, by requirement."""
    joined = text.replace("\\\n", " ")
    found = (line.split() for line in joined.splitlines() if line and not line.startswith("#"))
    return {words[0]: {word.rpartition(":")[2] for word in words[1:]} for words in found}


def canonical(name: str) -> str:
    """A package's name however it is spelt."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
