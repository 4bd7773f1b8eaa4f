"""The report: one HTML file that needs nothing else, from one result."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from apod.errors import InputError
from apod.report.pictures import Pictures
from apod.report.view import page

SCHEMA_VERSION = 2


def render_report(result: Mapping[str, Any], pictures: Pictures | None = None) -> str:
    """The page for a result as described in docs/result.md. It opens offline and asks no host for anything."""
    version = result.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(f"This result has schema_version {version!r}: the report reads version {SCHEMA_VERSION}.")
    return fill("template.html", page(result, pictures or Pictures()))


def fill(template: str, variables: Mapping[str, Any]) -> str:
    """A page from a template of this package, self-contained and closed to the network."""
    style, script = _asset("style.css"), _asset("tips.js")
    environment = Environment(
        loader=PackageLoader("apod.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        **variables,
        style=Markup(style),
        script=Markup(script),
        policy=_policy(script),
    )


def _asset(name: str) -> str:
    return resources.files("apod.report").joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Content security policy: no connection at all, no script but ours. Even an escaping slip could run nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
