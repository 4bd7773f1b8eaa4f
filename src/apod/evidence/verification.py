"""Verification by a stranger: every number of a folder of evidence computed again, from its JSON and from the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from apod import __version__
from apod.evidence.documents import documents
from apod.evidence.folder import Folder, read_folder
from apod.evidence.measured import change, changed, decisions, joint_table, levelling, ll144
from apod.evidence.sections import Evidence, findings_of
from apod.evidence.sources import verdict
from apod.fairness.notions import find_notion
from apod.files import Unchecked
from apod.text import plain

FREE = ("made_at", "apod_version", "reevaluate_by", "fingerprints.log head")
"""What another computation of the same numbers may say differently; a log that grew must contain the head."""


@dataclass(frozen=True)
class Verification:
    """What was checked, and what differs."""

    manifest: str
    problems: tuple[str, ...]
    recomputed: int  # numbers that follow from the JSON and were computed again
    from_data: int  # numbers computed again from the data
    open: tuple[str, ...]  # what the JSON alone cannot tell, because cells are left out or only the data could

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"ok": self.ok, **asdict(self)}


def verify(place: Path, rebuilt: Evidence | None = None, noted: str | None = None) -> Verification:
    """Check hashes, recompute what follows from evidence.json and, given evidence rebuilt from the data, all of it."""
    folder = read_folder(place)
    problems = list(folder.problems)
    if noted is not None and noted.lower() != folder.manifest:
        problems.append("manifest.json: not the one whose hash was noted")
    try:
        wrong, recomputed, unknown = _from_json(folder.evidence)
        problems += wrong + _documents(folder)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problems.append(f"evidence.json: not in the form of evidence ({type(error).__name__})")
        return Verification(folder.manifest, tuple(problems), 0, 0, ())
    from_data = 0
    if rebuilt is not None:
        stored, again = dict(leaves(folder.evidence)), dict(leaves(rebuilt.to_dict()))
        compared = {path for path in {*stored, *again} if not path.startswith(FREE)}
        problems += [
            f"evidence.json {path}: {stored.get(path)!r}, by the data {again.get(path)!r}"
            for path in sorted(compared)
            if stored.get(path) != again.get(path)
        ]
        from_data = sum(isinstance(again.get(path), int | float) for path in compared)
    return Verification(folder.manifest, tuple(problems), recomputed, from_data, () if rebuilt else tuple(unknown))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value of a JSON structure by its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{place}]")
    else:
        yield path, value


def _documents(folder: Folder) -> list[str]:
    """Files that do not say what evidence.json says; of another version they may look different."""
    if folder.evidence["apod_version"] != __version__:
        return []
    made = documents(folder.evidence)
    return [
        f"{name}: does not say what evidence.json says"
        for name, data in made.items()
        if name in folder.files and folder.files[name] != data
    ]


def _from_json(evidence: Unchecked) -> tuple[list[str], int, list[str]]:
    """What differs from what the JSON's own counts give, how many numbers were compared, and what stays open."""
    problems: list[str] = []
    count, unknown = 0, []
    for name, stored in evidence["attributes"].items():
        path = f"attributes.{name}"
        inferred = None if stored["inferred"] is None else findings_of(stored["inferred"])
        measured = None if stored["measured"] is None else findings_of(stored["measured"])
        if inferred is not None:
            unknown.append(f"{path}.inferred: estimates from answers, which evidence does not hold")
        made, left_out = _measured(evidence, stored)
        if left_out:
            unknown.append(f"{path}.measured: cells below 5 are left out")
        best = measured or inferred
        made |= {"levelling": None if best is None else _dict(levelling(best, measured=measured is not None))}
        wrong, compared = _compare({key: stored[key] for key in made}, made, path)
        problems, count = problems + wrong, count + compared
        again = plain(asdict(verdict(_fixed(evidence["criterion"]), measured, inferred)))
        wrong, compared = _compare(evidence["criterion"], again, "criterion")
        problems, count = problems + wrong, count + compared
    return problems, count, unknown


def _measured(evidence: Unchecked, stored: Unchecked) -> tuple[dict[str, Any], bool]:
    """The measured parts of an attribute from its counts, and whether some cells are left out."""
    if stored["measured"] is None:
        return {}, False
    notion, seed, key = find_notion(stored["notion"]), evidence["seed"], evidence["draws_key"]
    names, old = stored["groups"], stored["measured"]
    tables = {which: _table(stored["counts"][which], names) for which in ("before", "after", "both")}
    made: dict[str, Any] = {"measured": dict(old)}
    for which in ("before", "after"):
        table = tables[which]
        if table is not None and old[which] is not None:
            made["measured"][which] = _dict(decisions(table, names, notion, seed, key))
    if tables["after"] is not None and stored["ll144"] is not None:
        made["ll144"] = _dict(ll144(tables["after"], names, stored["ll144"]["source"]))
    if tables["both"] is not None:
        made["measured"]["change"] = (
            {name: _dict(one) for name, one in change(tables["both"], notion, seed, key).items()}
            if old["after"]
            else {}
        )
        made["changes"] = stored["changes"] and _dict(changed(tables["both"], names))
    return made, any(table is None for table in tables.values())


def _table(shown: Unchecked, names: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """The counts, where none of them is left out."""
    if any(cells is None for cells in shown.values()):
        return None
    return joint_table({name: shown[name] for name in names}, shown["unknown"])


def _dict(found: Any) -> Any:
    return None if found is None else plain(asdict(found))


def _fixed(criterion: Unchecked) -> list[Unchecked]:
    if criterion["text"] is None:
        return []
    return [*criterion["history"], {key: criterion[key] for key in ("text", "fixed_at", "answers_then", "reason")}]


def _compare(stored: Any, again: Any, path: str) -> tuple[list[str], int]:
    old, new = dict(leaves(stored, path)), dict(leaves(again, path))
    wrong = [
        f"evidence.json {place}: {old.get(place)!r}, recomputed {new.get(place)!r}"
        for place in sorted({*old, *new})
        if old.get(place) != new.get(place)
    ]
    return wrong, sum(isinstance(value, int | float) and not isinstance(value, bool) for value in new.values())
