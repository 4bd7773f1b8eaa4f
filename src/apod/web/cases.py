"""A row as a person can read it: titles, units, and what kind of value each is."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel

from apod.campaign import Question

Kind = Literal["number", "text", "long", "flag", "missing"]

_UNIT = re.compile(r"^(.*\S)\s*[(\[]([^()\[\]]{1,20})[)\]]$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
_LONG = 80  # characters; more gets the page's full width


class Field(BaseModel):
    """One shown value. It is to be rendered as text."""

    name: str
    title: str
    unit: str | None
    kind: Kind
    value: str | float | int | bool | None


class Case(BaseModel):
    """A question as an annotator sees it: nothing of what a model or others think."""

    id: str
    row_id: str
    expires_at: str
    expires_in: float
    label: str | None
    picture: str | None
    fields: list[Field]


def case_of(question: Question, expires_in: float) -> Case:
    """The case of a question."""
    return Case(
        id=question.id,
        row_id=question.row_id,
        expires_at=question.expires_at,
        expires_in=expires_in,
        label=question.label,
        picture=f"/api/v1/questions/{question.id}/picture" if question.image is not None else None,
        fields=[field_of(name, value) for name, value in question.display.items()],
    )


def field_of(name: str, value: Any) -> Field:
    """A column and its value, readable."""
    title, unit = title_of(name)
    kind, shown = _kind(value)
    return Field(name=name, title=title, unit=unit, kind=kind, value=shown)


def title_of(name: str) -> tuple[str, str | None]:
    """`hours_per_week (h)` as "Hours per week" and its unit."""
    found = _UNIT.match(name)
    words, unit = (found[1], found[2].strip() or None) if found else (name, None)
    text = " ".join(_CAMEL.sub(" ", re.sub(r"[_\-.]+", " ", words)).split()) or name
    return text[:1].upper() + text[1:], unit


def _kind(value: Any) -> tuple[Kind, str | float | int | bool | None]:
    if value is None or value == "":
        return "missing", None
    if isinstance(value, bool):
        return "flag", value
    if isinstance(value, int | float):
        return "number", value
    text = str(value)
    if _NUMBER.fullmatch(text):  # a CSV file's numbers come as texts; an id with a leading zero is none
        return "number", float(text) if "." in text else int(text)
    return ("long" if len(text) > _LONG or "\n" in text else "text"), text
