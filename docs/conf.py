"""The documentation site: `make docs` builds it offline from these pages, the docstrings and the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from apod import __version__
from apod.cli import build_app

project = "apod"
author = "The apod developers"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["build"]
html_theme = "furo"
html_title = "apod"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "cache"  # notebooks run when the site is built, and again once they change
nb_execution_raise_on_error = True
nb_execution_timeout = -1  # a busy machine takes its time
nb_merge_streams = True
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
nitpicky = False

HEADING = "# Commands\n\nEvery command, its arguments and its options, as `apod COMMAND --help` prints them.\n"


def command_reference() -> str:
    """All commands as one Markdown page."""
    return "\n".join([HEADING, *(_section(name, command) for name, command in commands())])


def commands(node: Any = None, name: str = "apod") -> Iterator[tuple[str, Any]]:
    """(full name, command) of everything that can be typed; groups themselves are left out."""
    node = typer.main.get_command(build_app()) if node is None else node
    children = getattr(node, "commands", None)
    if children is None:
        yield name, node
        return
    for child, command in children.items():
        yield from commands(command, f"{name} {child}")


def _section(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join([name, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"## {name}", "", command.help or "", "", "```text", usage, "```", ""]
    if options:
        lines += ["| option | meaning | default |", "| --- | --- | --- |", *map(_option, options), ""]
    return "\n".join(lines)


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return str(name) if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    names, default = ", ".join(f"`{one}`" for one in parameter.opts), parameter.default
    shown = "" if default in (None, False, "", ()) or callable(default) else f"`{default}`"
    meaning = (parameter.help or "").replace("|", "\\|").replace("\n", " ")
    return f"| {names} | {meaning} | {shown} |"


def _write_commands(app: Any) -> None:
    page = Path(app.srcdir) / "reference" / "commands.md"
    text = command_reference()
    if not page.exists() or page.read_text(encoding="utf-8") != text:  # unchanged pages are not built again
        page.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Write the page of the commands before the pages are read."""
    app.connect("builder-inited", _write_commands)
