"""Where a unit's embeddings come from: a table with a perceptron body, or pictures with a ResNet-18."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from apod.data import DATASETS, Dataset, Split, load_dataset, split_rows
from apod.data.dataset import UNKNOWN
from apod.data.files import table_name
from apod.data.own import FileColumns, load_file
from apod.data.pictures import CELEBA_GROUPS, load_celeba
from apod.errors import InputError, UnknownName
from apod.files import digest, replacing
from apod.method.prepare import prepare
from apod.method.settings import Settings

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
    """A CelebA task: both share pictures, split and body, which is trained without any label."""

    def __init__(self, task: str, data_dir: Path | None, skip_bad: bool = False) -> None:
        from apod.models.picture_training import ImageSettings

        self._settings = ImageSettings()
        task_name: Literal["hair", "young"] = "hair" if task == "celeba-hair" else "young"
        self._set = load_celeba(task_name, data_dir, size=self._settings.size, skip_bad=skip_bad)
        self.dataset = self._set.dataset(np.empty((len(self._set), 0), dtype=np.float32))

    def fingerprint(self, settings: Settings) -> str:
        """Of pictures, labels, groups and the picture body's settings."""
        return _digest(self.dataset, repr(self._settings).encode(), self._set.pictures.tobytes())

    def split(self, seed: int) -> Split:
        """The same for both tasks."""
        return self._set.split(seed)

    def embeddings(self, settings: Settings, seed: int, folder: Path, progress: Progress) -> Tensor:
        """Trained once per seed for both tasks, resumed where it was interrupted, kept by content."""
        from apod.models.picture_training import image_embeddings

        train = self.split(seed).train
        return torch.from_numpy(image_embeddings(self._set.pictures, train, self._settings, seed, folder, progress))


def _digest(dataset: Dataset, *parts: bytes) -> str:
    return digest(repr([dataset.name, dataset.task]), dataset.labels, dataset.groups, *parts)


def load_source(name: str, data_dir: Path | None, skip_bad: bool = False) -> Source:
    """The task of this name; an unknown one suggests the nearest. `skip_bad`: leave out pictures of no use."""
    if name in CELEBA_GROUPS:
        return PictureSource(name, data_dir, skip_bad)
    if name not in DATASETS:
        raise UnknownName("dataset", name, [*DATASETS, *CELEBA_GROUPS])
    return TableSource(load_dataset(name, data_dir=data_dir))
