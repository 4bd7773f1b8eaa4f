"""The types of result.json and its published JSON schema say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from apod.report import result
from apod.report.result import Result

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "result.schema.json").read_text(encoding="utf-8")
)
NAMES = {float: "number", int: "integer", str: "string", bool: "boolean", NoneType: "null"}


def alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema as what it allows, one JSON type each."""
    if "$ref" in schema:
        return alternatives(SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return [one for part in schema["anyOf"] for one in alternatives(part)]
    if "const" in schema:
        return [{"type": {int: "integer", str: "string"}[type(schema["const"])]}]
    if "enum" in schema:
        return [{"type": "string", "enum": schema["enum"]}]
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return [schema | {"type": one} for one in types]


def json_type(kind: Any) -> str:
    """The JSON type of one alternative of a Python type."""
    if get_origin(kind) is Literal:
        return "string"
    if get_origin(kind) is list:
        return "array"
    return "object" if get_origin(kind) is dict or is_typeddict(kind) else NAMES[kind]


def differences(kind: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    """Where a Python type and a schema disagree."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    ours, theirs = {json_type(one): one for one in kinds}, {one["type"]: one for one in alternatives(schema)}
    if set(ours) != set(theirs):
        yield f"{path}: {sorted(ours)} in Python, {sorted(theirs)} in the schema"
    for name in set(ours) & set(theirs):
        yield from of_one_type(ours[name], theirs[name], path)


def of_one_type(kind: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    if is_typeddict(kind) and "properties" in schema:
        yield from of_an_object(kind, schema, path)
    elif get_origin(kind) is dict:
        assert get_args(kind)[0] is str
        yield from differences(get_args(kind)[1], schema["additionalProperties"], f"{path}.*")
    elif get_origin(kind) is list:
        yield from differences(get_args(kind)[0], schema["items"], f"{path}[]")
    elif get_origin(kind) is Literal and set(get_args(kind)) != set(schema["enum"]):
        yield f"{path}: {get_args(kind)} in Python, {schema['enum']} in the schema"


def of_an_object(kind: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    hints, properties = get_type_hints(kind, include_extras=True), schema["properties"]
    for name in set(hints) ^ set(properties):
        yield f"{path}.{name}: only in {'Python' if name in hints else 'the schema'}"
    for name in set(hints) & set(properties):
        hint, optional = hints[name], get_origin(hints[name]) is NotRequired
        if optional == (name in schema["required"]):
            yield f"{path}.{name}: required in {'the schema' if optional else 'Python'} alone"
        yield from differences(get_args(hint)[0] if optional else hint, properties[name], f"{path}.{name}")


def test_the_types_and_the_schema_have_the_same_fields_required_and_nullable_alike() -> None:
    assert sorted(differences(Result, SCHEMA, "result")) == []


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (("properties",), {"added": {"type": "string"}}),
        (("properties",), {"seed": {"type": ["integer", "null"]}}),
        (("$defs", "answer", "properties"), {"row": {"type": "string"}}),
        (("$defs", "metrics"), {"required": []}),
        (("properties",), {"metric": {"enum": ["eop"]}}),
    ],
)
def test_a_schema_that_changes_alone_is_noticed(place: tuple[str, ...], change: dict[str, Any]) -> None:
    where = SCHEMA
    for name in place:
        where = where[name]
    before = dict(where)
    try:
        where.update(change)
        assert sorted(differences(Result, SCHEMA, "result"))
    finally:
        where.clear()
        where.update(before)


def test_every_type_of_the_schema_says_what_it_is() -> None:
    types = [one for one in vars(result).values() if is_typeddict(one) and one.__module__ == result.__name__]
    assert len(types) > 25
    assert [one.__name__ for one in types if not one.__doc__] == []
