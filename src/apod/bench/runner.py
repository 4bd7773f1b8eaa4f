"""`apod bench`: datasets x methods x values x seeds, resumable, spread over processes by joblib."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import current_process
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed

from apod.bench.arm import RunName
from apod.bench.corrections import CORRECTION, run_corrections
from apod.bench.fairlearn_arms import FAIRLEARN, load_fairlearn
from apod.bench.methods import PAPER, Method, resolve
from apod.bench.store import Part, ResultStore
from apod.bench.unit import OwnTable, Progress, Source, UnitData, failed_part, identity, load_source, run_arm, run_key
from apod.data import Dataset
from apod.data.pictures import CELEBA_GROUPS
from apod.errors import InputError
from apod.files import digest
from apod.method.checks import answers_allowed
from apod.method.pod import Training
from apod.method.settings import PRESETS, Settings
from apod.processes import safe_children

TABLES = ("adult", "meps", "loan", "german", "bank")
"""The datasets that are tables; the CelebA tasks need pictures."""
LOOK_EVERY = 0.5  # seconds, at what the workers are at


@dataclass(frozen=True)
class BenchPlan:
    """What is to be compared."""

    datasets: tuple[str, ...] = TABLES
    methods: tuple[Method, ...] = field(default_factory=lambda: tuple(resolve(PAPER)))
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    strengths: tuple[float, ...] | None = None  # instead of the table's, for methods drawn by a strength
    settings: Settings = field(default_factory=lambda: PRESETS["paper"])
    data_dir: Path | None = None
    retry_failed: bool = False
    skip_bad: bool = False  # leave out pictures that do not decode or have no attributes
    own: OwnTable | None = None  # the user's table, one of the datasets by its name
    embed: str | None = None  # what embeds pictures, in the place of a body trained on them

    def __post_init__(self) -> None:
        if not (self.datasets and self.methods and self.seeds):
            raise InputError("Nothing to compare: name at least one dataset, one method and one seed.")
        if self.strengths is not None and not (self.strengths and all(0 < s < float("inf") for s in self.strengths)):
            raise InputError(f"Strengths must be positive numbers, got {list(self.strengths)}.")
        if self.embed is not None and not set(self.datasets) & set(CELEBA_GROUPS):
            raise InputError(f"--embed is for pictures: name a dataset of them ({', '.join(CELEBA_GROUPS)}).")

    def source(self, name: str) -> Source:
        """The task of this name."""
        if self.own is not None and name == self.own.name:
            return self.own.source()
        return load_source(name, self.data_dir, self.skip_bad, self.embed)

    def runs(self) -> list[RunName]:
        """Every (method, value) of one unit."""
        return [RunName(method, value) for method in self.methods for value in self._values(method)]

    def _values(self, method: Method) -> tuple[float, ...]:
        by_strength = method.value_name == "strength" and method.name != "vanilla"
        return tuple(sorted(set(self.strengths))) if by_strength and self.strengths is not None else method.values

    def missing(self, source: Source, seed: int, done: set[str]) -> list[RunName]:
        """Runs of one unit that are not on record."""
        fingerprint, training = source.fingerprint(self.settings), self.training(source.dataset)
        return [run for run in self.runs() if run_key(fingerprint, seed, training, run) not in done]

    def training(self, dataset: Dataset) -> Training:
        """The heads of this dataset."""
        return Training.from_settings(self.settings, dataset.task.hidden)


def run_bench(
    plan: BenchPlan,
    folder: Path,
    jobs: int | None = None,
    progress: Progress | None = None,
    backend: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> ResultStore:
    """Run whatever of the plan is not on record in the folder yet; gives the store with all results.

    `note` hears what the data is worth knowing of: rows that were left out, pictures that are missing.
    Every process trains on one thread, so the numbers do not depend on `jobs`, nor on where joblib's `backend` runs
    them; all its machines must see the folder.
    """
    processes = jobs or os.cpu_count() or 1
    # all names, packages, files and budgets are checked before any work begins or anything is written
    if FAIRLEARN.intersection(method.trainer for method in plan.methods):
        load_fairlearn("reductions")
    sources = {name: plan.source(name) for name in dict.fromkeys(plan.datasets)}
    for source in sources.values():
        for text in source.dataset.notes:
            note(f"{source.dataset.name}: {text}")
        _check(source, plan.seeds)
    store = ResultStore(folder).open()
    if plan.own is not None:
        store.name_groups(plan.own.name, sources[plan.own.name].dataset.group_names)
    done = store.finished(plan.retry_failed)
    # the tasks of a seed may share a body: side by side, one would wait for the other to train it
    units = dict.fromkeys((name, seed) for name in plan.datasets for seed in plan.seeds)
    missing = {(name, seed): plan.missing(sources[name], seed, done) for name, seed in units}
    stop = _watch(store, sum(len({run.method.trainer for run in runs}) for runs in missing.values()), progress)
    del sources  # the workers load their own
    try:
        tasks = (delayed(run_unit)(plan, folder, *piece, os.getpid()) for piece in _pieces(missing, processes))
        with safe_children():
            Parallel(n_jobs=processes, batch_size=1, backend=backend)(tasks)
    finally:
        stop()
    store.combine()
    return store


def _check(source: Source, seeds: Sequence[int]) -> None:
    """Whether the budget can be asked for and there is something to tell apart: a body may take long to train."""
    dataset = source.dataset
    for seed in seeds:
        answers_allowed(dataset.task.budget, len(source.split(seed).train), len(dataset.group_names))
    if len(np.unique(dataset.labels)) < 2:
        raise InputError(f"All of {dataset.name} has one label: there is nothing to predict.")


def _pieces(missing: Mapping[tuple[str, int], Sequence[RunName]], processes: int) -> list[tuple[str, int, str | None]]:
    """The work in the order it is handed out: units, and at last, trainer by trainer, those that do not go round."""
    units = [unit for unit, runs in missing.items() if runs]
    whole = len(units) - len(units) % processes
    pieces: list[tuple[str, int, str | None]] = [(name, seed, None) for name, seed in units[:whole]]
    for unit in units[whole:]:
        heads = Counter(run.method.trainer for run in missing[unit])
        pieces += [(*unit, trainer) for trainer, _ in heads.most_common()]
    return pieces


def run_unit(
    plan: BenchPlan, folder: Path, name: str, seed: int, trainer: str | None = None, bench: int | None = None
) -> None:
    """All missing runs of one dataset and seed, or those of one trainer; each trainer's part is kept once finished.

    A process that joblib started for the bench of this id ends with it.
    """
    if bench is not None and current_process().name.startswith("LokyProcess"):
        _end_with(bench)
    torch.set_num_threads(1)
    store, source = ResultStore(folder), plan.source(name)
    training = plan.training(source.dataset)
    fingerprint = source.fingerprint(plan.settings)
    missing = plan.missing(source, seed, store.finished(plan.retry_failed))
    if trainer is not None:
        missing = [run for run in missing if run.method.trainer == trainer]
    if not missing:
        return

    def keep(trainer: str, part: Part) -> None:
        keys = digest("".join(row["key"] for row in part.runs), size=8)
        store.write(f"{name}-{seed}-{trainer}-{keys}", part)

    with store.reporting(", ".join(filter(None, [name, f"seed {seed}", trainer]))) as report:
        try:
            embeddings = source.embeddings(plan.settings, seed, folder / "bodies", report)
            data = UnitData(source.dataset, source.split(seed), embeddings, seed, fingerprint)
            unit = data.unit(training)
        except Exception as error:  # noqa: BLE001  recorded, and the other units go on
            heads = [identity(source.dataset.name, fingerprint, seed, training, run) for run in missing]
            keep("unprepared", failed_part(heads, error))
            return
        for one in dict.fromkeys(run.method.trainer for run in missing):
            runs = [run for run in missing if run.method.trainer == one]
            part = (
                run_corrections(data, unit, runs, report)
                if one == CORRECTION
                else run_arm(data, unit, one, runs, report)
            )
            keep(one, part)


@cache
def _end_with(parent: int) -> None:
    """Let this process end soon after its parent, however that ended: what it is at is not on record yet."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _watch(store: ResultStore, total: int, progress: Progress | None) -> Callable[[], None]:
    """Report finished parts and what the workers are at; gives the function that ends it."""
    if progress is None:
        return lambda: None
    ended = threading.Event()
    before = store.count()

    def tell() -> None:
        progress(store.count() - before, total, " · ".join(store.under_way()))

    def look() -> None:
        while not ended.wait(LOOK_EVERY):
            tell()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()
        tell()

    return stop
