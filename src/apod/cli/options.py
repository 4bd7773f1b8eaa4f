"""Reading what several commands take: lists of words and numbers, presets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apod.errors import InputError, UnknownName

if TYPE_CHECKING:
    from apod.settings import Settings


def words(text: str) -> list[str]:
    """Comma-separated words."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Comma-separated numbers, or None where the option was not given."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} takes numbers separated by commas, got {text!r}.") from None


def chosen_preset(name: str) -> Settings:
    """The settings of a preset."""
    from apod.settings import PRESETS

    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
