"""What one answer says of a person: a group of the campaign's attribute, or of each of its attributes.

One question asks about all attributes of a person. Its answer is one event; what it says of each attribute stands in
one sealed value, and each attribute has an outcome of its own: a group, "cannot_tell" or "declined".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from apod.campaign.errors import UnknownGroup
from apod.campaign.events import Sealed, SealedParts
from apod.campaign.settings import GROUP_NAME, Attribute, composed
from apod.campaign.state import CANNOT_TELL, DECLINED, GROUP, OPEN
from apod.data.dataset import UNKNOWN, Dataset
from apod.errors import InputError

Answer = str | Mapping[str, str | None]
"""What people pass: a group's name, "cannot_tell" or "declined"; with several attributes one of these for each, None
where it cannot be told."""

Groups = Sequence[str] | Mapping[str, Sequence[str]]
"""Names of the groups; with several attributes, of those of each."""


@dataclass(frozen=True)
class Value:
    """What was answered: a group's code, or an outcome without one; with several attributes one of each for each."""

    outcome: str = field(repr=False)
    group: int | None = field(repr=False, default=None)
    outcomes: tuple[str, ...] = field(repr=False, default=())
    groups: tuple[int | None, ...] = field(repr=False, default=())

    @property
    def told(self) -> str:
        """All outcomes in a word: what an earlier answer is compared by."""
        return ",".join(self.outcomes) or self.outcome

    @property
    def stored(self) -> int | list[int | None] | None:
        """What its sealed value is; None where there is none."""
        if self.outcome != GROUP:
            return None
        return list(self.groups) if self.outcomes else self.group

    @property
    def body(self) -> dict[str, object]:
        """The open part of its event."""
        return {"outcome": self.outcome} | ({"outcomes": list(self.outcomes)} if self.outcomes else {})

    def seal(self) -> Sealed | None:
        """What of it may have to be erased: its groups."""
        if self.outcome != GROUP:
            return None
        return SealedParts(list(self.groups)) if self.outcomes else Sealed(self.group)


def joint(parts: Sequence[Value]) -> Value:
    """The answer about several attributes; where none names a group it is as a whole what its parts are."""
    outcomes = tuple(part.outcome for part in parts)
    said = set(outcomes) - {OPEN}
    whole = GROUP if GROUP in said else DECLINED if said == {DECLINED} else CANNOT_TELL
    return Value(whole, None, outcomes, tuple(part.group for part in parts))


def value_of(asked: Sequence[Attribute], answer: object, partial: bool = False) -> Value:
    """What an answer says; an error where it is none of the campaign's groups, or leaves an attribute out.

    partial: an attribute that is left out stays open, as a reviewer may leave it.
    """
    if len(asked) == 1:
        if isinstance(answer, Mapping):
            _check_names(asked, answer)
            answer = answer.get(asked[0].name)
            answer = CANNOT_TELL if answer is None else answer
        return _one(asked[0], answer)
    if answer in (CANNOT_TELL, DECLINED):
        return joint([Value(str(answer))] * len(asked))
    names = ", ".join(attribute.name for attribute in asked)
    if not isinstance(answer, Mapping):
        raise UnknownGroup(f"This campaign asks about {names}: say a group of each, None where it cannot be told.")
    _check_names(asked, answer)
    missing = [attribute.name for attribute in asked if attribute.name not in answer]
    if missing and not partial:
        raise InputError(f"The answer says nothing of {', '.join(missing)}: say a group, or that it cannot be told.")
    return joint([_part(attribute, answer) for attribute in asked])


def said_by(asked: Sequence[Attribute], texts: Sequence[str]) -> Answer:
    """An answer as it is typed: one word, or `sex=female race=cannot-tell`."""
    if len(texts) == 1 and ("=" not in texts[0] or (len(asked) == 1 and composed(texts[0]) in asked[0].groups)):
        return CANNOT_TELL if texts[0] == "cannot-tell" and texts[0] not in asked[0].groups else texts[0]
    found: dict[str, str | None] = {}
    for text in texts:
        name, given, group = text.partition("=")
        if not given:
            raise InputError("Say which attribute each answer is about: sex=female race=cannot-tell.")
        if composed(name.strip()) in found:
            raise InputError(f"{name.strip()[:40]!r} is answered twice: keep one.")
        word = group.strip()
        found[composed(name.strip())] = CANNOT_TELL if word == "cannot-tell" else word
    return found


def spoken(asked: Sequence[Attribute], outcomes: Sequence[str], codes: Sequence[int | None]) -> list[str | None]:
    """By attribute: the group, "cannot_tell" or "declined"; None where it was erased or left open."""
    found: list[str | None] = []
    for attribute, outcome, code in zip(asked, outcomes, codes, strict=True):
        named = None if code is None else attribute.groups[code]
        found.append(named if outcome == GROUP else None if outcome == OPEN else outcome)
    return found


def part_of(stored: object, attribute: int) -> int | None:
    """What a sealed value says of one attribute; None where nothing, or where that was erased."""
    if isinstance(stored, list):
        code: int | None = stored[attribute]
        return code
    return stored if isinstance(stored, int) else None


def _check_names(asked: Sequence[Attribute], answer: Mapping[str, object]) -> None:
    known = {attribute.name for attribute in asked}
    if unknown := [str(name) for name in answer if name not in known]:
        raise InputError(f"This campaign does not ask about {unknown[0][:40]!r}, but about {', '.join(sorted(known))}.")


def _part(attribute: Attribute, answer: Mapping[str, object]) -> Value:
    if attribute.name not in answer:
        return Value(OPEN)
    told = answer[attribute.name]
    return _one(attribute, CANNOT_TELL if told is None else told)


def _one(attribute: Attribute, answer: object) -> Value:
    if answer in (CANNOT_TELL, DECLINED):
        return Value(str(answer))
    if isinstance(answer, str) and composed(answer) in attribute.groups:
        return Value(GROUP, attribute.groups.index(composed(answer)))
    raise UnknownGroup("That is none of this campaign's groups: `apod status` lists how they are written.")


def named_columns(text: str | None, columns: Sequence[str] | pd.Index[Any]) -> list[str]:
    """The column, or the columns, comma-separated, that were named."""
    if text is None:
        return []
    return [text] if text in columns else [part.strip() for part in text.split(",") if part.strip()]


def told_groups(groups: Groups | None) -> dict[str, Any]:
    """The names of groups as a table's reader takes them."""
    if isinstance(groups, Mapping):
        return {"groups_of": {name: tuple(names) for name, names in groups.items()}}
    return {"group_names": None if groups is None else tuple(groups)}


def attributes_of(dataset: Dataset, groups: Groups | None) -> tuple[Attribute, ...]:
    """What a table's people are to be asked about: in the order in which it was named; one alone may have no name."""
    found = {one.name: Attribute(one.name, group_names_of(one.names)) for one in dataset.groupings}
    if len(found) == 1 and not isinstance(groups, Mapping):
        return (Attribute(GROUP_NAME, next(iter(found.values())).groups),)
    first = groups if isinstance(groups, Mapping) else {}
    return tuple(found[name] for name in dict.fromkeys([*first, *found]))


def known_of(dataset: Dataset) -> dict[int, Answer]:
    """The groups that a table hands in, by row."""
    columns: dict[str, dict[int, str]] = {}
    for one in dataset.groupings:
        codes = np.full(len(dataset), UNKNOWN) if one.known is None else one.known
        columns[one.name] = {int(row): one.names[codes[row]] for row in np.flatnonzero(codes != UNKNOWN)}
    return dict(columns[dataset.attribute]) if len(columns) == 1 else joined(columns)


def joined(columns: Mapping[str, Mapping[int, str]]) -> dict[int, Answer]:
    """What is known of every row, by attribute."""
    found: dict[int, dict[str, str | None]] = {}
    for name, known in columns.items():
        for row, group in known.items():
            found.setdefault(row, {})[name] = group
    return {row: found[row] for row in sorted(found)}


def group_names_of(names: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the groups; InputError where there are none."""
    if not names:
        raise InputError("Name the groups (--groups female,male), or the column that records them (--known-groups).")
    return tuple(names)
