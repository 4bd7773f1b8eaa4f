"""`apod figures`: every figure the results allow, and the summary that says what could not be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from apod.bench.document import Picture
from apod.bench.methods import CORRECTIONS, RIVALS
from apod.bench.results import Results, TaskResults, read_results
from apod.bench.summary import build_summary
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.bench.figures.style import Sketch


@dataclass(frozen=True, eq=False)
class _Job:
    """One figure: its file name without suffix, its task (none: of all), how to draw it."""

    name: str
    task: str | None
    title: str
    draw: Callable[[], Sketch]


def draw_figures(
    results: Path,
    out: Path,
    data_dir: Path | None = None,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> list[Path]:
    """Write every figure (SVG and PNG), summary.md and summary.html to `out`; gives the files.

    What the results do not hold is left out and named in the summary. `data_dir` is only read where a results folder
    has several bodies of one dataset and seed, to tell which belongs to the data.
    """
    if find_spec("matplotlib") is None:
        raise InputError("Matplotlib is not installed: pip install 'apod-fairness[bench]'.")
    from apod.bench.figures.style import NothingToDraw, paper_style, save

    read = read_results(results)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: name a folder for the figures.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write to {out} ({error.strerror}): choose another --out.") from None
    written: list[Path] = []
    pictures: list[Picture] = []
    notes: list[str] = []
    with paper_style():
        jobs = list(_jobs(read, data_dir))
        for done, job in enumerate(jobs):
            progress(done, len(jobs), job.title)
            try:
                sketch = job.draw()
            except NothingToDraw as missing:
                notes.append(f"{job.title} was not drawn: {missing}.")
                continue
            files = save(sketch.figure, out / job.name)
            written += files
            pictures.append(Picture(job.name, job.task, job.title, sketch.caption, files[0].read_bytes()))
    progress(len(jobs), len(jobs), "Summary")
    summary = build_summary(read, pictures, notes)
    for path, text in ((out / "summary.md", summary.markdown()), (out / "summary.html", summary.html())):
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _jobs(results: Results, data_dir: Path | None) -> Iterator[_Job]:
    from apod.bench.figures import curves

    tasks = list(results.tasks.values())
    yield _Job("overview", None, "Overview of RQ1", lambda: curves.draw_overview(tasks, None))
    yield _Job("overview-gap", None, "Overview of RQ1 by the gap", lambda: curves.draw_overview(tasks, "gap"))
    for task in tasks:
        yield from _curve_jobs(task)
        yield from _other_jobs(results, task, data_dir)


def _curve_jobs(task: TaskResults) -> Iterator[_Job]:
    from apod.bench.figures.curves import CORRECTED, RIVALRY, RQ1, RQ2, draw_curves

    shown: dict[str, tuple[str, ...]] = {"RQ1": RQ1, "RQ2": RQ2}
    if any(name in task.methods for name in RIVALS):
        shown["Rivals"] = RIVALRY
    if any(name in task.methods for name in CORRECTIONS):
        shown["Corrections"] = CORRECTED
    for question, methods in shown.items():
        for metric in (task.metric, "gap"):
            by_gap = metric == "gap"
            yield _Job(
                f"{question.lower()}-{task.name}{'-gap' if by_gap else ''}",
                task.name,
                f"{question} on {task.title}{' by the gap' if by_gap else ''}",
                lambda methods=methods, metric=metric: draw_curves(task, methods, metric),  # type: ignore[misc]
            )


def _other_jobs(results: Results, task: TaskResults, data_dir: Path | None) -> Iterator[_Job]:
    from apod.bench.figures import ablation, annotated, rounds

    if task.name in rounds.STRENGTHS:
        yield _Job(f"rq3-{task.name}", task.name, f"RQ3 on {task.title}", lambda: rounds.draw_rounds(results, task))
    if task.name == "meps":
        yield _Job("rq4-meps", task.name, f"RQ4 on {task.title}", lambda: ablation.draw_ablation(task))
    if task.name in annotated.STRENGTHS:
        title = f"Annotated people of {task.title}"
        yield _Job(f"tsne-{task.name}", task.name, title, lambda: annotated.draw_annotated(results, task, data_dir))
