"""Reading what several commands take: lists of words and numbers, presets."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import typer

from apod.errors import InputError, UnknownName

if TYPE_CHECKING:
    from apod.maxmin.select import OpenElsewhere
    from apod.method.settings import Settings

ENGINE: Any = typer.Option("local", help="Where the work is done: local, or ray for a cluster.")
ADDRESS: Any = typer.Option(None, help="Address of the Ray cluster: HOST:PORT, or auto, or local.")


def checked_engine(engine: str, address: str | None) -> bool:
    """Whether the work goes to a cluster."""
    if engine not in ("local", "ray"):
        raise UnknownName("engine", engine, ("local", "ray"))
    if engine == "local" and address is not None:
        raise InputError("--address is for a cluster: add --engine ray.")
    return engine == "ray"


def chosen_engine(engine: str, address: str | None, parts: int | None) -> AbstractContextManager[OpenElsewhere | None]:
    """What opens embeddings on a cluster; None for this machine."""
    if not checked_engine(engine, address):
        return nullcontext()
    from apod.maxmin.ray_pool import ray_engine

    return ray_engine(address, parts)


def chosen_backend(engine: str, address: str | None) -> AbstractContextManager[tuple[str | None, int | None]]:
    """joblib's backend and its processors on a cluster; None and None for this machine."""
    if not checked_engine(engine, address):
        return nullcontext((None, None))
    from apod.maxmin.ray_connect import joblib_backend

    return joblib_backend(address)


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
    from apod.method.settings import PRESETS

    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name]
