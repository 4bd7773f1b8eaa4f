"""The report of an audit: every group's rates and their differences, how sure they are, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apod import __version__
from apod.audit.json_types import AuditedGroupJson, EstimateJson
from apod.fairness.metrics import RATE_WORDS, SHOWN_RATES
from apod.report.rate_charts import RateFigure, rate_figures
from apod.report.result import RateIntervals
from apod.report.run_page import fill
from apod.report.settings import features_text
from apod.report.tables import DIFFERENCES, Cell, Table, estimated, notion_of
from apod.report.words import count, label_name, percent, percent_span, plural, points, signed_points, within

if TYPE_CHECKING:
    from apod.audit import Audit
    from apod.audit.table import AuditTable
    from apod.report.facts import AuditedMetrics, AuditedResult, AuditFacts

SCHEMA_VERSION = 1
NOT_KNOWN: EstimateJson = {"value": None, "low": None, "high": None}
"""Of what an earlier version did not estimate."""


def audit_facts(table: AuditTable, found: Audit, within: float) -> AuditFacts:
    """An audit with all that a reader needs beside it, ready for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "apod_version": __version__,
        "made_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "table": table.described,
        **found.to_dict(),
        "told": table.told(),
        "joint_counts": table.joint(),
        "drawn_alike": table.probability is None,
        "seed": table.seed,
        "needed": {str(within): found.precision.needed(within)},
    }


def render_audit(facts: AuditFacts) -> str:
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
            "precision": "precision" in notion_of(facts).rates,
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


def _lead(facts: AuditFacts) -> list[str]:
    answers = facts["answers"]
    more = f", and {plural(answers['told'], 'further person', 'further people')} known" if answers["told"] else ""
    said = [f"{plural(answers['drawn'], 'answer')} of people drawn at random{more}, out of {count(facts['people'])}."]
    for name, view in facts["predictions"].items():
        said.append(f"The gap of {name} is {within(view['gap'])} points.")
    if facts["change"] is not None:
        gap = facts["change"]["gap"]
        found = {-1: "smaller", 0: "not known to be another", 1: "larger"}[sign_of(gap)]
        said.append(f"That of {facts['change']['to']} is {found}: {within(gap, signed_points)} points.")
    return said


def _cards(facts: AuditFacts) -> list[dict[str, str]]:
    cards = []
    for name, view in facts["predictions"].items():
        gap, ends = view["gap"], percent_span([view["gap"]["low"], view["gap"]["high"]])
        known = gap["value"] is not None
        small = f"95% interval: {ends}." if known else "95% interval; too few answers for an estimate."
        cards.append({"what": f"Gap of {name}, points", "big": points(gap["value"]) if known else ends, "small": small})
    drawn, silent = facts["answers"]["drawn"], facts["answers"]["silent"]
    small = f"{count(silent)} more were drawn and did not answer." if silent else "Drawn at random."
    return [*cards, {"what": "Answers", "big": count(drawn), "small": small}]


def _charts(facts: AuditFacts) -> list[RateFigure]:
    """A picture per rate, of all predictions together."""
    first, *more = facts["predictions"]
    metrics = [audited_metrics(view["groups"]) for view in facts["predictions"].values()]
    labels = facts["table"]["label_names"]
    result: AuditedResult = {
        "group_names": facts["group_names"],
        "label_names": labels,
        "vanilla": metrics[0],
        "selected": metrics[1] if more else None,
    }
    names = (first, more[0] if more else first)
    return rate_figures(result, notion_of(facts), names)


def audited_metrics(groups: Mapping[str, AuditedGroupJson]) -> AuditedMetrics:
    """The rates of one set of predictions in the form of a result's, for charts and tables."""
    intervals: dict[str, RateIntervals] = {
        name: {
            "tpr": _ends(own["tpr"]),
            "fpr": _ends(own["fpr"]),
            "selection_rate": _ends(own["selection_rate"]),
            "precision": _ends(own.get("precision", NOT_KNOWN)),
        }
        for name, own in groups.items()
    }
    return {
        "groups": {
            name: {
                "tpr": own["tpr"]["value"],
                "fpr": own["fpr"]["value"],
                "selection_rate": own["selection_rate"]["value"],
                "precision": own.get("precision", NOT_KNOWN)["value"],
                "people": within(own["people"], count),
                "n": None,
                "n_positive": None,
            }
            for name, own in groups.items()
        },
        "intervals": {"groups": intervals},
    }


def _ends(estimate: EstimateJson) -> list[float | None]:
    return [estimate["low"], estimate["high"]]


def sign_of(estimate: EstimateJson) -> int:
    """-1 or 1 where the interval leaves no doubt about the sign, else 0."""
    low, high = estimate["low"], estimate["high"]
    if low is None or high is None or low * high <= 0:
        return 0
    return 1 if low > 0 else -1


def _groups(facts: AuditFacts, name: str) -> Table:
    found, rates = facts["predictions"][name]["groups"], notion_of(facts).rates or SHOWN_RATES
    rows = [
        [Cell(group), estimated(found[group]["people"], count), *(estimated(found[group][r], percent) for r in rates)]
        for group in facts["group_names"]
    ]
    columns = ["Group", "People", *(RATE_WORDS[rate] for rate in rates)]
    return Table(f"{name}: rates per group, each over its 95% interval", columns, rows)


def _differences(facts: AuditFacts) -> Table:
    names, change = list(facts["predictions"]), facts["change"]
    what = " - ".join(facts["group_names"]) if len(facts["group_names"]) == 2 else "highest - lowest"
    rows = []
    for rate in notion_of(facts).rates:
        key = DIFFERENCES[rate]
        cells = [estimated(facts["predictions"][name][key], signed_points) for name in names]
        cells += [estimated(change[key], signed_points)] if change is not None else []
        rows.append([Cell(f"{RATE_WORDS[rate]}, {what}"), *cells])
    gaps = [estimated(facts["predictions"][name]["gap"], points) for name in names]
    gaps += [estimated(change["gap"], signed_points)] if change is not None else []
    rows.append([Cell("Gap"), *gaps])
    columns = ["Difference", *names, *(["change"] if change is not None else [])]
    return Table("Signed differences and the gap, in points, each over its 95% interval", columns, rows)


def _answers(facts: AuditFacts, positive: str, negative: str) -> Table:
    rows = [
        [Cell(group), Cell(count(told["positive"])), Cell(count(told["negative"]))]
        for group, told in facts["told"].items()
    ]
    return Table("Answers that this rests on", ["Group", positive, negative], rows)


def _plan(facts: AuditFacts) -> str:
    said = []
    for entry in facts["plan"]:
        more = entry["more"]
        known = "known already" if more == 0 else f"about {count(more)} more" if more else "more than there are people"
        said.append(f"±{100 * entry['within']:g} points: {known}")
    return f"Further answers to know the differences of {next(iter(facts['predictions']))} within {'; '.join(said)}."


def _about(facts: AuditFacts, positive: str) -> Table:
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
