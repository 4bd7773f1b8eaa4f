"""Sections of a report: a corrected model, a run's audit, another preset beside it, a campaign's estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from markupsafe import Markup

from apod.audit.json_types import AuditJson, EstimateJson
from apod.fairness.metrics import RATE_WORDS
from apod.method.gap_interval import tells_little as interval_tells_little
from apod.method.plan import outlook_words
from apod.report.charts import Series, answers_chart
from apod.report.result import Compared, Estimate, Expected, Gap, MetricName, Result, Round, Verification
from apod.report.tables import Cell, Table, base_name, estimated, notion_of, selected_row, strength_cell
from apod.report.words import (
    UNDEFINED,
    count,
    defined,
    percent,
    percent_span,
    points,
    seconds,
    signed_points,
    span,
)

if TYPE_CHECKING:  # runs are reported on without loading what campaigns need
    from apod.campaign.json_types import SpeakingGapsJson, VerificationJson
    from apod.report.facts import CampaignFacts

Which = Literal["base", "selected"]
"""Of which model an estimate speaks."""


class Comparison(TypedDict):
    """The section about another preset."""

    title: str
    text: list[str]
    table: Table


class EstimateSection(TypedDict):
    """The section about the gap by the answers alone."""

    text: list[str]
    base: Markup | None
    selected: Markup | None
    recorded: bool


class ExpectedSection(TypedDict):
    """The section about the places on a correction's path."""

    text: list[str]
    table: Table


def audited_table(result: Result, audit: AuditJson) -> Table:
    """Every rate as audited, with its interval, beside the recorded one."""
    rows = []
    caption = f"From {audit['answers']['drawn']} answers about random people of the test part, with 95% intervals"
    changed = result["selected"]["strength"] > 0
    views = (("before", result["vanilla"], "without"), ("after", result["selected"], "with"))
    for view, recorded, when in views if changed else views[:1]:
        found = audit["predictions"][view]
        for name in result["group_names"]:
            for rate in notion_of(result).rates:
                told = recorded["groups"][name][rate]
                rows.append(
                    [
                        Cell(f"{RATE_WORDS[rate]} of {name}, {when}"),
                        estimated(found["groups"][name][rate], percent),
                        Cell(percent(told)),
                    ]
                )
        rows.append([Cell(f"Gap {when}, points"), estimated(found["gap"], points), Cell(points(recorded["gap"]))])
    if not changed or audit["change"] is None:
        return Table(caption, ["", "audited", "recorded"], rows)
    change = estimated(audit["change"]["gap"], signed_points)
    before, after = result["vanilla"]["gap"], result["selected"]["gap"]
    truth = UNDEFINED if before is None or after is None else signed_points(after - before)
    rows.append([Cell("Change of the gap, points"), change, Cell(truth)])
    return Table(caption, ["", "audited", "recorded"], rows)


TITLES = {
    "default": "a corrected model",
    "heads": "heads with a posterior",
    "paper": "the paper's APOD",
}


def comparison(result: Result) -> Comparison | None:
    """A section of the report; None where nothing was compared."""
    other = result.get("compared")
    if other is None:
        return None
    title = TITLES.get(other["preset"], f"the preset {other['preset']}")
    return {"title": f"The same people, {title}", "text": _text(result, other), "table": _table(result, other)}


def _text(result: Result, other: Compared) -> list[str]:
    text = [
        f"The same training, validation and test people and the same budget of {count(result['budget'])} answers "
        f"with --preset {other['preset']}. It took {seconds(other['seconds'])}, this run "
        f"{seconds(result['timing']['total_seconds'])}. One seed is an example, not evidence."
    ]
    if other["answers_read"] > other["answers"]:
        text.append(
            f"There every strength asks its own questions: its whole curve read {count(other['answers_read'])} answers "
            f"about {count(other['people_read'])} people, the strength that was selected {count(other['answers'])}."
        )
    return text


def _table(result: Result, other: Compared) -> Table:
    here = "corrected" if result.get("model") is not None else "mitigated"
    entries = [
        (f"this run, {base_name(result)}", result["vanilla"]),
        (f"this run, {here if result['selected']['strength'] else 'unchanged'}", result["selected"]),
        (f"{other['preset']}, no mitigation", other["vanilla"]),
        (f"{other['preset']}, selected", other["selected"]),
    ]
    rows = [
        [
            Cell(name),
            Cell(percent(entry["accuracy"]), percent_span(entry["intervals"]["accuracy"])),
            Cell(percent(entry["balanced_accuracy"]), percent_span(entry["intervals"]["balanced_accuracy"])),
            Cell(points(entry["gap"]), percent_span(entry["intervals"]["gap"])),
        ]
        for name, entry in entries
    ]
    caption = "On the test part, with 95% intervals"
    return Table(caption, ["", "Accuracy", "Balanced accuracy", "Gap, points"], rows, 1, 1)


def is_corrected(result: Result) -> bool:
    """Whether a model was kept and corrected, rather than heads trained on a body."""
    return result.get("model") is not None


def model_text(result: Result) -> str:
    """Which model it is, and how good by itself."""
    model = result["model"]
    if model is None:
        return ""
    accuracies = model["cross_validated_accuracies"]
    said = f"The base model is {model['name']}"
    if model["score"] is not None:
        said += f", read from the column {model['score']!r}"
    if accuracies:
        others = ", ".join(f"{name} {percent(value)}" for name, value in accuracies.items() if name != model["name"])
        said += f": {percent(accuracies[model['name']])} right in cross-validation on the training part"
        said += f" ({others})" if others else ""
    threshold = "It predicts the most probable label."
    if model["threshold"] is not None:
        threshold = f"It predicts {result['label_names'][1]} above a score of {model['threshold']:g}."
    return f"{said}. {threshold} A correction shifts its margin by how probable a group is, as the answers tell it."


def estimate_sentence(result: Result, which: Which) -> str:
    """The gap by the answers alone, of the `base` model or the `selected` one, beside the recorded one."""
    recorded = result["vanilla" if which == "base" else "selected"]["gap"]
    return "" if result["estimate"] is None else _gap_sentence(result["estimate"][which], which, recorded)


def _gap_sentence(found: Gap, which: Which, recorded: float | None) -> str:
    whose = "the base model" if which == "base" else "the corrected model"
    ends = span(found["interval"])
    if ends is None:
        return f"The answers alone cannot tell the gap of {whose} yet: nobody of some group is known."
    interval = percent_span(found["interval"])
    if tells_little(found):
        said = f"Whether {whose} has a gap is not known yet from the answers alone: {interval} points all fit them"
    elif ends[0] == 0:
        said = f"By the answers alone {whose} has no large gap: {interval} points"
    else:
        said = f"By the answers alone the gap of {whose} is {interval} points"
    return f"{said} (95% interval; {points(found['gap'])} expected).{_compared(recorded, ends)}"


def estimate_card(estimate: Estimate, strength: float) -> dict[str, str]:
    """The gap by the answers alone, for the head of the page where no record measures it."""
    base, selected = estimate["base"], estimate["selected"]
    spans = [percent_span(found["interval"]) for found in (base, selected)]
    card = {"what": "Gap by the answers alone, points", "after": points(selected["gap"])}
    if strength == 0:
        return card | {"small": f"95% interval: {spans[0]}.{' Not known yet.' if tells_little(base) else ''}"}
    unclear = " Not known yet." if tells_little(selected) else ""
    return card | {"before": points(base["gap"]), "small": f"95% intervals: {spans[0]}, then {spans[1]}.{unclear}"}


def tells_little(found: Gap) -> bool:
    """Whether an estimate leaves open if there is a gap at all."""
    ends = span(found["interval"])
    return ends is None or interval_tells_little(*ends)


def _compared(recorded: float | None, ends: tuple[float, float]) -> str:
    """The recorded gap, and whether the interval covers it; nothing where nobody's group is on record."""
    if not defined(recorded):
        return ""
    if ends[0] <= recorded <= ends[1]:
        return f" On record it is {points(recorded)}: the interval covers it."
    side = "above" if recorded > ends[1] else "below"
    return f" On record it is {points(recorded)}: the interval does not cover it, it lies {side}."


def estimate_section(result: Result) -> EstimateSection | None:
    """What the answers alone say of the gap, before and after, and how that grew with the answers."""
    if result.get("estimate") is None:
        return None
    corrected = result["selected"]["strength"] > 0
    kinds: Sequence[Which] = ("base", "selected") if corrected else ("base",)
    return {
        "text": [estimate_sentence(result, which) for which in kinds],
        "base": _estimate_chart(result, "base"),
        "selected": _estimate_chart(result, "selected") if corrected else None,
        "recorded": defined(result["vanilla"]["gap"]),
    }


def _estimate_chart(result: Result, which: Which) -> Markup | None:
    """The interval by number of answers, and the recorded gap of what would have been selected then."""
    rounds = [(entry, estimate[which]) for entry in result["rounds"] if (estimate := entry["estimate"]) is not None]
    if not rounds:
        return None
    answered = [entry["answered"] for entry, _ in rounds]
    found = [one for _, one in rounds]
    ends = [span(one["interval"]) or (None, None) for one in found]
    base = result["vanilla"]["gap"]
    recorded = [base if which == "base" else tested(entry, "gap") for entry, _ in rounds]
    series: list[Series] = [
        ("high", "c4 thin", [high for _, high in ends]),
        ("expected", "after", [one["gap"] for one in found]),
        ("recorded", "before dashed", recorded),
        ("low", "c4 thin", [low for low, _ in ends]),
    ]
    whose = "the base model" if which == "base" else "what would be selected"
    last = found[-1]
    alt = (
        f"Gap of {whose} by the answers alone: after {answered[-1]} answers {points(last['gap'])} points, interval "
        f"{percent_span(last['interval'])}; recorded {points(recorded[-1])}."
    )
    return answers_chart(answered, series, f"Gap of {whose}, points", alt)


def tested(entry: Round, metric: MetricName) -> float | None:
    """What would have been chosen after a round achieves on the test part."""
    return None if entry["choice"] is None else entry["choice"]["test"][metric]


def choice_text(result: Result) -> list[str]:
    """How the operating point was chosen."""
    judged = count(result["n_train"] + result["n_validation"])
    limits = result["settings"]
    return [
        f"Every direction and strength of correction was judged on the {judged} people "
        "of the training and validation parts, by draws of what the answers leave open about everybody's group. "
        f"Allowed was a loss of {points(limits.get('max_accuracy_loss'))} points of accuracy and "
        f"{points(limits.get('max_balanced_loss'))} of balanced accuracy, standard errors included; the test part had "
        "no say."
    ]


def expected_table(result: Result) -> Table:
    """What was expected at every place of the path, by which the choice was made."""
    rows = []
    for entry in (result["vanilla"], *result["tradeoff"]):
        found: Expected = entry["expected"] or {"gap": None, "interval": [None, None]}
        gap = Cell(points(found["gap"]), percent_span(found["interval"]))
        if entry["strength"] == 0:
            rows.append([Cell(strength_cell(result, entry)), gap, *[Cell(UNDEFINED)] * 5])
            continue
        fall, lost = found.get("fall"), found.get("accuracy_lost")
        rows.append(
            [
                Cell(strength_cell(result, entry)),
                gap,
                Cell(signed_points(None if fall is None else -fall), f"± {points(found.get('deviation'))}"),
                Cell(percent(found.get("probability"), 0)),
                Cell(signed_points(None if lost is None else -lost, 2), f"± {points(found.get('accuracy_error'), 2)}"),
                Cell(percent(found.get("changed"))),
                Cell("yes" if found.get("affordable") else "no"),
            ]
        )
    columns = ["Strength", "Expected gap", "Change of the gap", "Probability that it falls", "Change of accuracy"]
    columns += ["Decisions changed", "Within the limits"]
    caption = "What the answers say of every place of the path, in points; ± one standard deviation"
    return Table(caption, columns, rows, 1, selected_row(result))


def chosen_text(result: Result) -> list[str]:
    """What was done to the model and why, and what would confirm it."""
    said = [str(result["selected_because"])]
    verification = result["verification"]
    if result["selected"]["strength"] == 0:
        said = [f"The base model is kept as it is. {said[0]}"]
    elif verification is None:
        said.append("The correction was not verified: the answers that chose it are no test of it.")
    if verification is not None:
        said.append(verification_text(verification))
        return said
    outlook = result["outlook"]
    return said if outlook is None or isinstance(outlook, list) else [*said, *outlook_words(outlook)]


def verification_text(found: VerificationJson | Verification) -> str:
    """What fresh answers said of the correction."""
    return f"Put to the test on fresh answers: {found['words']}"


def arbitrary_text(result: Result) -> str:
    """Whose change hangs on what the answers leave open; nothing where nobody's decision changes."""
    found = None if result["correction"] is None else result["correction"]["steadiness"]
    if found is None or not found["changed"]:
        return ""
    return (
        f"Of the {count(found['changed'])} people of the training and validation parts whose decision changes, "
        f"{count(found['arbitrary'])} ({percent(found['arbitrary'] / found['changed'], 0)}) owe it to chance more than "
        f"others: fewer than {percent(found['below'], 0)} of the groupings that fit the answers would change it too."
    )


NOT_VERIFIED = "The answers that chose a correction are no test of it; audit answers are."


def expected_sentences(estimate: SpeakingGapsJson | None, strength: float | None) -> list[str]:
    """The gap to expect of the base model, and of the corrected one where decisions change; nothing without any."""
    if estimate is None:
        return []
    base = _gap_sentence(estimate["base"], "base", None)
    return [base, _gap_sentence(estimate["selected"], "selected", None)] if strength else [base]


def audit_says_more(estimate: SpeakingGapsJson | None, gap: EstimateJson) -> bool:
    """Whether the audit knows the base model's gap better than the training answers do."""
    ends = None if estimate is None else span(estimate["base"]["interval"])
    if ends is None or interval_tells_little(*ends):
        return True
    low, high = gap["low"], gap["high"]
    return defined(low) and defined(high) and high - low <= ends[1] - ends[0]


def expected_card(estimate: SpeakingGapsJson, strength: float | None) -> dict[str, str]:
    """The gap to expect, as the head of the page shows it."""
    base, selected = estimate["base"], estimate["selected"]
    spans = [percent_span(one["interval"]) for one in (base, selected)]
    card = {"what": "Gap to expect, points"}
    if tells_little(base):
        return card | {"after": "not known yet", "small": f"By the answers, 95% interval: {spans[0]}."}
    if not strength:
        return card | {"after": points(base["gap"]), "small": f"By the answers, 95% interval: {spans[0]}."}
    small = f"By the answers, 95% intervals: {spans[0]}, then {spans[1]}."
    return card | {"before": points(base["gap"]), "after": points(selected["gap"]), "small": small}


def expected_section(facts: CampaignFacts) -> ExpectedSection | None:
    """What the answers say of every place on the correction's path; None where heads were trained."""
    if not facts["path"] or "interval" not in facts["path"][0]:
        return None
    rows, here = [], None
    for place, point in enumerate(facts["path"]):
        here = place if point["strength"] == facts["strength"] else here
        rows.append(
            [
                Cell(f"{point['strength']:.3g}" if point["strength"] else "0, the model as it is"),
                Cell(points(point["gap"]), percent_span(point.get("interval"))),
                Cell(percent(point["accuracy"])),
                Cell(percent(point.get("balanced_accuracy"))),
                Cell(percent(point.get("changed"))),
            ]
        )
    columns = ["Strength", "Gap to expect", "Accuracy", "Balanced accuracy", "Decisions changed"]
    caption = (
        "Every place on the correction's path: gaps in points with 95% intervals, accuracy in percent, on the pool"
    )
    text = expected_sentences(facts["estimate"], facts["strength"])
    told = facts["verification"]
    tested = [] if told is None else [verification_text(told)]
    if told is None or told["verdict"] == "not verified":
        outlook = facts["outlook"]
        tested += [] if outlook is None or isinstance(outlook, list) else outlook_words(outlook)
        tested += [NOT_VERIFIED] if told is None else []
    return {"text": [*text, *tested], "table": Table(caption, columns, rows, 1, here)}
