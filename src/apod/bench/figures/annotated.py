"""Where the annotated people lie: t-SNE of the answers of APOD beside those of random selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from apod.bench.figures.style import (
    BLUE,
    COLUMN,
    LIGHT,
    ORANGE,
    SKY,
    VERMILLION,
    NothingToDraw,
    Sketch,
    legend_below,
    new_figure,
)
from apod.bench.methods import METHODS
from apod.bench.results import FloatArray, Results, TaskResults
from apod.bench.unit import TableSource
from apod.data import DATASETS, load_dataset, split_rows
from apod.errors import ApodError
from apod.method.settings import PRESETS
from apod.randomness import generator

STRENGTHS: Mapping[str, float] = MappingProxyType({"meps": 0.5, "adult": 0.5})
"""Tasks that are shown, and the strength whose answers are."""

SELECTIONS: Mapping[str, str] = MappingProxyType({"pod-rs": "Random selection", "apod": "APOD"})

BACKGROUND = 500
"""People of the training part nobody was asked about, in light grey."""

_COLOURS = MappingProxyType({(0, 0): ORANGE, (0, 1): SKY, (1, 0): VERMILLION, (1, 1): BLUE})  # by label and group
_MARKERS = ("o", "P")  # by label


@dataclass(frozen=True, eq=False)
class _Picked:
    """One selection's answers: dataset row, label and group of each."""

    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]


def draw_annotated(results: Results, task: TaskResults, data_dir: Path | None) -> Sketch:
    """Both selections, all answers above and those with label 1 below, in one map of the training part."""
    strength = STRENGTHS[task.name]
    seed, picked = _answers(results, task, strength)
    embeddings = embeddings_of(results.folder, task.name, seed, data_dir)
    last = max(int(selection.rows.max()) for selection in picked.values())
    if last >= len(embeddings):
        raise NothingToDraw(f"the body of seed {seed} has {len(embeddings)} rows and an answer is about row {last}")
    places, background = _map(embeddings, task.name, seed, picked)
    figure = new_figure(COLUMN, 3.9)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for column, (name, selection) in enumerate(picked.items()):
        for row, positives in enumerate((False, True)):
            _scatter(panels[row, column], selection, places, background, positives)
        panels[0, column].set_title(SELECTIONS[name])
    panels[0, 0].set_ylabel("all answers")
    panels[1, 0].set_ylabel(f"y = 1 ({DATASETS[task.name].label_names[1]})")
    legend_below(figure, 2, _legend(task))
    return Sketch(figure, _caption(task, strength, seed, picked))


def _answers(results: Results, task: TaskResults, strength: float) -> tuple[int, dict[str, _Picked]]:
    """The first seed with the answers of both selections."""
    answers = results.answers
    for seed in task.seeds if not answers.empty else ():
        of_seed = answers[(answers["dataset"] == task.name) & (answers["seed"] == seed)]
        of_seed = of_seed[np.isclose(of_seed["value"], strength)]
        picked = {name: _picked(of_seed[of_seed["method"] == name]) for name in SELECTIONS}
        if all(len(selection.rows) for selection in picked.values()):
            return seed, picked
    raise NothingToDraw(f"no seed has the answers of {' and '.join(SELECTIONS)} at strength {strength:g}")


def _picked(answers: pd.DataFrame) -> _Picked:
    rows, labels, groups = (answers[name].to_numpy(dtype=np.int64) for name in ("row", "label", "group"))
    return _Picked(rows, labels, groups)


def embeddings_of(folder: Path, name: str, seed: int, data_dir: Path | None) -> FloatArray:
    """(n, M) as the bench kept them."""
    files = sorted((folder / "bodies").glob(f"{name}-{seed}-*.npy"))
    if len(files) > 1:
        files = _of_this_data(files, name, data_dir)
    if not files:
        raise NothingToDraw(f"bodies/{name}-{seed}-*.npy, the embeddings, are not in the results folder")
    try:
        return np.asarray(np.load(files[0], allow_pickle=False), dtype=np.float64)
    except (ValueError, OSError, EOFError) as error:
        raise NothingToDraw(f"{files[0].name} cannot be read") from error


def _of_this_data(files: list[Path], name: str, data_dir: Path | None) -> list[Path]:
    """Of several bodies, the one of the data as it is now, under any preset."""
    try:
        source = TableSource(load_dataset(name, data_dir=data_dir))
    except ApodError as error:
        raise NothingToDraw(f"there are {len(files)} bodies of one seed, and no data to tell them apart") from error
    current = {source.fingerprint(settings) for settings in PRESETS.values()}
    return [file for file in files if file.stem.rsplit("-", 1)[1] in current]


def _map(
    embeddings: FloatArray, name: str, seed: int, picked: Mapping[str, _Picked]
) -> tuple[dict[int, FloatArray], FloatArray]:
    """Places in the plane: of every answered row, and of a sample of the training part."""
    train = split_rows(name, len(embeddings), DATASETS[name].task.split, seed).train
    answered = np.unique(np.concatenate([selection.rows for selection in picked.values()]))
    others = np.setdiff1d(train, answered)
    sample = generator(seed, "t-SNE background", name).choice(others, min(BACKGROUND, len(others)), replace=False)
    people = np.concatenate([answered, np.sort(sample)])
    values = embeddings[people]
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    with threadpool_limits(1):  # the same picture on any number of cores
        perplexity = min(30.0, (len(people) - 1) / 3)
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(values)
    places = {int(row): plane[k] for k, row in enumerate(answered)}
    return places, np.asarray(plane[len(answered) :], dtype=np.float64)


def _scatter(
    axes: Axes, selection: _Picked, places: Mapping[int, FloatArray], background: FloatArray, positives: bool
) -> None:
    axes.scatter(background[:, 0], background[:, 1], s=1.5, color=LIGHT, linewidths=0, zorder=1)
    for (label, group), colour in _COLOURS.items():
        chosen = selection.rows[(selection.labels == label) & (selection.groups == group)]
        if not len(chosen) or (positives and label == 0):
            continue
        at = np.stack([places[int(row)] for row in chosen])
        axes.scatter(
            at[:, 0], at[:, 1], s=17, color=colour, marker=_MARKERS[label], edgecolors="black", linewidths=0.4, zorder=3
        )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.margins(0.04)


def _legend(task: TaskResults) -> list[Line2D]:
    labels = DATASETS[task.name].label_names
    return [
        Line2D(
            [], [], color=colour, marker=_MARKERS[label], linestyle="none", markersize=4.5, markeredgecolor="black",
            markeredgewidth=0.4, label=f"{labels[label]}, {task.group_names[group]}",
        )
        for (label, group), colour in _COLOURS.items()
    ]  # fmt: skip


def _caption(task: TaskResults, strength: float, seed: int, picked: Mapping[str, _Picked]) -> str:
    counts = []
    for name, selection in picked.items():
        cells = [
            f"{int(((selection.labels == y) & (selection.groups == a)).sum())} of y = {y}, {task.group_names[a]}"
            for y, a in _COLOURS
        ]
        counts.append(f"{SELECTIONS[name]} ({METHODS[name].title}): {', '.join(cells)}")
    return (
        f"{task.title}, seed {seed}, strength {strength:g}: t-SNE of the annotated people, all above, those with label "
        f"1 below; grey: a sample of the training part. {'; '.join(counts)}."
    )
