"""How a run was made, in words: its settings, its data, the time it took, and the command that makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from apod.fairness.notions import NOTIONS
from apod.method.settings import SETTINGS
from apod.report.result import Data, Result
from apod.report.tables import Cell, Table
from apod.report.words import count, percent, seconds

COMMAND_WIDTH = 88
MOST_FEATURES = 40
"""Longer lists of columns end here."""

SIZE_NAMES = {
    "split": "Training, validation, test",
    "embedding": "Width of the embedding",
    "hidden": "Hidden layers of a head",
    "steps_per_round": "Steps per round",
}
"""What stands among the settings and is the dataset's."""

SETTING_WORDS: Mapping[str, Mapping[Any, str]] = {
    "notion": {name: notion.words.title.lower() for name, notion in NOTIONS.items()},
    "relaxation": {
        "sharp": "a steep sigmoid of the margin",
        "sigmoid": "a sigmoid of the margin",
        "tanh": "a hyperbolic tangent of the margin",
        "linear": "the margin itself",
    },
    "over": {
        "annotated": "the people whose group was answered",
        "pool": "everybody, weighted by the guessed groups",
    },
    "selector": {
        "gap": "half random people of each label, half those whose answer tells most about the gap",
        "cell": "a random person of each label and decision in turn",
        "typical": "a typical person of each label in turn: in the densest region no answer covers yet",
        "apod": "the subgroup with the worst accuracy, and in it the person farthest from all answers (AIS)",
        "random": "a random person",
        "stratified": "a random person of each label in turn",
        "uncertainty": "the person whose prediction is least certain",
        "coreset": "the person farthest from all answers",
        "group": "a random person of the subgroup with the worst accuracy",
    },
    "proxy": {
        "laplace": "logistic regression with a Laplace posterior",
        "logistic": "logistic regression",
        "perceptron": "the paper's single layer",
    },
    "over_groups": {"marginal": "each attribute alone", "intersections": "each attribute and the intersections"},
    "proxy_reads": {"inputs": "the columns of the table", "embeddings": "the body's embeddings"},
    "head_choice": {
        "posterior": "smallest gap by the posterior at little loss of accuracy; base model where evidence is thin",
        "score": "the paper's score: accuracy plus fairness by guessed groups",
    },
    "trajectories": {
        "shared": "one set of answers for all strengths",
        "per strength": "a set of answers for each strength",
    },
    "threshold": {None: "the model's own, or as the selection rate says"},
    "selection_rate": {None: "any"},
    "body": {
        None: "none: a model is corrected",
        "contrastive": "contrastively, without labels",
        "cross_entropy": "on the labels",
        "precomputed": "not at all: the columns are embeddings",
    },
    "least_gain": {0: "never"},
    "head_steps": {0: "none"},
}


def settings_table(result: Result) -> Table:
    """Everything the run was made with."""
    rows = [_row("Made at", result["made_at"])] if "made_at" in result else []
    rows += [_row("Dataset", result["dataset"]), *_data_rows(result.get("data"))]
    rows += [_row("Preset", result["preset"]), _row("Seed", result["seed"])]
    rows.append(_row("Budget", f"{count(result['budget'])} answers"))
    people = f"{count(result['n_train'])} training, {count(result['n_validation'])} validation"
    rows.append(_row("People", f"{people}, {count(result['n_test'])} test"))
    rows.append(_row("Reference group", result["reference"]))
    rows.append(
        _row("Fairness metric of the paper's score", {"eop": "EOP", "delta_eo": "ΔEO"}.get(result["metric"], "–"))
    )
    names = setting_names()
    rows += [_row(names.get(key, key), setting_words(key, value)) for key, value in result["settings"].items()]
    return Table("Settings and data", ["Setting", "Value"], rows, 2)


def setting_names() -> dict[str, str]:
    """What every setting of a result is called."""
    return SIZE_NAMES | {name: meaning.title for name, meaning in SETTINGS.items()}


def _data_rows(data: Data | None) -> list[list[Cell]]:
    """What identifies the data; results of earlier versions do not say."""
    if data is None:
        return []
    return [
        _row("Fingerprint of features and labels", data["fingerprint"]),
        _row("Rows", count(data["rows"])),
        _row("Share with the positive label", percent(data["base_rate"])),
        *([_row("Rows are weighted by", data["weight"])] if "weight" in data else []),
        _row("Features used", features_text(data["features"])),
    ]


def features_text(names: Sequence[str]) -> str:
    """The columns by name, or as many of them as fit, and how many they are."""
    shown = ", ".join(names[:MOST_FEATURES])
    return f"{count(len(names))}: {shown}" + (", …" if len(names) > MOST_FEATURES else "")


def setting_words(name: str, value: Any) -> str:
    """A setting's value as a reader would say it, with its name in the command where the two differ."""
    if isinstance(value, (list, tuple)):
        return ", ".join(setting_words(name, one) for one in value)
    said = SETTING_WORDS.get(name, {}).get(value)
    if value is None:
        return said or "none"
    if said is not None:
        return f"{said} ({value})" if isinstance(value, str) else said
    return f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")


def _row(name: str, value: Any) -> list[Cell]:
    return [Cell(name), Cell(str(value))]


def timing_table(result: Result) -> Table:
    """Where the time went."""
    rows = [
        _row(key.removesuffix("_seconds").replace("_", " "), seconds(value)) for key, value in result["timing"].items()
    ]
    return Table("Time", ["Part", "Time"], rows)


def command(result: Result) -> str:
    """The command line that runs this again, with everything that can be told on it."""
    settings: Mapping[str, object] = result["settings"]
    options: dict[str, object] = {"--preset": result["preset"], "--seed": result["seed"], "--budget": result["budget"]}
    for name, meaning in SETTINGS.items():
        if meaning.option is not None and settings.get(name):
            options[meaning.option] = _argument(settings[name])
    model = result.get("model")
    options |= {"--score": model["score"]} if model is not None and model["score"] is not None else {}
    weight = result["data"].get("weight") if "data" in result else None
    options |= {"--weight": weight} if weight is not None else {}
    options |= {"--reference": result["reference"], "--split": _argument(settings["split"])}
    said = [f"{option} {shlex.quote(str(value))}" for option, value in options.items()]
    lines = [f"apod run {shlex.quote(str(result['dataset']))}"]
    for option in said:
        fits = len(lines[-1]) + len(option) < COMMAND_WIDTH
        lines = [*lines[:-1], f"{lines[-1]} {option}"] if fits else [*lines, f"    {option}"]
    return " \\\n".join(lines)


def _argument(value: object) -> object:
    """As it stands on the command line."""
    return ",".join(f"{one:g}" for one in value) if isinstance(value, (list, tuple)) else value
