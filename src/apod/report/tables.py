"""The report's tables: rows of ready text, the numbers beside every picture."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apod.report.numbers import (
    UNDEFINED,
    count,
    decimal,
    listed,
    percent,
    percent_span,
    plain,
    points,
    seconds,
    signed_points,
)

Result = Mapping[str, Any]

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


def _cells(*texts: str) -> list[Cell]:
    return [Cell(text) for text in texts]


def groups_table(result: Result) -> Table:
    """Every group's rates without and with mitigation."""
    vanilla, selected = result["vanilla"], result["selected"]
    rows = []
    for name in result["group_names"]:
        before, after = vanilla["groups"][name], selected["groups"][name]
        row = _cells(name, count(before["n"]))
        for rate in ("tpr", "fpr", "selection_rate"):
            row += [_rate(vanilla, name, rate), _rate(selected, name, rate)]
            row += _cells(_difference(before[rate], after[rate]))
        rows.append(row)
    columns = ["Group", "People"]
    for rate in ("TPR", "FPR", "Selection rate"):
        columns += [f"{rate} without", "with", "change"]
    return Table("Rates per recorded group on the test part, in percent; changes in points", columns, rows)


def _rate(metrics: Result, name: str, rate: str) -> Cell:
    interval = metrics["intervals"].get("groups", {}).get(name, {}).get(rate)
    return Cell(percent(metrics["groups"][name][rate]), percent_span(interval))


def _difference(before: float | None, after: float | None) -> str:
    return UNDEFINED if before is None or after is None else signed_points(after - before)


def curve_table(result: Result) -> Table:
    """Every strength at its best round, with what the choice was made by."""
    entries = [result["vanilla"], *result["tradeoff"]]
    chosen = result["selected"]["strength"]
    rows = []
    for entry in entries:
        name = "0 (no mitigation)" if entry["strength"] == 0 else f"{entry['strength']:g}"
        validation, intervals = entry["validation"], entry["intervals"]
        rows.append(
            [
                Cell(f"{name}, selected" if entry["strength"] == chosen and chosen else name),
                Cell(percent(entry["accuracy"]), percent_span(intervals.get("accuracy"))),
                Cell(percent(entry["balanced_accuracy"])),
                Cell(points(entry["gap"]), percent_span(intervals.get("gap"))),
                *_cells(decimal(entry["eop"]), decimal(entry["delta_eo"]), count(entry["round"])),
                *_cells(decimal(validation.get("fairness")), decimal(validation.get("score"))),
            ]
        )
    columns = ["Strength", "Accuracy", "Balanced accuracy", "Gap, points", "EOP", "ΔEO", "Kept from round"]
    columns += ["Validation fairness", "Validation score"]
    marked = next((i for i, e in enumerate(entries) if e["strength"] == chosen), None)
    return Table("Every strength on the test part, and the validation score it was judged by", columns, rows, 1, marked)


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


def _both_ways(changes: Result, excluded: int) -> tuple[str, str]:
    if excluded:  # the directions of people without a recorded group are not in the result
        return UNDEFINED, UNDEFINED
    return tuple(count(sum(g[way] for g in changes["groups"].values())) for way in ("to_negative", "to_positive"))  # type: ignore[return-value]


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
                answer["group"] if answer["group"] is not None else "could not tell",
                why(answer),
                plain(reason.get("distance")),
                plain(answer["probability"]),
            )
        )
    columns = ["Answer", "Round", "Row in the file", "Group answered", "Why this person", "Distance", "Probability"]
    return Table("Everyone asked about, in order", columns, rows, 5, left_out=max(0, len(answers) - MOST_ROWS))


def why(answer: Result) -> str:
    """The reason of a question in a line."""
    reason = answer["reason"]
    text = str(reason.get("rule", "no rule recorded"))
    where = [str(reason[key]) for key in ("group", "label") if reason.get(key) is not None]
    if where:
        text += f": {', '.join(where)}" + (" by proxy" if reason.get("group") is not None else "")
    if reason.get("centred_accuracy") is not None:
        text += f", {signed_points(reason['centred_accuracy'])} points against the mean"
    if reason.get("entropy") is not None:
        text += f", entropy {plain(reason['entropy'])}"
    return text if answer.get("purpose", "training") == "training" else f"{text} ({answer['purpose']})"


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


SETTING_NAMES = {
    "penalty": "What the penalty equalises",
    "relaxation": "How decisions are made differentiable",
    "over": "Whom the penalty is computed over",
    "selector": "Who is asked next",
    "proxy": "Model that guesses groups (proxy)",
    "strengths": "Strengths trained",
    "ask_strength": "Strength whose head asks",
    "trajectories": "Questions",
    "split": "Training, validation, test",
    "embedding": "Width of the embedding",
    "hidden": "Hidden layers of a head",
    "body": "How the body is pre-trained",
    "body_epochs": "Epochs of the body",
    "epochs": "Epochs per round",
    "batch_size": "Batch size",
    "dropout": "Dropout",
    "questions_per_round": "Questions per round",
}


def settings_table(result: Result) -> Table:
    """Everything the run was told."""
    rows = [_cells("Dataset", str(result["dataset"])), _cells("Preset", str(result["preset"]))]
    rows += [_cells("Seed", str(result["seed"])), _cells("Budget", f"{count(result['budget'])} answers")]
    parts = [count(result[key]) for key in ("n_train", "n_validation", "n_test")]
    rows.append(_cells("People", f"{parts[0]} training, {parts[1]} validation, {parts[2]} test"))
    rows.append(_cells("Reference group", str(result["reference"])))
    rows.append(_cells("Fairness metric of the choice", {"eop": "EOP", "delta_eo": "ΔEO"}.get(result["metric"], "–")))
    rows += [_cells(SETTING_NAMES.get(key, key), _setting(value)) for key, value in result["settings"].items()]
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
    options: list[tuple[str, Any]] = [
        ("--preset", result["preset"]),
        ("--seed", result["seed"]),
        ("--budget", result["budget"]),
        ("--strengths", ",".join(f"{s:g}" for s in settings["strengths"])),
        ("--selector", settings["selector"]),
        ("--penalty", settings["penalty"]),
        ("--relaxation", settings["relaxation"]),
        ("--over", settings["over"]),
        ("--proxy", settings["proxy"]),
        ("--ask-strength", settings["ask_strength"]),
        ("--batch", settings["questions_per_round"]),
        ("--body", settings["body"]),
        ("--reference", result["reference"]),
        ("--split", ",".join(f"{s:g}" for s in settings["split"])),
    ]
    told = [f"{flag} {shlex.quote(str(value))}" for flag, value in options if value is not None]
    return " \\\n  ".join([f"apod run {shlex.quote(str(result['dataset']))}", *told])


def who_asked(result: Result) -> str:
    """How many answers from which group."""
    given = [answer["group"] for answer in result["answers"]]
    said = [f"{count(given.count(name))} {name}" for name in result["group_names"]]
    unknown = given.count(None)
    return listed([*said, f"{count(unknown)} could not be told"] if unknown else said)
