"""The report of an audit: every group's rates and their differences, how sure they are, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from apod import __version__
from apod.fairness.metrics import RATE_WORDS, RATES
from apod.report.charts import rate_chart, rate_title
from apod.report.run_page import fill
from apod.report.settings import features_text
from apod.report.tables import Cell, Table, estimated, notion_of
from apod.report.words import count, label_name, percent, percent_span, plural, points, signed_points, within

if TYPE_CHECKING:
    from apod.audit import Audit
    from apod.audit.table import AuditTable

Facts = Mapping[str, Any]
SCHEMA_VERSION = 1


def audit_facts(table: AuditTable, found: Audit, within: float) -> dict[str, Any]:
    """An audit with all that a reader needs beside it, ready for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "apod_version": __version__,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "table": dict(table.described),
        **found.to_dict(),
        "told": table.told(),
        "joint_counts": table.joint(),
        "drawn_alike": table.probability is None,
        "seed": table.seed,
        "needed": {str(within): found.precision.needed(within)},
    }


def render_audit(facts: Facts) -> str:
    """One self-contained page from the facts of an audit, as `apod audit --result` writes them."""
    table = facts["table"]
    negative, positive = (label_name(name) for name in table["label_names"])
    return fill(
        "audit.html",
        {
            "facts": facts,
            "table": table,
            "negative": negative,
            "positive": positive,
            "gap_explained": notion_of(facts).words.explain(len(facts["group_names"])),
            "lead": _lead(facts),
            "cards": _cards(facts),
            "charts": _charts(facts),
            "views": [_groups(facts, name) for name in facts["predictions"]],
            "differences": _differences(facts),
            "answers": _answers(facts, positive, negative),
            "plan": _plan(facts),
            "about": _about(facts, positive),
        },
    )


def _lead(facts: Facts) -> list[str]:
    answers = facts["answers"]
    more = f", and {plural(answers['told'], 'further person', 'further people')} known" if answers["told"] else ""
    said = [f"{plural(answers['drawn'], 'answer')} of people drawn at random{more}, out of {count(facts['people'])}."]
    for name, view in facts["predictions"].items():
        said.append(f"The gap of {name} is {within(view['gap'])} points.")
    if facts["change"] is not None:
        gap = facts["change"]["gap"]
        sure = gap["low"] is not None and gap["low"] * gap["high"] > 0
        found = ("smaller" if gap["high"] < 0 else "larger") if sure else "not known to be another"
        said.append(f"That of {facts['change']['to']} is {found}: {within(gap, signed_points)} points.")
    return said


def _cards(facts: Facts) -> list[dict[str, str]]:
    cards = []
    for name, view in facts["predictions"].items():
        gap, ends = view["gap"], percent_span([view["gap"]["low"], view["gap"]["high"]])
        known = gap["value"] is not None
        small = f"95% interval: {ends}." if known else "95% interval; too few answers for an estimate."
        cards.append({"what": f"Gap of {name}, points", "big": points(gap["value"]) if known else ends, "small": small})
    drawn, silent = facts["answers"]["drawn"], facts["answers"]["silent"]
    small = f"{count(silent)} more were drawn and did not answer." if silent else "Drawn at random."
    return [*cards, {"what": "Answers", "big": count(drawn), "small": small}]


def _charts(facts: Facts) -> list[Markup | None]:
    """A picture per rate, of all predictions together."""
    first, *more = facts["predictions"]
    metrics = [_metrics(view["groups"]) for view in facts["predictions"].values()]
    result = {"group_names": facts["group_names"], "label_names": facts["table"]["label_names"]}
    result |= {"vanilla": metrics[0], "selected": metrics[1] if more else None}
    names = (first, more[0] if more else first)
    return [rate_chart(result, rate, rate_title(result, rate), names) for rate in ("tpr", "fpr")]


def _metrics(groups: Facts) -> dict[str, Any]:
    spans = {
        name: {rate: [found[rate]["low"], found[rate]["high"]] for rate in RATES} for name, found in groups.items()
    }
    values = {name: {rate: found[rate]["value"] for rate in RATES} for name, found in groups.items()}
    return {"groups": values, "intervals": {"groups": spans}}


def _groups(facts: Facts, name: str) -> Table:
    found, rates = facts["predictions"][name]["groups"], notion_of(facts).rates or tuple(RATE_WORDS)
    rows = [
        [Cell(group), estimated(found[group]["people"], count), *(estimated(found[group][r], percent) for r in rates)]
        for group in facts["group_names"]
    ]
    columns = ["Group", "People", *(RATE_WORDS[rate] for rate in rates)]
    return Table(f"{name}: rates per group, each over its 95% interval", columns, rows)


def _differences(facts: Facts) -> Table:
    names, change = list(facts["predictions"]), facts["change"]
    what = " - ".join(facts["group_names"]) if len(facts["group_names"]) == 2 else "highest - lowest"
    rows = []
    for title, key, show in (
        *((f"{RATE_WORDS[rate]}, {what}", f"{rate}_difference", signed_points) for rate in notion_of(facts).rates),
        ("Gap", "gap", points),
    ):
        cells = [estimated(facts["predictions"][name][key], show) for name in names]
        cells += [estimated(change[key], signed_points)] if change is not None else []
        rows.append([Cell(title), *cells])
    columns = ["Difference", *names, *(["change"] if change is not None else [])]
    return Table("Signed differences and the gap, in points, each over its 95% interval", columns, rows)


def _answers(facts: Facts, positive: str, negative: str) -> Table:
    rows = [
        [Cell(group), Cell(count(told["positive"])), Cell(count(told["negative"]))]
        for group, told in facts["told"].items()
    ]
    return Table("Answers that this rests on", ["Group", positive, negative], rows)


def _plan(facts: Facts) -> str:
    said = []
    for entry in facts["plan"]:
        more = entry["more"]
        known = "known already" if more == 0 else f"about {count(more)} more" if more else "more than there are people"
        said.append(f"±{100 * entry['within']:g} points: {known}")
    return f"Further answers to know the differences of {next(iter(facts['predictions']))} within {'; '.join(said)}."


def _about(facts: Facts, positive: str) -> Table:
    table = facts["table"]
    proxies = features_text(table["features"]) if table["features"] else "none, or probabilities that were given"
    rows = [
        ("File", table["file"]),
        ("People", count(table["rows"])),
        ("Label", f"{table['label']}; {positive}: {percent(table['base_rate'])} of the people"),
        ("Reference group", facts["reference"]),
        ("Groups of those not asked are guessed from", proxies),
        ("Fingerprint of the table without groups", table["fingerprint"]),
    ]
    return Table("What was audited", ["", ""], [[Cell(name), Cell(value)] for name, value in rows], 2)
