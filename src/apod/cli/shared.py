"""What commands share: options, how a campaign is opened, and the one way to print."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apod.errors import InputError, UnknownName
from apod.method.settings import PRESETS, RENAMED, SETTINGS, Settings
from apod.text import printable

if TYPE_CHECKING:
    from apod.campaign import Campaign
    from apod.maxmin.select import OpenElsewhere
    from apod.models.embedder import EmbedderNames


def echo(*cells: object, err: bool = False, end: str = "\n", **style: Any) -> None:
    """Print a line, or cells with tabs between them; `style` is that of `typer.style` and holds for the line."""
    line = "\t".join(map(printable, cells))
    typer.echo((typer.style(line, **style) if style else line) + end, nl=False, err=err)


def echo_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON, all of it in ASCII."""
    text = json.dumps(value, indent=indent)
    typer.echo(text.replace("\x7f", "\\u007f"))  # the one control character that JSON lets stand


PRESET_HELP = "'paper' is the paper to the letter; `apod run` then has a trajectory per strength."
SEP: Any = typer.Option(None, help="Text file: what separates cells, one character or tab (default: recognised).")
DECIMAL: Any = typer.Option(None, help="Text file: the decimal sign, . or , (default: recognised per column).")
ENCODING: Any = typer.Option(None, help="Text file: its encoding, as cp1252 (default: UTF-8).")
LABELS: Any = typer.Option(None, help="For a folder or archive of pictures: the table of their labels.")
PICTURE_COLUMN: Any = typer.Option(None, help="The column with pictures (bytes or paths), or that names them.")
COLUMNS: Any = typer.Option(None, help="Beside pictures and texts: the only columns that are features (default: all).")
TEXT: Any = typer.Option(None, help="Columns of free text to learn from, comma-separated.")
EMBED: Any = typer.Option(
    None, help="What embeds pictures: efficientnet-lite0 (default), a model's folder, or timm:NAME:FILE."
)
TEXT_EMBED: Any = typer.Option(None, help="What embeds texts: hashed (default), or a sentence model's folder.")
PICTURE_SIZE: Any = typer.Option(None, help="Width x height that pictures are squeezed to (default: 112x128).")
SKIP_BAD: Any = typer.Option(False, "--skip-bad", help="Leave rows out whose picture cannot be used, and count them.")
WEIGHT: Any = typer.Option(None, help="Column that says how many people a row stands for (survey weights).")
NO_CACHE: Any = typer.Option(False, "--no-embed-cache", help="Do not keep embeddings for the next time.")
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


def group_names(texts: Sequence[str] | None) -> tuple[tuple[str, ...] | None, dict[str, tuple[str, ...]]]:
    """What --groups says: the names of the only attribute, or names by attribute (sex=female,male), each once."""
    if not texts:
        return None, {}
    named = [text.partition("=") for text in texts]
    if len(texts) == 1 and not named[0][1]:
        return tuple(words(texts[0])), {}
    if not all(equals and attribute.strip() for attribute, equals, _ in named):
        raise InputError("--groups for several attributes takes NAME=a,b each: --groups sex=female,male.")
    found = {attribute.strip(): tuple(words(names)) for attribute, _, names in named}
    if len(found) < len(texts):
        raise InputError("--groups names an attribute twice: give all its groups at once.")
    for attribute, names in found.items():
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(f"--groups {attribute}=... needs at least two different names, comma-separated.")
    return None, found


def numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """Comma-separated numbers, or None where the option was not given."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} takes numbers separated by commas, got {text!r}.") from None


def embedder_names(embed: str | None, text_embed: str | None, size: str | None) -> EmbedderNames:
    """Which embedders were asked for."""
    from apod.models.embedder import EFFICIENTNET, HASHED, PICTURE_SIZE, EmbedderNames

    width, _, height = (size or "x".join(map(str, PICTURE_SIZE))).lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise InputError(f"--picture-size takes width x height, as 112x128, got {size!r}.")
    return EmbedderNames(embed or EFFICIENTNET, text_embed or HASHED, (int(width), int(height)))


def offers_settings(command: Callable[..., None], leave_out: Sequence[str] = ()) -> Callable[..., None]:
    """The command with `--preset` and an option for every setting that has one, in the place of its `settings`.

    It is called with the options that were given, by the names of the settings.
    """
    offered = {
        name: meaning for name, meaning in SETTINGS.items() if meaning.option is not None and name not in leave_out
    }

    def called(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in ("preset", *offered)}
        for old, new in RENAMED.items():
            value = arguments.pop(old)
            if value is not None and given[new] not in (None, value):
                raise InputError(f"--{old} is the former name of --{new}: give --{new} alone.")
            if value is not None:
                echo(f"warning: --{old} is now --{new} and goes with the next release.", err=True)
                given[new] = value
        command(**arguments, settings=_said(given))

    own = inspect.signature(command, eval_str=True).parameters
    options = {"preset": _option("preset", str, "default", "--preset", PRESET_HELP)}
    options |= {name: _option(name, _type(name), None, m.option or "", m.help) for name, m in offered.items()}
    options |= {
        old: _option(old, str | None, None, f"--{old}", f"Deprecated: --{new}.") for old, new in RENAMED.items()
    }
    place = list(own).index("settings")
    parameters = [*list(own.values())[:place], *options.values(), *list(own.values())[place + 1 :]]
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, by the names of the settings, each one checked: an error names its option."""
    found = {name: value for name, value in options.items() if value is not None}
    if found["preset"] not in PRESETS:
        raise UnknownName("preset", found["preset"], PRESETS)
    if "strengths" in found:
        found["strengths"] = numbers("--strengths", found["strengths"])
    for name, value in found.items():
        if name != "preset":
            SETTINGS[name].check(str(SETTINGS[name].option), value)
    return found


def _type(name: str) -> Any:
    """What the option of a setting holds: lists are read from text."""
    default = getattr(Settings, name)
    if default is None:
        return (float if "float" in str(Settings.__annotations__[name]) else str) | None
    return (str if isinstance(default, tuple) else type(default)) | None


def _option(name: str, kind: Any, default: Any, option: str, text: str) -> inspect.Parameter:
    value = typer.Option(default, option, help=text)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)


URL = typer.Argument(help="A SQLite file such as hiring.db, or the URL of a PostgreSQL database.", metavar="CAMPAIGN")
NAME = typer.Option(None, "--campaign", help="Which one, where a database holds several.")
FILES = typer.Option(None, help="Folder of the matrices (default: beside the SQLite file, or APOD_FILES).")
WHO = typer.Option("annotator-1", help="Who answers.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@contextmanager
def opened_campaign(url: str, name: str | None, files: Path | None) -> Iterator[Campaign]:
    """The campaign for the length of one command; models are fitted when a question needs one."""
    from apod.campaign import Campaign

    campaign = Campaign.open(url, name, files=files, refit="demand")
    try:
        yield campaign
    finally:
        campaign.close()


def without_password(url: str) -> str:
    """The database as it may stand on a screen."""
    return re.sub(r"(://[^:@/]*):[^@/]*@", r"\1:***@", url)


def for_labels(chosen: Settings, given: Mapping[str, Any], classes: int) -> Settings:
    """The settings with what is equalised by default with so many labels, where that was not given."""
    from apod.fairness.many_labels import notion_by_default

    if classes == 2 or given.get("notion") is not None or given.get("penalty") is not None:
        return chosen
    return replace(chosen, notion=notion_by_default(classes))
