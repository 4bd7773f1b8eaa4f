"""The report's tables: rows of ready text, the numbers beside every picture."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apod.fairness.metrics import RATE_WORDS, RATES
from apod.fairness.notions import EQUALIZED_ODDS, Notion, find_notion
from apod.method.settings import SETTINGS
from apod.report.numbers import (
    UNDEFINED,
    Value,
    count,
    decimal,
    defined,
    listed,
    percent,
    percent_span,
    plain,
    points,
    seconds,
    signed_points,
)

Result = Mapping[str, Any]

COMMAND_WIDTH = 88
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


def estimated(estimate: Result, show: Callable[[Value], str]) -> Cell:
    """An estimate over its interval; the interval alone where answers are too few for one."""
    if not (defined(estimate["low"]) and defined(estimate["high"])):
        return Cell(UNDEFINED)
    ends = f"{show(estimate['low'])} to {show(estimate['high'])}"
    return Cell(ends) if estimate["value"] is None else Cell(show(estimate["value"]), ends)


def _cells(*texts: str) -> list[Cell]:
    return [Cell(text) for text in texts]


def notion_of(result: Result) -> Notion:
    """Whose gap a result speaks of; results of earlier versions know but one."""
    return find_notion(result.get("notion", EQUALIZED_ODDS.name))


def groups_table(result: Result) -> Table:
    """Every group's rates without and with mitigation; without alone where nothing is mitigated."""
    vanilla, selected = result["vanilla"], result["selected"]
    rows = []
    for name in result["group_names"]:
        before = vanilla["groups"][name]
        row = _cells(name, count(before["n"]))
        for rate in RATES:
            row.append(_rate(vanilla, name, rate))
            if selected is not None:
                row += [_rate(selected, name, rate), Cell(_difference(before[rate], selected["groups"][name][rate]))]
        rows.append(row)
    columns = ["Group", "People"]
    for rate in RATE_WORDS.values():
        columns += [rate] if selected is None else [f"{rate} without", "with", "change"]
    return Table("Rates per recorded group on the test part, in percent; changes in points", columns, rows)


def _rate(metrics: Result, name: str, rate: str) -> Cell:
    interval = metrics["intervals"].get("groups", {}).get(name, {}).get(rate)
    value, ends = metrics["groups"][name][rate], percent_span(interval)
    return Cell(ends) if value is None and ends else Cell(percent(value), ends)


def _difference(before: float | None, after: float | None) -> str:
    return UNDEFINED if before is None or after is None else signed_points(after - before)


def curve_table(result: Result) -> Table:
    """Every strength at its best round: what it achieves."""
    rows = []
    for entry in _curve(result):
        intervals = entry["intervals"]
        rows.append(
            [
                Cell(_strength(result, entry)),
                Cell(percent(entry["accuracy"]), percent_span(intervals.get("accuracy"))),
                Cell(percent(entry["balanced_accuracy"]), percent_span(intervals.get("balanced_accuracy"))),
                Cell(points(entry["gap"]), percent_span(intervals.get("gap"))),
            ]
        )
    columns = ["Strength", "Accuracy", "Balanced accuracy", "Gap, points"]
    return Table("Every strength on the test part, with 95% intervals", columns, rows, 1, _selected_row(result))


def choice_table(result: Result) -> Table:
    """Every strength at its best round: the paper's measures, and what the choice was made by."""
    rows = []
    for entry in _curve(result):
        validation = entry["validation"]
        measures = (entry["eop"], entry["delta_eo"], entry["demographic_parity_difference"])
        judged = (validation.get("accuracy"), validation.get("fairness"), validation.get("score"))
        rows.append(
            _cells(
                _strength(result, entry),
                *(decimal(value) for value in measures),
                count(entry["round"]),
                *(decimal(value) for value in judged),
            )
        )
    columns = ["Strength", "EOP", "ΔEO", "Difference of selection rates", "Kept from round"]
    columns += ["Validation accuracy", "Validation fairness", "Validation score"]
    caption = "The paper's measures on the test part, and the validation score a strength was judged by"
    return Table(caption, columns, rows, 1, _selected_row(result))


def _curve(result: Result) -> list[Result]:
    return [result["vanilla"], *result["tradeoff"]]


def _strength(result: Result, entry: Result) -> str:
    if entry["strength"] == 0:
        return "0, no mitigation"
    chosen = entry["strength"] == result["selected"]["strength"]
    return f"{entry['strength']:g}, selected" if chosen else f"{entry['strength']:g}"


def _selected_row(result: Result) -> int | None:
    strengths = [entry["strength"] for entry in _curve(result)]
    chosen = result["selected"]["strength"]
    return strengths.index(chosen) if chosen in strengths else None


def changes_table(result: Result) -> Table:
    """Decisions that change, per group and direction; the rest are people without a recorded group."""
    negative, positive = result["label_names"]
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


def _both_ways(changes: Result, excluded: int) -> list[str]:
    if excluded:  # the directions of people without a recorded group are not in the result
        return [UNDEFINED, UNDEFINED]
    return [count(sum(g[way] for g in changes["groups"].values())) for way in ("to_negative", "to_positive")]


def subgroups_table(result: Result) -> Table | None:
    """How the answers spread over the subgroups at the end, beside the pool's own spread."""
    if not result["rounds"] or not result["rounds"][-1]["subgroups"]:
        return None
    last = result["rounds"][-1]["subgroups"]
    answered, pool = sum(s["answered"] for s in last), sum(s["pool"] for s in last)
    rows = [
        _cells(
            f"{s['group']}, {s['label']}",
            count(s["answered"]),
            percent(s["answered"] / answered if answered else None, 0),
            percent(s["pool"] / pool if pool else None, 0),
            signed_points(s["centred_accuracy"]),
        )
        for s in last
    ]
    columns = ["Subgroup", "Answers", "Share of answers", "Share of pool (proxy)", "Accuracy against mean, points"]
    return Table("Subgroups after the last answer", columns, rows)


def answers_table(answers: Sequence[Result]) -> Table:
    """Everyone asked about, in order, and why."""
    rows = []
    for number, answer in enumerate(answers[:MOST_ROWS], 1):
        reason = answer["reason"]
        rows.append(
            _cells(
                count(number),
                count(answer["round"]),
                str(answer["row"]),
                str(answer["group"]) if answer["group"] is not None else "could not tell",
                _rule(answer),
                _looked_in(reason),
                signed_points(reason.get("centred_accuracy")),
                plain(reason.get("distance")),
                plain(answer["probability"]),
            )
        )
    columns = ["Answer", "Round", "Row in the file", "Group answered", "Rule", "Subgroup looked in", "Accuracy there"]
    columns += ["Distance", "Probability"]
    return Table("Everyone asked about, in order", columns, rows, 6, left_out=max(0, len(answers) - MOST_ROWS))


def _rule(answer: Result) -> str:
    rule, entropy = str(answer["reason"].get("rule", "not recorded")), answer["reason"].get("entropy")
    rule += f", entropy {plain(entropy)}" if entropy is not None else ""
    return rule if answer["purpose"] == "training" else f"{rule} ({answer['purpose']})"


def _looked_in(reason: Result) -> str:
    group, label = reason.get("group"), reason.get("label")
    if group is None and label is None:
        return "anywhere"
    return f"{'any group' if group is None else group}, {'any label' if label is None else label}"


def bound_table(result: Result) -> Table:
    """Every term of Theorem 1 per round, in the theorem's letters."""
    rows = []
    for entry in result["bound"][-MOST_ROWS:]:
        worst = entry["groups"].get(entry["worst_group"], {})
        numbers = (entry["epsilon"], entry["L"], entry["K_l"], entry["K_h"], worst.get("delta"))
        terms = (entry["sampling_term"], entry["covering_term"], entry["bound"], entry["observed"])
        rows.append(
            _cells(
                count(entry["answered"]),
                entry["worst_group"],
                count(worst.get("n")),
                *(plain(value) for value in (*numbers, *terms)),
            )
        )
    columns = ["Answers", "Worst group ã", "N", "ε", "L", "K_l", "K_h", "δ"]
    columns += ["Sampling term", "Covering term", "Bound", "Observed difference"]
    return Table("Terms of Theorem 1 after every round", columns, rows, 2, left_out=0)


SIZE_NAMES = {
    "split": "Training, validation, test",
    "embedding": "Width of the embedding",
    "hidden": "Hidden layers of a head",
    "steps_per_round": "Steps per round",
}
"""What stands among the settings and is the dataset's."""


def settings_table(result: Result) -> Table:
    """Everything the run was told."""
    rows = [_cells("Dataset", str(result["dataset"])), _cells("Preset", str(result["preset"]))]
    rows += [_cells("Seed", str(result["seed"])), _cells("Budget", f"{count(result['budget'])} answers")]
    parts = [count(result[key]) for key in ("n_train", "n_validation", "n_test")]
    rows.append(_cells("People", f"{parts[0]} training, {parts[1]} validation, {parts[2]} test"))
    rows.append(_cells("Reference group", str(result["reference"])))
    rows.append(_cells("Fairness metric of the choice", {"eop": "EOP", "delta_eo": "ΔEO"}.get(result["metric"], "–")))
    names = SIZE_NAMES | {name: meaning.title for name, meaning in SETTINGS.items()}
    rows += [_cells(names.get(key, key), _setting(value)) for key, value in result["settings"].items()]
    return Table("Settings", ["Setting", "Value"], rows, 2)


def _setting(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(_setting(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")


def timing_table(result: Result) -> Table:
    """Where the time went."""
    rows = [
        _cells(key.removesuffix("_seconds").replace("_", " "), seconds(value))
        for key, value in result["timing"].items()
    ]
    return Table("Time", ["Part", "Time"], rows)


def command(result: Result) -> str:
    """The command line that runs this again, with everything that can be told on it."""
    settings = result["settings"]
    options = {"--preset": result["preset"], "--seed": result["seed"], "--budget": result["budget"]}
    for name, meaning in SETTINGS.items():
        if meaning.option is not None and settings.get(name):
            options[meaning.option] = _argument(settings[name])
    options |= {"--reference": result["reference"], "--split": _argument(settings["split"])}
    said = [f"{option} {shlex.quote(str(value))}" for option, value in options.items()]
    lines = [f"apod run {shlex.quote(str(result['dataset']))}"]
    for option in said:
        fits = len(lines[-1]) + len(option) < COMMAND_WIDTH
        lines = [*lines[:-1], f"{lines[-1]} {option}"] if fits else [*lines, f"    {option}"]
    return " \\\n".join(lines)


def _argument(value: Any) -> Any:
    """As it stands on the command line."""
    return ",".join(f"{one:g}" for one in value) if isinstance(value, (list, tuple)) else value


def who_asked(result: Result) -> str:
    """How many answers from which group."""
    given = [answer["group"] for answer in result["answers"]]
    said = [f"{count(given.count(name))} {name}" for name in result["group_names"]]
    unknown = given.count(None)
    return listed([*said, f"{count(unknown)} could not be told"] if unknown else said)


def proxy_hits(result: Result) -> str:
    """How often the proxy's guess of the group, by which somebody was chosen, was what the annotator said."""
    told = [a for a in result["answers"] if a["group"] is not None and a["reason"].get("group") is not None]
    if not told:
        return ""
    right = sum(a["group"] == a["reason"]["group"] for a in told)
    return f"The group they were picked for is the proxy's guess; it was right for {right} of {len(told)}."
