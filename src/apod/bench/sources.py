"""Where a unit's embeddings come from: a table with a perceptron body, or pictures with a ResNet-18."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from apod.data import DATASETS, Dataset, Split, load_dataset, split_rows
from apod.data.pictures import CELEBA_GROUPS, load_celeba
from apod.errors import UnknownName
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
        """By seed and dataset name."""
        return split_rows(self.dataset.name, len(self.dataset), self.dataset.task.split, seed)

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
