"""Checks of single values: InputError, with the name and what to pass, unless the value can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, get_args

from apod.errors import InputError, UnknownName

Check = Callable[[str, Any], None]
"""InputError unless the value of the setting of this name can be."""


def one_of(what: str, kind: Any) -> Check:
    """A check for one of the names of a Literal type."""

    def check(name: str, value: Any) -> None:
        if value not in get_args(kind):
            raise UnknownName(what, str(value), get_args(kind))

    return check


def optional(check: Check) -> Check:
    """The check of a setting that may also be None."""

    def checked(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return checked


def number(name: str, value: Any) -> None:
    """A check for finite numbers."""
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) < float("inf"):
        raise InputError(f"{name} is {value!r}: pass a number.")


def whole(least: int) -> Check:
    """A check for whole numbers from `least` up."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise InputError(f"{name} is {value!r}: pass a whole number from {least} up.")

    return check


def below(limit: float, example: str = "") -> Check:
    """A check for numbers from 0 to below a limit."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < limit:
            raise InputError(f"{name} is {value!r}: pass a number from 0 to below {limit:g}{example}.")

    return check


def positive(name: str, value: Any) -> None:
    """A check for finite numbers above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise InputError(f"{name} is {value!r}: pass a positive number.")


def assigned(sign: str, form: str) -> Check:
    """A check for comma-separated entries of two texts with a sign between them."""

    def check(name: str, value: Any) -> None:
        entries = value.split(",") if isinstance(value, str) else [""]
        if not all(part.strip() for entry in entries for part in entry.rpartition(sign)[::2]):
            raise InputError(f"{name} takes {form}, comma-separated, got {value!r}.")

    return check


def different_strengths(name: str, value: Any) -> None:
    """A check for positive numbers, none of them twice."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"{name} is {value!r}: pass a list of numbers.")
    strengths = list(value)
    for strength in strengths:
        if isinstance(strength, bool) or not isinstance(strength, Real):
            raise InputError(f"A strength is {strength!r}: pass numbers.")
    if not strengths or not all(0 < strength < float("inf") for strength in strengths):
        raise InputError(f"Strengths must be positive numbers, got {strengths}: leave 0 out, it is always trained.")
    if len(set(strengths)) != len(strengths):
        raise InputError(f"Strengths must differ from each other, got {strengths}.")
