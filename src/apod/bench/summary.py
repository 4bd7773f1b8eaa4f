"""What the results of a bench say, as a document: who was compared, what came out, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from apod.bench.document import Document, Picture, Section, Table
from apod.bench.methods import METHODS, PAPER
from apod.bench.results import COLLAPSE, TASK_TITLES, Results, TaskResults
from apod.bench.statistics import ACCURACY_GIVEN_UP, BOOTSTRAP_SEEDS, EXTRA_GAP, Comparison, compare
from apod.bench.summary_tables import (
    DAGGER,
    DASH,
    DOUBLE,
    MARKS,
    at_choice_cell,
    chosen_table,
    collapse_table,
    differences_table,
    failed_table,
    interval,
    marks,
    matched_table,
    matrix,
    number,
    points_table,
    published_table,
)

READING = (
    "Every number is of the test part, per run, then averaged over seeds; every run is at the round its validation "
    "part chose. EOP is the ratio of the true positive rates, group 0 over group 1 (1 is fair); signed Δ-EO is "
    "(TPR0 − TPR1) + (FPR0 − FPR1) (0 is fair); the gap is |TPR0 − TPR1| + |FPR0 − FPR1|. In means of signed numbers "
    "and of ratios, runs of opposite sign cancel; in the gap they cannot. “EOP, ratio of averages” divides TPRs that "
    "were averaged over seeds first: it hides the most and is there for comparison with published figures only.",
    f"Chosen points: per seed, of the values whose validation accuracy is at most {ACCURACY_GIVEN_UP:g} below that of "
    "Vanilla, the fairest on the validation part, whose groups are proxies; by accuracy where a method has no groups "
    "or its fairness is undefined; if no value keeps the accuracy, the most accurate. The test part chooses nothing.",
    "Share of the gap closed: (gap of Vanilla − gap of the method) / (gap of Vanilla − gap of POD with all groups "
    "known), all at their chosen points, from means over seeds; 1 is as good as knowing everybody's group, negative is "
    "harm. A dash where knowing all groups closes nothing.",
    "Area dominated: the area of the accuracy-gap plane in which some mean point of the curve is at least as good in "
    f"both, down to the accuracy of the commoner label for everybody and up to Vanilla's gap + {EXTRA_GAP:g}. "
    "Predicting one label for everybody adds nothing to it. Unlike the chosen points it takes every point at its test "
    "value, so it describes curves, not what a user would have got.",
    f"{DOUBLE} with a number: in so many seeds no value of the method kept the accuracy.",
    f"{DAGGER} with a number: in so many seeds the method collapsed, that is {COLLAPSE}. "
    "Such a classifier has a gap near 0 and is of no use.",
    "POD+CA and POD+Individual selection are one rule under two names; its row is POD+CA.",
)


def build_summary(results: Results, pictures: Sequence[Picture], notes: Sequence[str]) -> Document:
    """The summary of these results with these pictures; `notes` say what could not be drawn."""
    comparisons = [compare(task) for task in results.tasks.values()]
    sections = [_contents(results, notes), Section("How to read it", "reading", points=READING)]
    general = tuple(picture for picture in pictures if picture.task is None)
    sections.append(Section("At a glance", "glance", tables=tuple(_glance(comparisons)), pictures=general))
    for comparison in comparisons:
        of_task = tuple(picture for picture in pictures if picture.task == comparison.task.name)
        sections.append(_task_section(comparison, of_task))
    if len(results.failed):
        sections.append(Section("Failed runs", "failed", tables=(failed_table(results.failed),)))
    return Document("The comparison: accuracy and fairness with few annotations", tuple(sections))


def _contents(results: Results, notes: Sequence[str]) -> Section:
    tasks = results.tasks.values()
    runs = sum(int(method.present.sum()) for task in tasks for method in task.methods.values())
    count = f"{len(tasks)} task" + ("s" if len(tasks) != 1 else "")
    text = f"{runs} finished runs, {len(results.failed)} failed, on {count}."
    rows = tuple(
        (task.title, task.name, {"eop": "EOP", "delta_eo": "Δ-EO"}[task.metric], str(len(task.seeds)),
         str(len(task.methods)), " / ".join(task.group_names))
        for task in tasks
    )  # fmt: skip
    table = Table(
        "Tasks", ("task", "name", "metric of its figure", "seeds", "methods", "group 0 / group 1"), rows, words=True
    )
    points = (*_missing(results), *notes)
    return Section("What is here", "contents", (text,), points, (table,))


def _missing(results: Results) -> list[str]:
    """What a full comparison would have and these results lack."""
    lines = []
    absent = [title for name, title in TASK_TITLES.items() if name not in results.tasks]
    if absent:
        lines.append(f"No finished runs on: {', '.join(absent)}.")
    if len(results.failed):
        where = [f"{method} on {dataset}" for dataset, method in results.failed[["dataset", "method"]].to_numpy()]
        listed = ", ".join(f"{place} ({n})" for place, n in Counter(where).items())
        lines.append(f"Failed runs, in no mean: {listed}; their errors are at the end.")
    for task in results.tasks.values():
        lines += _missing_of_task(task)
    return lines


def _missing_of_task(task: TaskResults) -> list[str]:
    lines = []
    absent = [METHODS[name].title for name in PAPER if name not in task.methods]
    if absent:
        lines.append(f"{task.title}: no finished runs of {', '.join(absent)}.")
    partial = [
        f"{runs.title} ({int(runs.present.sum())} of {runs.present.size})"
        for runs in task.methods.values()
        if not runs.present.all()
    ]
    if partial:
        lines.append(f"{task.title}: not every value has a finished run in every seed: {', '.join(partial)}.")
    n = len(task.seeds)
    if n == 1:
        lines.append(f"{task.title}: one seed, so no standard deviations and no intervals; nothing follows from it.")
    elif n < BOOTSTRAP_SEEDS:
        lines.append(f"{task.title}: {n} seeds; bootstrap intervals need {BOOTSTRAP_SEEDS}.")
    if "vanilla" not in task.methods:
        lines.append(f"{task.title}: without Vanilla no points are chosen, and there are no shares and areas.")
    return lines


def _glance(comparisons: Sequence[Comparison]) -> list[Table]:
    if not any(comparison.chosen for comparison in comparisons):
        return []
    return [
        matrix("Gap at the chosen points (lower is better)", comparisons, at_choice_cell("gap"), [MARKS]),
        matrix("Accuracy at the chosen points", comparisons, at_choice_cell("accuracy"), [MARKS]),
        matrix("Balanced accuracy at the chosen points", comparisons, at_choice_cell("balanced_accuracy"), [MARKS]),
        matrix("Share of the gap closed", comparisons, _share_cell, [MARKS]),
        matrix("Area dominated (× 1000)", comparisons, lambda c, name: number(1000 * c.area(name), 2)),
        matrix("Gap − gap of APOD at the chosen points (positive: APOD fairer)", comparisons, _to_apod_cell, [MARKS]),
    ]


def _share_cell(comparison: Comparison, method: str) -> str:
    span = (0.0, math.nan, math.nan) if method == "vanilla" else comparison.share(method)
    return interval(span, 2) + marks(comparison, method)


def _to_apod_cell(comparison: Comparison, method: str) -> str:
    if method == "apod":
        return DASH
    return interval(comparison.change(method, "apod", "gap")) + marks(comparison, method)


def _task_section(comparison: Comparison, pictures: tuple[Picture, ...]) -> Section:
    task = comparison.task
    tables: list[Table] = []
    if comparison.chosen:
        tables.append(chosen_table(comparison))
        if "apod" in task.methods:
            tables.append(differences_table(comparison))
    if (collapsed := collapse_table(task)) is not None:
        tables.append(collapsed)
    if task.name == "meps":
        tables.append(published_table(comparison))
    if "apod" in task.methods:
        tables += [matched_table(comparison, "gap", "gap"), matched_table(comparison, "accuracy", "accuracy")]
    tables.append(points_table(task))
    return Section(task.title, task.name, tables=tuple(tables), pictures=pictures)
