"""The report's tables: rows of ready text, the numbers beside every picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from apod.audit.json_types import AuditJson, EstimateJson
from apod.fairness.many_labels import notion_for
from apod.fairness.metrics import RATE_WORDS, SHOWN_RATES, RateName
from apod.fairness.notions import EQUALIZED_ODDS, Notion
from apod.report.result import Answer, Changes, Metrics, Reason, Result, ValidationScores
from apod.report.words import (
    UNDEFINED,
    Value,
    count,
    decimal,
    defined,
    label_name,
    listed,
    percent,
    percent_span,
    plain,
    points,
    signed_points,
)

if TYPE_CHECKING:  # runs are reported on without loading what campaigns need
    from apod.campaign.json_types import SpeakingGapsJson
    from apod.report.facts import AnyGroupRates, AnyMetrics, AnyResult

DifferenceName = Literal["tpr_difference", "fpr_difference", "selection_rate_difference", "precision_difference"]
DIFFERENCES: Mapping[RateName, DifferenceName] = MappingProxyType(
    {
        "tpr": "tpr_difference",
        "fpr": "fpr_difference",
        "selection_rate": "selection_rate_difference",
        "precision": "precision_difference",
    }
)
"""What an audit calls the difference of a rate."""

CONTRADICTS = 0.1
"""A share of a group that the proxy misses by so much is said."""

NOT_JUDGED: ValidationScores = {"accuracy": None, "fairness": None, "score": None}
MOST_ROWS = 500
"""Longer tables end here and point to result.json."""


@dataclass(frozen=True)
class Cell:
    """One number with its interval below it."""

    text: str
    below: str = ""


@dataclass(frozen=True)
class Table:
    """Column titles and rows; the first `names` columns are words, the rest numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    names: int = 1
    marked: int | None = None  # a row to set apart
    left_out: int = 0  # rows beyond MOST_ROWS


def expected_cells(gaps: SpeakingGapsJson | None) -> list[Cell]:
    """The gaps to expect without and with mitigation; where the answers leave them open, they say so."""
    found = []
    for gap in () if gaps is None else (gaps["base"], gaps["selected"]):
        low, high = gap["interval"]
        known = gap["says"] and gap["gap"] is not None
        found.append(Cell(points(gap["gap"]), f"{points(low)} to {points(high)}") if known else Cell("not known yet"))
    return found or [Cell(UNDEFINED), Cell(UNDEFINED)]


def estimated(estimate: EstimateJson, show: Callable[[Value], str]) -> Cell:
    """An estimate over its interval; the interval alone where answers are too few for one."""
    if not (defined(estimate["low"]) and defined(estimate["high"])):
        return Cell(UNDEFINED)
    ends = f"{show(estimate['low'])} to {show(estimate['high'])}"
    return Cell(ends) if estimate["value"] is None else Cell(show(estimate["value"]), ends)


def _cells(*texts: str) -> list[Cell]:
    return [Cell(text) for text in texts]


def notion_of(result: Result | AuditJson) -> Notion:
    """Whose gap a result speaks of; results of earlier versions know but one."""
    labels = result.get("label_names")
    return notion_for(result.get("notion", EQUALIZED_ODDS.name), len(labels) if isinstance(labels, list) else 2)


def base_name(result: Result) -> str:
    """What strength 0 is called: a model of its own, or heads without a penalty."""
    return "no mitigation" if result.get("model") is None else "base model"


def labels_table(result: Result) -> Table:
    """Of more than two labels: how every group fares with each, without and with mitigation."""
    vanilla, selected = result["vanilla"], result["selected"]
    rows = []
    for label in result["label_names"]:
        for name in result["group_names"]:
            old, new = (one["groups"][name]["labels"][label] for one in (vanilla, selected))
            row = [*_cells(label_name(label), name, count(old["n"]))]
            for rate in SHOWN_RATES:
                spans = [one["intervals"]["groups"][name]["labels"][label][rate] for one in (vanilla, selected)]
                shown = zip((old, new), spans, strict=True)
                row += [Cell(percent(own[rate]), percent_span((ends[0], ends[1]))) for own, ends in shown]
                row.append(Cell(_difference(old[rate], new[rate])))
            rows.append(row)
    columns = ["Label", "Group", "People of the label"]
    for title in ("Predicted so, of them", "Predicted so, of all others", "Predicted so, of all"):
        columns += [f"{title}, without", "with", "change"]
    said = "Every label against all others, per recorded group on the test part, in percent; changes in points"
    return Table(said, columns, rows)


def groups_table(result: AnyResult) -> Table:
    """Every group's rates without and with mitigation; without alone where nothing is mitigated."""
    vanilla, selected = result["vanilla"], result["selected"]
    rows = []
    for name in result["group_names"]:
        before = vanilla["groups"][name]
        row = _cells(name, _people(before), *_positives(before))
        for rate in SHOWN_RATES:
            row.append(_rate(vanilla, name, rate))
            if selected is not None:
                row += [_rate(selected, name, rate), Cell(_difference(before[rate], selected["groups"][name][rate]))]
        rows.append(row)
    columns = ["Group", "People"]
    if any(_positives(group) for group in vanilla["groups"].values()):
        columns.append(f"{label_name(result['label_names'][1])[:1].upper()}{label_name(result['label_names'][1])[1:]}")
    for title in (RATE_WORDS[rate] for rate in SHOWN_RATES):
        columns += [title] if selected is None else [f"{title} without", "with", "change"]
    return Table("Rates per recorded group on the test part, in percent; changes in points", columns, rows)


def _people(group: AnyGroupRates) -> str:
    people = group.get("people")  # an audit says about how many they are
    return people if isinstance(people, str) else count(group["n"])


def _positives(group: AnyGroupRates) -> list[str]:
    """How many of a group have the positive label, and which share that is; nothing where nobody counted."""
    positives, people = group.get("n_positive"), group["n"]
    if positives is None:
        return []
    return [f"{count(positives)} ({percent(positives / people, 0)})" if people else "0"]


def _rate(metrics: AnyMetrics, name: str, rate: RateName) -> Cell:
    value, ends = metrics["groups"][name][rate], percent_span(group_interval(metrics, name, rate))
    return Cell(ends) if value is None and ends else Cell(percent(value), ends)


def group_interval(metrics: AnyMetrics, name: str, rate: RateName) -> Sequence[Value] | None:
    """The interval of one group's rate, where there is one."""
    found = metrics["intervals"]["groups"].get(name)
    return None if found is None else found[rate]


def _difference(before: float | None, after: float | None) -> str:
    return UNDEFINED if before is None or after is None else signed_points(after - before)


def curve_table(result: Result) -> Table:
    """Every strength at its best round: what it achieves."""
    rows = []
    for entry in _curve(result):
        intervals = entry["intervals"]
        rows.append(
            [
                Cell(strength_cell(result, entry)),
                Cell(percent(entry["accuracy"]), percent_span(intervals.get("accuracy"))),
                Cell(percent(entry["balanced_accuracy"]), percent_span(intervals.get("balanced_accuracy"))),
                Cell(points(entry["gap"]), percent_span(intervals.get("gap"))),
            ]
        )
    columns = ["Strength", "Accuracy", "Balanced accuracy", "Gap, points"]
    return Table("Every strength on the test part, with 95% intervals", columns, rows, 1, selected_row(result))


def choice_table(result: Result) -> Table:
    """Every strength at its best round: the paper's measures, and what the choice was made by."""
    rows = []
    for entry in _curve(result):
        judged = entry["validation"] or NOT_JUDGED
        rows.append(
            _cells(
                strength_cell(result, entry),
                decimal(entry["eop"]),
                decimal(entry["delta_eo"]),
                points(entry["demographic_parity_difference"]),
                count(entry["round"]),
                percent(judged["accuracy"]),
                decimal(judged["fairness"]),
                decimal(judged["score"]),
            )
        )
    columns = ["Strength", "EOP", "ΔEO", "Difference of selection rates, points", "Kept from round"]
    columns += ["Validation accuracy", "Validation fairness", "Validation score"]
    caption = "The paper's measures on the test part, and the validation score a strength was judged by"
    return Table(caption, columns, rows, 1, selected_row(result))


def _curve(result: Result) -> list[Metrics]:
    return [result["vanilla"], *result["tradeoff"]]


def strength_cell(result: Result, entry: Metrics) -> str:
    """A strength, with what it is called."""
    chosen = ", selected" if entry["strength"] == result["selected"]["strength"] else ""
    if entry["strength"] == 0:
        return f"0, {base_name(result)}{chosen if result.get('model') is not None else ''}"
    return f"{entry['strength']:.3g}{chosen}"


def selected_row(result: Result) -> int | None:
    """Which row of a table of all strengths is the selected one."""
    strengths = [entry["strength"] for entry in _curve(result)]
    chosen = result["selected"]["strength"]
    return strengths.index(chosen) if chosen in strengths else None


def changes_table(result: Result) -> Table:
    """Decisions that change, per group and direction; the rest are people without a recorded group."""
    if len(result["label_names"]) > 2:
        return _many_changes(result)
    negative, positive = (label_name(name) for name in result["label_names"])
    changes, excluded = result["changes"], result["vanilla"]["excluded"]
    rows, counted = [], 0
    for name, flips in changes["groups"].items():
        both = flips["to_positive"] + flips["to_negative"]
        counted += both
        share = percent(both / flips["n"]) if flips["n"] else UNDEFINED
        rows.append(_cells(name, count(flips["n"]), count(flips["to_negative"]), count(flips["to_positive"]), share))
    if excluded:
        other = changes["total"] - counted
        rows.append(_cells("no recorded group", count(excluded), UNDEFINED, UNDEFINED, percent(other / excluded)))
    everyone = [count(result["n_test"]), *_both_ways(changes, excluded), percent(changes["share"])]
    rows.append(_cells("everyone", *everyone))
    columns = ["Group", "People", f"{positive} to {negative}", f"{negative} to {positive}", "Share changed"]
    return Table("Decisions on the test part that mitigation changes", columns, rows)


def _many_changes(result: Result) -> Table:
    changes, labels = result["changes"], result["label_names"]
    rows = []
    for name, flips in changes["groups"].items():
        moved = sum(flips["to"].values())
        share = percent(moved / flips["n"]) if flips["n"] else UNDEFINED
        rows.append(_cells(name, count(flips["n"]), *(count(flips["to"][label]) for label in labels), share))
    everyone = [UNDEFINED] * len(labels)
    if not result["vanilla"]["excluded"]:
        everyone = [count(sum(flips["to"][label] for flips in changes["groups"].values())) for label in labels]
    rows.append(_cells("everyone", count(result["n_test"]), *everyone, percent(changes["share"])))
    columns = ["Group", "People", *(f"now {label_name(label)}" for label in labels), "Share changed"]
    return Table("Decisions on the test part that mitigation changes", columns, rows)


def _both_ways(changes: Changes, excluded: int) -> list[str]:
    if excluded:  # the directions of people without a recorded group are not in the result
        return [UNDEFINED, UNDEFINED]
    flips = changes["groups"].values()
    return [count(sum(one["to_negative"] for one in flips)), count(sum(one["to_positive"] for one in flips))]


def subgroups_table(result: Result) -> Table | None:
    """How the answers spread over the subgroups at the end, beside the pool's own spread."""
    if not result["rounds"] or not result["rounds"][-1]["subgroups"]:
        return None
    last = result["rounds"][-1]["subgroups"]
    answered, pool = sum(s["answered"] for s in last), sum(s["pool"] for s in last)
    centred = any(s["centred_accuracy"] is not None for s in last)  # not every way of asking looks at it
    rows = [
        _cells(
            f"{s['group']}, {label_name(s['label'])}",
            count(s["answered"]),
            percent(s["answered"] / answered if answered else None, 0),
            percent(s["pool"] / pool if pool else None, 0),
            *([signed_points(s["centred_accuracy"])] if centred else []),
        )
        for s in last
    ]
    columns = ["Subgroup", "Answers", "Share of answers", "Share of pool (guessed)"]
    columns += ["Accuracy against mean, points"] if centred else []
    return Table("Subgroups after the last answer", columns, rows)


def answers_table(answers: Sequence[Answer]) -> Table:
    """Everyone asked about, in order, and why."""
    shown = list(enumerate(answers[:MOST_ROWS], 1))
    columns: dict[str, list[str]] = {
        "Answer": [count(number) for number, _ in shown],
        "Round": [count(answer["round"]) for _, answer in shown],
        "Row in the file": [str(answer["row"]) for _, answer in shown],
        "Group answered": [
            "could not tell" if answer["group"] is None else str(answer["group"]) for _, answer in shown
        ],
        "Rule": [_rule(answer) for _, answer in shown],
        "Looked among": [_looked_in(answer["reason"]) for _, answer in shown],
    }
    words = len(columns)
    if any(answer["reason"].get("centred_accuracy") is not None for answer in answers):  # not every rule looks at it
        columns["Accuracy there"] = [signed_points(answer["reason"].get("centred_accuracy")) for _, answer in shown]
    if any(answer["reason"].get("distance") is not None for answer in answers):
        columns["Distance"] = [plain(answer["reason"].get("distance")) for _, answer in shown]
    columns["Probability"] = [plain(answer["probability"]) for _, answer in shown]
    rows = [_cells(*texts) for texts in zip(*columns.values(), strict=True)]
    left_out = max(0, len(answers) - MOST_ROWS)
    return Table("Everyone asked about, in order", list(columns), rows, words, left_out=left_out)


def _rule(answer: Answer) -> str:
    rule, entropy = str(answer["reason"].get("rule", "not recorded")), answer["reason"].get("entropy")
    rule += f", entropy {plain(entropy)}" if entropy is not None else ""
    return rule if answer["purpose"] == "training" else f"{rule} ({answer['purpose']})"


def _looked_in(reason: Reason) -> str:
    group, label = reason.get("group"), reason.get("label")
    if group is None:
        return "everybody" if label is None else label_name(label)
    return group if label is None else f"{group}, {label_name(label)}"


def bound_table(result: Result) -> Table:
    """Every term of Theorem 1 per round, in the theorem's letters."""
    rows = []
    for entry in (result["bound"] or [])[-MOST_ROWS:]:
        worst = entry["groups"].get(entry["worst_group"])
        delta, answers = (None, None) if worst is None else (worst["delta"], worst["n"])
        numbers = (entry["epsilon"], entry["L"], entry["K_l"], entry["K_h"], delta)
        terms = (entry["sampling_term"], entry["covering_term"], entry["bound"], entry["observed"])
        rows.append(
            _cells(
                count(entry["answered"]),
                entry["worst_group"],
                count(answers),
                *(plain(value) for value in (*numbers, *terms)),
            )
        )
    columns = ["Answers", "Worst group ã", "N", "ε", "L", "K_l", "K_h", "δ"]
    columns += ["Sampling term", "Covering term", "Bound", "Observed difference"]
    return Table("Terms of Theorem 1 after every round", columns, rows, 2, left_out=0)


def who_asked(result: Result) -> str:
    """How many answers from which group."""
    given = [answer["group"] for answer in result["answers"]]
    said = [f"{count(given.count(name))} {name}" for name in result["group_names"]]
    unknown = given.count(None)
    return listed([*said, f"{count(unknown)} could not be told"] if unknown else said)


def proxy_contradiction(result: Result) -> str:
    """Where the proxy's guesses and the records tell of other shares of the groups, both; else nothing."""
    last = result["rounds"][-1]["subgroups"] if result["rounds"] else []
    people, pool = sum(g["n"] for g in result["vanilla"]["groups"].values()), sum(s["pool"] for s in last)
    if not people or not pool:
        return ""
    found = []
    for name, group in result["vanilla"]["groups"].items():
        guessed, recorded = sum(s["pool"] for s in last if s["group"] == name) / pool, group["n"] / people
        if abs(guessed - recorded) >= CONTRADICTS:
            found.append(f"{percent(guessed, 0)} {name} by its guesses, {percent(recorded, 0)} by the records")
    if not found:
        return ""
    return (
        f"The proxy is wrong about how many people there are of each group: {'; '.join(found)}. What is guessed on "
        "this page, the shares of the pool and the choice of the strength, rests on it."
    )


def proxy_hits(result: Result) -> str:
    """How often the proxy's guess of the group, by which somebody was chosen, was what the annotator said."""
    told = [a for a in result["answers"] if a["group"] is not None and a["reason"].get("group") is not None]
    if not told:
        return ""
    right = sum(a["group"] == a["reason"].get("group") for a in told)
    return f"The group they were picked for is the proxy's guess; it was right for {right} of {len(told)}."
