"""One unit of work: one dataset and one seed, where its embeddings come from, all requested methods and values."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from apod.bench.arm import Arm, RunName, Unit
from apod.bench.arms import ARMS
from apod.bench.methods import NONE, PARTIAL
from apod.bench.store import NUMBERS, Part, Row
from apod.data import DATASETS, Dataset, Split, load_dataset, split_rows
from apod.data.dataset import UNKNOWN
from apod.data.files import table_name
from apod.data.own import FileColumns, load_file
from apod.data.pictures import CELEBA_GROUPS, celeba_content, load_celeba
from apod.errors import InputError, UnknownName
from apod.fairness.metrics import METRICS, GroupCounts, group_counts
from apod.files import digest, replacing
from apod.method.checks import answers_allowed
from apod.method.choice import BestHeads, RoundScores, score_heads
from apod.method.pod import Training, pretrain_head
from apod.method.prepare import make_pool, prepare
from apod.method.settings import Settings
from apod.models.embedder import Embedder
from apod.models.embedders import open_picture_embedder
from apod.models.embedding import embed_content

Progress = Callable[[int, int, str], None]


class Source(Protocol):
    """One task of the comparison.

    Invariants: `fingerprint` changes with anything that could change the embeddings, labels or groups, and with
    nothing else; `embeddings` gives the same values for the same seed, from `folder` where they were kept.
    """

    @property
    def dataset(self) -> Dataset:
        """Labels, groups and task; a picture task has no feature columns."""
        ...

    def fingerprint(self, settings: Settings) -> str:
        """Of the data and of how the body is trained."""
        ...

    def split(self, seed: int) -> Split:
        """The three parts."""
        ...

    def embeddings(self, settings: Settings, seed: int, folder: Path, progress: Progress) -> Tensor:
        """(n, M) of all rows, by a body trained on the training part."""
        ...


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table: encoded by its training part, embedded by a perceptron."""

    dataset: Dataset

    def fingerprint(self, settings: Settings) -> str:
        """Of features, labels, groups and the body's settings."""
        features = pd.util.hash_pandas_object(self.dataset.features, index=False).to_numpy().tobytes()
        body = [settings.body, settings.body_epochs, settings.batch_size]
        return _digest(self.dataset, repr(body).encode(), features)

    def split(self, seed: int) -> Split:
        """By seed and dataset."""
        return split_rows(self.dataset.key, len(self.dataset), self.dataset.task.split, seed)

    def embeddings(self, settings: Settings, seed: int, folder: Path, progress: Progress) -> Tensor:
        """The body is trained once per seed; its embeddings are kept in the folder."""
        kept = folder / f"{self.dataset.name}-{seed}-{self.fingerprint(settings)}.npy"
        with suppress(OSError, ValueError, EOFError):  # not there, or damaged: it is made anew
            return torch.from_numpy(np.load(kept, allow_pickle=False))
        embeddings = prepare(self.dataset, settings, seed, progress).embeddings
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as file:
            np.save(file, embeddings.numpy(), allow_pickle=False)
        return embeddings


@dataclass(frozen=True)
class OwnTable:
    """A user's own table as a task: where it is, what its columns are, how many answers a method may ask for."""

    path: Path
    columns: FileColumns
    budget: int | float | None = None

    @property
    def name(self) -> str:
        """What it is called in the results, where no other task is called so."""
        name = table_name(self.path)
        return f"own-{name}" if name in DATASETS or name in CELEBA_GROUPS else name

    def source(self) -> TableSource:
        """The rows whose group is on record: methods that know everybody's group, and the measures, need it."""
        if self.columns.sensitive is None:
            raise InputError("A comparison needs recorded groups: name their column (--sensitive).")
        found = load_file(self.path, self.columns)
        task = found.task if self.budget is None else replace(found.task, budget=self.budget)
        known = np.flatnonzero(found.groups != UNKNOWN)
        left_out = len(found) - len(known)
        notes = (f"{left_out} rows without a recorded group are left out.",) if left_out else ()
        dataset = replace(
            found,
            name=self.name,
            task=task,
            features=found.features.iloc[known].reset_index(drop=True),
            labels=found.labels[known],
            groups=found.groups[known],
            rows=found.rows[known],
            notes=(*found.notes, *notes),
        )
        return TableSource(dataset)


class PictureSource:
    """A CelebA task: both share pictures, split and body: trained without any label, or pre-trained (an embedder)."""

    def __init__(
        self, task: str, data_dir: Path | None, skip_bad: bool = False, embedder: Embedder | None = None
    ) -> None:
        from apod.models.picture_training import ImageSettings

        self._settings, self._embedder, self._data_dir = ImageSettings(), embedder, data_dir
        task_name: Literal["hair", "young"] = "hair" if task == "celeba-hair" else "young"
        self._set = load_celeba(task_name, data_dir, size=self._settings.size, skip_bad=skip_bad)
        self.dataset = self._set.dataset(np.empty((len(self._set), 0), dtype=np.float32))

    def fingerprint(self, settings: Settings) -> str:
        """Of pictures, labels, groups and the picture body's settings, or the embedder."""
        body = repr(self._settings) if self._embedder is None else self._embedder.fingerprint
        return _digest(self.dataset, body.encode(), self._set.pictures.tobytes())

    def split(self, seed: int) -> Split:
        """The same for both tasks."""
        return self._set.split(seed)

    def embeddings(self, settings: Settings, seed: int, folder: Path, progress: Progress) -> Tensor:
        """Trained once per seed for both tasks, resumed where it was interrupted, kept by content; of an embedder the
        same for all seeds but for the training part's mean and deviation: columns keep their proportions."""
        from apod.models.picture_training import image_embeddings

        train = self.split(seed).train
        if self._embedder is not None:
            content = celeba_content(self._data_dir, self._set.names)
            found = embed_content(self._embedder, content, folder, progress)
            if found.unusable:
                raise InputError(f"{found.names(content)}. Replace them.")
            centred = found.rows - found.rows[train].mean(axis=0)
            return torch.from_numpy(centred / max(float(np.sqrt((centred[train] ** 2).mean())), 1e-12))
        return torch.from_numpy(image_embeddings(self._set.pictures, train, self._settings, seed, folder, progress))


def _digest(dataset: Dataset, *parts: bytes) -> str:
    return digest(repr([dataset.name, dataset.task]), dataset.labels, dataset.groups, *parts)


def load_source(name: str, data_dir: Path | None, skip_bad: bool = False, embed: str | None = None) -> Source:
    """The task of this name; an unknown one suggests the nearest. `skip_bad`: leave out pictures of no use · embed: the
    picture embedder, in the place of a body that is trained."""
    if name in CELEBA_GROUPS:
        return PictureSource(name, data_dir, skip_bad, None if embed is None else open_picture_embedder(embed))
    if name not in DATASETS:
        raise UnknownName("dataset", name, [*DATASETS, *CELEBA_GROUPS])
    return TableSource(load_dataset(name, data_dir=data_dir))


SCALARS = ("accuracy", "balanced_accuracy", "eop", "delta_eo", "gap", "demographic_parity_difference",
           "equalized_odds_difference")  # fmt: skip


@dataclass(frozen=True, eq=False)
class UnitData:
    """Embeddings of one dataset under one seed, ready to train heads on."""

    dataset: Dataset
    split: Split
    embeddings: Tensor  # (n, M)
    seed: int
    fingerprint: str  # of the data and the body

    def unit(self, training: Training) -> Unit:
        """What the arms start from."""
        pool = make_pool(self.dataset, self.split, self.embeddings, self.seed)
        n_train = len(self.split.train)
        budget = answers_allowed(self.dataset.task.budget, n_train, pool.n_groups)
        groups = self.dataset.groups[self.split.train]
        return Unit(pool, training, pretrain_head(pool, training), budget, groups)


def run_key(data_fingerprint: str, seed: int, training: Training, run: RunName) -> str:
    """Content key of a run: whatever could change its numbers, and nothing else."""
    method = [run.method.name, run.method.trainer, run.method.selector, run.method.upfront]
    facts = [NUMBERS, data_fingerprint, seed, asdict(training), method, run.value]
    return digest(json.dumps(facts, sort_keys=True))


def run_arm(
    data: UnitData,
    unit: Unit,
    trainer: str,
    runs: Sequence[RunName],
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> Part:
    """Train all runs of one trainer together; an exception becomes a failed row of each, never a missing one."""
    start = time.perf_counter()
    heads = [identity(data.dataset.name, data.fingerprint, data.seed, unit.training, run) for run in runs]
    try:
        recorder = ArmRecorder(data, unit, ARMS[trainer](unit, runs), heads)
        total = unit.rounds()
        for done in range(1, total + 1):
            recorder.advance()
            progress(done, total, f"{trainer}, {len(runs)} heads, round")
        part = recorder.part()
    except Exception as error:  # noqa: BLE001  recorded, not hidden
        part = failed_part(heads, error)
    seconds = (time.perf_counter() - start) / len(runs)
    return Part([{**row, "seconds": seconds} for row in part.runs], part.rounds, part.answers)


def failed_part(heads: Sequence[Row], error: Exception) -> Part:
    """What is on record of runs that failed."""
    return Part([{**head, "status": "failed", "error": f"{type(error).__name__}: {error}"} for head in heads], [], [])


def identity(dataset: str, fingerprint: str, seed: int, training: Training, run: RunName) -> Row:
    """What a run is, in every table."""
    return {
        "dataset": dataset,
        "seed": seed,
        "method": run.method.name,
        "value": run.value,
        "annotation": run.method.annotation,
        "key": run_key(fingerprint, seed, training, run),
    }


class ArmRecorder:
    """Moves an arm on and keeps what the test part says of every round; decides on the validation part only."""

    def __init__(self, data: UnitData, unit: Unit, arm: Arm, heads: Sequence[Row]) -> None:
        self._data, self._unit, self._arm, self._heads = data, unit, arm, heads
        self._best, self._test = BestHeads(arm.heads), data.embeddings[data.split.test]
        self._knows = [run.method.annotation != NONE for run in arm.runs]  # anybody's group
        self._counts: list[GroupCounts] = []
        self._scores: list[RoundScores] = []
        self._answered: list[list[int]] = []

    def advance(self) -> None:
        """One round: train, score on the validation part, count on the test part."""
        self._arm.advance()
        heads, pool = self._arm.heads, self._unit.pool
        membership = self._arm.validation_membership()
        scores = score_heads(pool, heads, self._penalised(), membership)
        self._best.update(heads, scores, len(self._scores))
        self._scores.append(scores)
        predicted = (heads.margins(self._test) > 0).numpy()
        self._counts.append(self._test_counts(predicted))
        self._answered.append([len(answers) for answers in self._arm.answers()])

    def _penalised(self) -> Tensor:
        """Head selection keeps a head by accuracy alone where its method uses no groups."""
        return torch.tensor(self._knows, dtype=torch.float32)

    def _test_counts(self, predicted: np.ndarray[Any, np.dtype[np.bool_]]) -> GroupCounts:
        dataset, rows = self._data.dataset, self._data.split.test
        return group_counts(dataset.labels[rows], predicted, dataset.groups[rows], len(dataset.group_names))

    def part(self) -> Part:
        """Rows of runs (each at its best round on the validation part), of all rounds, and of all answers."""
        runs, rounds, answers = [], [], []
        given, metrics = self._arm.answers(), [metric_rows(counts) for counts in self._counts]  # by round and run
        for k, head in enumerate(self._heads):
            for number, answered in enumerate(self._answered):
                rounds.append({**head, "round": number, "answered": answered[k], **metrics[number][k]})
            kept = int(self._best.round[k])
            validation = self._scores[kept]
            runs.append(
                {
                    **head,
                    "status": "ok",
                    "error": None,
                    "round": kept,
                    "rounds": len(self._counts),
                    "answered": len(given[k]),
                    "validation_accuracy": float(validation.accuracy[k]),
                    "validation_fairness": float(validation.fairness[k]) if self._knows[k] else float("nan"),
                    "validation_score": float(validation.score[k]),
                    **metrics[kept][k],
                }
            )
            if self._arm.runs[k].method.annotation == PARTIAL:
                answers += answer_rows(self._data, head, given[k].rows, given[k].groups)
        return Part(runs, rounds, answers)


def answer_rows(data: UnitData, head: Row, rows: Sequence[int], groups: Sequence[int]) -> list[Row]:
    """Answers of one run in their order: about which rows of the training part, and what they said."""
    train, dataset = data.split.train, data.dataset
    return [
        {**head, "order": order, "row": int(train[row]), "group": group, "label": int(dataset.labels[train[row]])}
        for order, (row, group) in enumerate(zip(rows, groups, strict=True))
    ]


def metric_rows(counts: GroupCounts) -> list[Row]:
    """All metrics of every decision that was counted."""
    columns = {name: METRICS[name](counts) for name in SCALARS}
    for rate in ("tpr", "fpr", "selection_rate"):
        columns |= {f"{rate}_{group}": values for group, values in enumerate(METRICS[rate](counts).T)}
    columns |= {f"n_{group}": n for group, n in enumerate(counts.n.T)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]
