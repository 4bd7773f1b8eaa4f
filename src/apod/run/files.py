"""The files of a finished run, each written whole or not at all, and people as points for its report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import UNKNOWN
from apod.errors import InputError
from apod.fairness.criterion import FixedCriterion, parse_criterion
from apod.files import write_private
from apod.models.content_columns import ContentColumns
from apod.randomness import generator
from apod.report import render_report
from apod.report.points import AskedPoint, Map, Pictures, Plane, Surface
from apod.report.run_page import SCHEMA_VERSION
from apod.run.experiment import Outcome, run_experiment

Floats = npt.NDArray[np.float64]

SHOWN = 1500
"""People drawn on a map; more would hide each other."""


def draw_pictures(outcome: Outcome) -> Pictures:
    """Everything this run can show as points."""
    if outcome.approach.dataset.classes > 2:
        return Pictures(map=None, plane=None)
    return Pictures(map=_pool_map(outcome), plane=_plane(outcome) if _is_plane(outcome) else None)


def _asked(outcome: Outcome, places: Floats) -> list[AskedPoint]:
    """The asked people at their places, (n_train, 2)."""
    dataset, train = outcome.approach.dataset, outcome.approach.split.train
    answers = outcome.approach.mitigation.answers[outcome.finished.trajectory]
    training = [entry for entry in outcome.result["answers"] if entry["purpose"] == "training"]
    return [
        AskedPoint(
            x=float(places[row, 0]),
            y=float(places[row, 1]),
            group=entry["group"],
            label=int(dataset.labels[train[row]]),
            round=entry["round"],
            row=entry["row"],
        )
        for row, entry in zip(answers.rows[answers.handed_in :], training, strict=True)
    ]


def _sample(n: int, outcome: Outcome) -> npt.NDArray[np.int64]:
    rng = generator(outcome.result["seed"], "map", outcome.approach.dataset.key)
    return np.sort(rng.permutation(n)[:SHOWN])


def _pool_map(outcome: Outcome) -> Map:
    """The training part by the two main directions of what distances are measured in."""
    approach = outcome.approach
    places = approach.places()
    centred = places - places.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    main = directions[:, ::-1][:, :2]
    main = main * np.sign(main[np.abs(main).argmax(axis=0), range(main.shape[1])])  # a fixed sign for each direction
    places = centred @ main
    if places.shape[1] < 2:
        places = np.column_stack([places, np.zeros(len(places))])
    shown = _sample(len(places), outcome)
    labels = approach.dataset.labels[approach.split.train][shown]
    return Map("PCA", places[shown, 0], places[shown, 1], labels, _asked(outcome, places))


def _is_plane(outcome: Outcome) -> bool:
    """Two numeric features, recorded groups to draw and to answer the random run's questions from, and a model that
    can be asked about any point."""
    dataset, model = outcome.approach.dataset, outcome.result["model"]
    if dataset.known is not None or dataset.classes > 2 or (model is not None and model["kind"] == "scores"):
        return False
    kinds = dataset.features.dtypes
    recorded = bool((dataset.groups != UNKNOWN).any())
    return recorded and len(kinds) == 2 and all(pd.api.types.is_numeric_dtype(kind) for kind in kinds)


def _plane(outcome: Outcome) -> Plane:
    """Figure 1: the boundary without mitigation, after as many random answers, and after APOD's."""
    approach, selected = outcome.approach, outcome.finished.selected
    dataset, split = approach.dataset, approach.split
    points = dataset.features.to_numpy(np.float64)
    shown = split.test[_sample(len(split.test), outcome)]
    grid_x, grid_y = (_grid(points[:, axis]) for axis in (0, 1))
    names = [str(name) for name in dataset.features.columns]
    randomly = run_experiment(
        dataset,
        approach.randomly(selected),
        seed=outcome.result["seed"],
        budget=outcome.result["budget"],
    )
    compared = randomly.finished.selected if approach.settings.corrects else 1  # heads were told the strength
    achieved = [randomly.result["vanilla"], *randomly.result["tradeoff"]][compared]
    return Plane(
        feature_names=(names[0], names[1]),
        x=points[shown, 0],
        y=points[shown, 1],
        label=dataset.labels[shown],
        group=dataset.groups[shown],
        grid_x=grid_x,
        grid_y=grid_y,
        vanilla=Surface(_positive(outcome, 0, grid_x, grid_y)),
        selected=Surface(_positive(outcome, selected, grid_x, grid_y), _asked(outcome, points[split.train])),
        random=Surface(
            _positive(randomly, compared, grid_x, grid_y),
            _asked(randomly, points[split.train]),
            accuracy=achieved["accuracy"],
            gap=achieved["gap"],
        ),
    )


def _grid(values: Floats, steps: int = 80) -> Floats:
    low, high = np.quantile(values, [0.002, 0.998])
    return np.linspace(low, high, steps)


def _positive(outcome: Outcome, place: int, grid_x: Floats, grid_y: Floats) -> Floats:
    """(rows, columns) P(y = 1) over the grid by one of the operating points."""
    across, up = np.meshgrid(grid_x, grid_y)
    cells = np.column_stack([across.ravel(), up.ravel()])
    frame = outcome.approach.dataset.features.iloc[:0].reindex(range(len(cells)))
    frame[frame.columns[0]], frame[frame.columns[1]] = cells[:, 0], cells[:, 1]
    return outcome.approach.positive(frame, place).reshape(across.shape)


CLASSIFIER = "classifier.apod"
RESULT = "result.json"


def fix_criterion(folder: Path, text: str | None, resume: bool) -> FixedCriterion | None:
    """Write the acceptance criterion to result.json before the first answer; of a resumed run, the one fixed then.

    InputError where it cannot be read, or where a run that has begun has another one.
    """
    wanted = None if text is None else parse_criterion(text).text
    if resume and (folder / RESULT).exists():
        fixed = json.loads((folder / RESULT).read_text(encoding="utf-8")).get("criterion")
        if wanted not in (None, fixed and fixed["text"]):
            was = f"is {fixed['text']!r}, fixed {fixed['fixed_at']}" if fixed else "was begun without one"
            raise InputError(f"The criterion of the run in {folder} {was}: leave --criterion out, or begin a new run.")
        return FixedCriterion(**fixed) if fixed else None
    if wanted is None:
        return None
    found = FixedCriterion(wanted, datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
    begun = {"schema_version": SCHEMA_VERSION, "finished": False, "criterion": found.to_dict()}
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / RESULT, (json.dumps(begun, indent=1) + "\n").encode())
    return found


def write_outcome(
    outcome: Outcome,
    folder: Path,
    contents: ContentColumns | None = None,
    thumbnails: Callable[[Sequence[int]], Mapping[int, bytes]] | None = None,
) -> Path:
    """Write result.json, report.html and the classifier; gives the path of the report.

    contents: what embedded the table's pictures and texts; the classifier keeps it for new people · thumbnails: gives
    small pictures of rows, for a report that shows those who were asked about.
    """
    start, timing = time.perf_counter(), outcome.result["timing"]
    folder.mkdir(parents=True, exist_ok=True)
    _write_classifier(outcome, folder / CLASSIFIER, contents)
    _write_result(outcome, folder)  # first: whatever happens while drawing, the result is there
    report = folder / "report.html"
    drawn = draw_pictures(outcome)
    if thumbnails is not None:
        drawn = replace(drawn, thumbnails=thumbnails([answer["row"] for answer in outcome.result["answers"]]))
    write_private(report, render_report(outcome.result, drawn).encode())
    seconds = round(time.perf_counter() - start, 3)
    timing |= {"report_seconds": seconds, "total_seconds": round(timing["total_seconds"] + seconds, 3)}
    _write_result(outcome, folder)
    return report


def _write_classifier(outcome: Outcome, path: Path, contents: ContentColumns | None) -> None:
    path.unlink(missing_ok=True)  # that of an earlier run
    classifier = outcome.approach.classifier()
    classifier.contents_ = contents
    classifier.save(path)
    outcome.result["classifier"] = path.name


def _write_result(outcome: Outcome, folder: Path) -> None:
    write_private(folder / RESULT, (json.dumps(outcome.result, indent=1, allow_nan=False) + "\n").encode())
