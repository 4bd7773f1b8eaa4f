"""The report of a run: one HTML file that needs nothing else, from one result."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from apod.errors import InputError
from apod.report import sections, tables
from apod.report.attributes import attribute_sections
from apod.report.charts import (
    Series,
    answers_chart,
    changes_chart,
    curve_chart,
    expected_so_far,
    outlook_chart,
    outlook_sentence,
    subgroups_chart,
)
from apod.report.points import Pictures, map_chart, plane_charts, shape_of, swatch
from apod.report.rate_charts import rate_figures, threshold_chart
from apod.report.result import Answer, MetricName, Result, Round
from apod.report.sections import audited_table, comparison
from apod.report.settings import command, settings_table, timing_table
from apod.report.words import (
    Change,
    Value,
    Verdict,
    count,
    defined,
    groups_phrase,
    judge,
    known_rates,
    label_name,
    listed,
    nobody_recorded,
    percent,
    percent_span,
    plain,
    points,
    signed_points,
)

Term = Literal["bound", "covering_term", "sampling_term", "epsilon", "observed"]
WORST_FIRST = ("apod", "group")
"""Selectors that ask about the subgroup with the worst accuracy."""


def page(result: Result, pictures: Pictures) -> dict[str, object]:
    """The template's variables."""
    verdict, kept, audit = judge(result), sections.is_corrected(result), result.get("audit")
    return {
        "result": result,
        "labels": [label_name(name) for name in result["label_names"]],
        "groups": groups_phrase(result),
        "many_groups": len(result["group_names"]) > 2,
        "gap_explained": tables.notion_of(result).words.explain(len(result["group_names"])),
        "verdict": verdict,
        "cards": _cards(result, verdict),
        "nobody_recorded": nobody_recorded(result),
        "rates": _rates(result),
        "attributes": attribute_sections(result),
        "curve": {
            "chart": curve_chart(result),
            "thresholds": threshold_chart(result.get("thresholds")),
            "table": tables.curve_table(result),
            "choice": sections.expected_table(result) if kept else tables.choice_table(result),
            "text": [*(sections.choice_text(result) if kept else _choice(result)), *_hindsight(result)],
        },
        "model": sections.model_text(result) if kept else None,
        "done": sections.chosen_text(result) if kept else [],
        "arbitrary": sections.arbitrary_text(result) if kept else "",
        "estimate": sections.estimate_section(result) if kept else None,
        "rounds": _rounds(result),
        "outlook": _outlook(result),
        "changes": {"chart": changes_chart(result), "table": tables.changes_table(result)},
        "comparison": comparison(result),
        "audited": None if audit is None else audited_table(result, audit),
        "asked": _asked(result, pictures),
        "bound": _bound(result),
        "settings": settings_table(result),
        "timing": timing_table(result),
        "command": command(result),
    }


def _cards(result: Result, verdict: Verdict) -> list[dict[str, str]]:
    gap, accuracy, changes, estimate = verdict.gap, verdict.accuracy, result["changes"], result.get("estimate")
    strength = result["selected"]["strength"]
    said = {
        "smaller": "smaller, but see below" if verdict.cautions else "smaller",
        "larger": "larger",
        "unclear": "not distinguishable from no change" + ("" if gap.paired else " (the intervals overlap)"),
        "same": "no change",
        "undefined": "cannot be measured here",
    }[gap.direction]
    paired = "" if gap.paired is None else f", interval of the change {_signed_span(gap.paired)}"
    return [
        *([] if estimate is None or gap.direction != "undefined" else [sections.estimate_card(estimate, strength)]),
        {
            "what": "Accuracy",
            "before": percent(accuracy.before),
            "after": percent(accuracy.after),
            "small": f"{signed_points(accuracy.difference)} points. {_intervals(accuracy)}",
        },
        {
            "what": "Gap, points",
            "before": points(gap.before),
            "after": points(gap.after),
            "small": f"{said[0].upper()}{said[1:]}{paired}. {_intervals(gap)}",
        },
        {
            "what": "Answers used",
            "after": f"{count(len(result['answers']))} of {count(result['n_train'])}",
            "small": f"{percent(len(result['answers']) / result['n_train'], 2)} of the pool. "
            f"{'The correction was fitted' if sections.is_corrected(result) else 'The selected head was trained'} "
            "with nobody else's group.",
        },
        {
            "what": "Decisions that change",
            "after": f"{count(changes['total'])} of {count(result['n_test'])}",
            "small": f"{percent(changes['share'])} of the people in the test part.",
        },
    ]


def _intervals(change: Change) -> str:
    before, after = percent_span(change.before_span), percent_span(change.after_span)
    return f"95% intervals: {before}, then {after}." if before and after else ""


def _signed_span(ends: tuple[float, float]) -> str:
    return f"{signed_points(ends[0])} to {signed_points(ends[1])}"


def _rates(result: Result) -> dict[str, object]:
    return {
        "figures": rate_figures(result, tables.notion_of(result)) if len(result["label_names"]) == 2 else [],
        "table": tables.groups_table(result) if len(result["label_names"]) == 2 else tables.labels_table(result),
        "text": _extremes(result),
    }


def _extremes(result: Result) -> str:
    """The groups with the lowest and highest TPR without mitigation, then and now."""
    before, after = (known_rates(one["groups"], "tpr") for one in (result["vanilla"], result["selected"]))
    known = [name for name in result["group_names"] if name in before and name in after]
    if len(known) < 2:
        return ""
    low, high = min(known, key=lambda name: before[name]), max(known, key=lambda name: before[name])
    if low == high:
        low, high = known[0], known[-1]
    then, now = ([percent(rates[name]) for name in (low, high)] for rates in (before, after))
    return (
        f"Of the people whose label is {result['label_names'][1]}, the classifier without mitigation recognises "
        f"{then[0]} in group {low} and {then[1]} in group {high}. With mitigation it is {now[0]} and {now[1]}."
    )


def _choice(result: Result) -> list[str]:
    """How the strength was chosen, and what the choice could not know."""
    selected, because = result["selected"], result.get("selected_because")
    score = None if selected["validation"] is None else selected["validation"].get("score")
    text = f"Strength {selected['strength']:g} was selected, as its head stood after round {selected['round']}"
    if because:
        text += f", on the validation part. {because.rstrip('.')}"
    elif defined(score):
        text += f": the best accuracy + fairness on the validation part ({plain(score, 4)})"
    return [f"{text}. The groups there are guesses of the proxy; the test part had no say."]


def _hindsight(result: Result) -> list[str]:
    """Strengths that the test part would have chosen, and why that is no choice."""
    selected = result["selected"]
    gap, accuracy = selected["gap"], selected["accuracy"]
    if not defined(gap) or not defined(accuracy):
        return []
    better = [
        f"{e['strength']:.3g}"
        for e in result["tradeoff"]
        if defined(narrower := e["gap"]) and narrower < gap and (e["accuracy"] or 0.0) >= accuracy
    ]
    if not better:
        return []
    word = "Strength" if len(better) == 1 else "Strengths"
    verb = "looks" if len(better) == 1 else "look"
    return [
        f"{word} {listed(better)} {verb} better on the test part, in gap and in accuracy. That is hindsight: "
        "whoever picks by the test part needs fresh people to report on."
    ]


def _rounds(result: Result) -> dict[str, object]:
    rounds, chosen = result["rounds"], result["selected"]["strength"]
    if not rounds:
        return {"gap": None, "accuracy": None}
    answered = [r["answered"] for r in rounds]
    corrects = sections.is_corrected(result)
    kept = next((r["answered"] for r in rounds if r["round"] == result["selected"]["round"]), None)
    base = tables.base_name(result)
    name = "as would be selected" if corrects else f"strength {chosen:.3g}"

    def after(entry: Round, metric: MetricName) -> float | None:
        if corrects:  # the strength means another correction in every round
            return _defined(sections.tested(entry, metric))
        return _at_strength(entry, chosen, metric)

    def series(metric: MetricName) -> list[Series]:
        return [
            (base, "before", [_at_strength(r, 0.0, metric) for r in rounds]),
            (name, "after", [after(r, metric) for r in rounds]),
        ]

    def alt(title: str, metric: MetricName, text: Callable[[Value], str]) -> str:
        first, last = (after(r, metric) for r in (rounds[0], rounds[-1]))
        return (
            f"{title} on the test part by number of answers: {name} goes from {text(first)} after "
            f"{answered[0]} answers to {text(last)} after {answered[-1]}; {base} "
            f"{text(_at_strength(rounds[-1], 0.0, metric))} at the end."
        )

    marked, right = None if corrects else kept, 150 if corrects else 104
    return {
        "gap": answers_chart(
            answered,
            series("gap"),
            "Gap, points (↓ lower = fairer)",
            alt("Gap", "gap", points),
            chosen=marked,
            right=right,
        ),
        "accuracy": answers_chart(
            answered,
            series("accuracy"),
            "Accuracy (↑ higher = better)",
            alt("Accuracy", "accuracy", percent),
            percentages=True,
            chosen=marked,
            right=right,
        ),
        "kept": kept,
    }


def _outlook(result: Result) -> dict[str, object] | None:
    outlook = result.get("outlook")
    if not isinstance(outlook, list):  # of a corrected model it stands beside the choice
        return None
    return {"text": outlook_sentence(outlook), "chart": outlook_chart(expected_so_far(result["rounds"]), outlook)}


def _at_strength(entry: Round, strength: float, metric: MetricName) -> float | None:
    return _defined(next((point[metric] for point in entry["curve"] if point["strength"] == strength), None))


def _defined(value: float | None) -> float | None:
    return value if defined(value) else None


def _asked(result: Result, pictures: Pictures) -> dict[str, object]:
    answers, trajectories = result["answers"], result["trajectories"] or {}
    first = sum(str(a["reason"].get("rule", "")).startswith("first answers") for a in answers)
    everyone = {answer["row"] for own in trajectories.values() for answer in own}
    return {
        "table": tables.answers_table(answers),
        "who": tables.who_asked(result),
        "hits": tables.proxy_hits(result),
        "first": first,
        "rules": sorted({str(a["reason"].get("rule")) for a in answers[first:]} - {"None"}),
        "subgroups": subgroups_chart(result),
        "subgroups_table": tables.subgroups_table(result),
        "centred": any(value is not None for value in _centred(result)),
        "worst_first": result["settings"]["selector"] in WORST_FIRST,
        "distances": any(answer["reason"].get("distance") is not None for answer in answers),
        "contradiction": tables.proxy_contradiction(result),
        "trajectories": len(trajectories),
        "total": count(sum(len(own) for own in trajectories.values())),
        "everyone": count(len(everyone)),
        "map": None if pictures.map is None else map_chart(result, pictures.map),
        "map_method": None if pictures.map is None else pictures.map.method,
        "plane": [] if pictures.plane is None else plane_charts(result, pictures.plane),
        "random": pictures.plane is not None and pictures.plane.random is not None,
        "legend": _legend(result, answers),
        "thumbnails": pictures.encoded_thumbnails([answer["row"] for answer in answers]),
    }


def _centred(result: Result) -> list[float | None]:
    last = result["rounds"][-1]["subgroups"] if result["rounds"] else []
    return [subgroup["centred_accuracy"] for subgroup in last]


def _legend(result: Result, answers: Sequence[Answer]) -> list[tuple[Markup, str]]:
    labels = (1, 0) if len(result["label_names"]) == 2 else ()
    entries = [(swatch("circle", label), label_name(result["label_names"][label])) for label in labels]
    entries += [(swatch(shape_of(result, name), None), str(name)) for name in result["group_names"]]
    if any(answer["group"] is None for answer in answers):
        entries.append((swatch(None, None), "could not tell"))
    return [*entries, (swatch("circle", None, asked=True), "asked about")]


def _bound(result: Result) -> dict[str, object] | None:
    entries = result["bound"]
    if not entries:
        return None
    kinds: tuple[tuple[str, Term, str], ...] = (
        ("bound", "bound", "ink"),
        ("covering term", "covering_term", "c1"),
        ("sampling term", "sampling_term", "c0"),
        ("ε", "epsilon", "c4"),
        ("observed", "observed", "c2"),
    )
    series: list[Series] = [(name, class_, [e[key] for e in entries]) for name, key, class_ in kinds]
    last = entries[-1]
    alt = "Theorem 1 by number of answers, logarithmic; at the end " + ", ".join(
        f"{name} {plain(last[key])}" for name, key, _ in kinds
    )
    both = {"sampling": last["sampling_term"], "covering": last["covering_term"]}
    terms = {name: value for name, value in both.items() if defined(value)}
    return {
        "chart": answers_chart(
            [e["answered"] for e in entries],
            series,
            "Difference of mean losses, log scale",
            f"{alt}.",
            log=True,
            right=130,
        ),
        "table": tables.bound_table(result),
        "numbers": {key: plain(last[key]) for _, key, _ in kinds} | {"gamma": plain(last["gamma"])},
        "binding": min(terms, key=lambda name: terms[name], default=None),
        "strength": plain(last["strength"]),
        "groups": [
            (name, count(g["n"]), plain(g["mean_loss"]), plain(g["delta"])) for name, g in last["groups"].items()
        ],
    }


SCHEMA_VERSION = 2


def render_report(result: Result, pictures: Pictures | None = None) -> str:
    """The page for a result as described in docs/result.md. It opens offline and asks no host for anything."""
    version = result.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(f"This result has schema_version {version!r}: the report reads version {SCHEMA_VERSION}.")
    own = pictures or Pictures()
    return fill("template.html", page(result, own), images=bool(own.thumbnails))


def fill(template: str, variables: Mapping[str, object], images: bool = False) -> str:
    """A page from a template of this package, self-contained and closed to the network; `images`: has some inside."""
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
        policy=_policy(script, images),
    )


def _asset(name: str) -> str:
    return resources.files("apod.report").joinpath(name).read_text(encoding="utf-8")


def _policy(script: str, images: bool) -> str:
    """Content security policy: no connection at all, no script but ours. Even an escaping slip could run nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    allowed += "; img-src data:" if images else ""
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
