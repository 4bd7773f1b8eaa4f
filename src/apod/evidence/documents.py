"""The readable files of evidence, all made from evidence.json alone: a page to print, a model card, tables as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from apod.data.cells import write_cells
from apod.fairness.criterion import CRITERION_METRICS
from apod.fairness.notions import find_notion
from apod.files import Unchecked
from apod.report.words import UNDEFINED, count, defined, label_name, percent, points, signed_points

KINDS = ("measured", "inferred")
RATES = {"selection_rate": "Selection rate", "impact_ratio": "Impact ratio", "tpr": "TPR", "fpr": "FPR"}
SUPPRESSED = "< 5"


def documents(evidence: Unchecked) -> dict[str, bytes]:
    """Every readable file by its name."""
    made = {"evidence.html": _filled("evidence.html", evidence), "model-card.md": _filled("model_card.md", evidence)}
    return {name: text.encode() for name, text in made.items()} | tables(evidence)


def tables(evidence: Unchecked) -> dict[str, bytes]:
    """The numbers as CSV, one file per kind of table; what is left out or unknown is an empty cell."""
    ends = ["value", "low", "high", "suppressed"]
    return {
        "rates.csv": write_cells(["attribute", "kind", "decisions", "group", "number", *ends], _rates(evidence)),
        "metrics.csv": write_cells(["attribute", "kind", "decisions", "metric", *ends], _metrics(evidence)),
        "bounds.csv": write_cells(["attribute", "kind", "decisions", "low", "high"], _bounds(evidence)),
        "changes.csv": write_cells(["attribute", "group", "to_positive", "to_negative", "rounded"], _changes(evidence)),
        "ll144.csv": write_cells(
            ["attribute", "category", "applicants", "selected", "selection_rate", "impact_ratio", "below_2_percent"],
            _ll144(evidence),
        ),
    }


def _decided(evidence: Unchecked) -> Iterator[tuple[str, str, str, Unchecked]]:
    """(attribute, measured or inferred, before or after, what is known of these decisions)."""
    for name, attribute in evidence["attributes"].items():
        for kind in KINDS:
            for when in ("before", "after"):
                found = (attribute[kind] or {}).get(when)
                if found is not None:
                    yield name, kind, when, found


def _ends(found: Unchecked) -> list[Any]:
    return [found["value"], found["low"], found["high"], "yes" if found["suppressed"] else "no"]


def _rates(evidence: Unchecked) -> Iterator[list[Any]]:
    for name, kind, when, found in _decided(evidence):
        for group, rates in found["groups"].items():
            for rate in ("people", *RATES):
                yield [name, kind, when, group, rate, *_ends(rates[rate])]


def _metrics(evidence: Unchecked) -> Iterator[list[Any]]:
    for name, kind, when, found in _decided(evidence):
        for metric, value in found["metrics"].items():
            yield [name, kind, when, metric, *_ends(value)]


def _bounds(evidence: Unchecked) -> Iterator[list[Any]]:
    for name, kind, when, found in _decided(evidence):
        yield [name, kind, when, found["bounds"]["low"], found["bounds"]["high"]]


def _changes(evidence: Unchecked) -> Iterator[list[Any]]:
    for name, attribute in evidence["attributes"].items():
        found = attribute["changes"] or {"groups": {}, "rounded": False}
        for group, moved in found["groups"].items():
            yield [name, group, moved["to_positive"], moved["to_negative"], "yes" if found["rounded"] else "no"]


def _ll144(evidence: Unchecked) -> Iterator[list[Any]]:
    for name, attribute in evidence["attributes"].items():
        table = attribute["ll144"]
        for row in table["rows"] if table else ():
            rare = "yes" if row["below_2_percent"] else "no"
            numbers = [row[key] for key in ("applicants", "selected", "selection_rate", "impact_ratio")]
            yield [name, row["category"], *numbers, rare]
        if table:
            yield [name, "unknown, in no rate", table["unknown"], None, None, None, "no"]


def _filled(template: str, evidence: Unchecked) -> str:
    environment = Environment(
        loader=PackageLoader("apod.evidence", ""),
        autoescape=template.endswith(".html"),
        finalize=None if template.endswith(".html") else _markdown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["upfirst"] = lambda text: text[:1].upper() + text[1:]
    environment.globals |= {
        "cell": cell,
        "line": _line,
        "count": count,
        "percent": percent,
        "points": points,
        "signed": signed_points,
        "label_name": label_name,
        "rates": RATES,
        "metrics": CRITERION_METRICS,
        "kinds": KINDS,
        "gap_explained": _gap_explained,
    }
    return environment.get_template(template).render(e=evidence)


def _markdown(value: object) -> object:
    """A value as Markdown shows it: names from a user's data can neither end a cell nor be markup."""
    if not isinstance(value, str):
        return value
    plain = " ".join(value.split())
    return re.sub(r"([\\|`<\[\]])", r"\\\1", plain)


def cell(found: Unchecked, show: str) -> tuple[str, str]:
    """A number and its interval as text, by the way it is shown; a dash where it is unknown."""
    if found["suppressed"]:
        return SUPPRESSED, "left out"
    ways = {"percent": percent, "points": points, "signed": signed_points, "count": count, "ratio": _ratio}
    way = ways[show]
    low, high = found["low"], found["high"]
    ends = f"{way(low)} to {way(high)}" if defined(low) and defined(high) else ""
    if found["value"] is None:
        return ends or UNDEFINED, "interval alone" if ends else ""
    return way(found["value"]), ends


def _ratio(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.2f}"


def _line(found: Unchecked, show: str) -> str:
    """The same on one line."""
    text, below = cell(found, show)
    return f"{text} ({below})" if below else text


def _gap_explained(attribute: Unchecked) -> str:
    return find_notion(attribute["notion"]).words.explain(len(attribute["groups"]))
