"""From a dataset to frozen embeddings: split, encode, pre-train the body, embed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.data import Dataset, IntArray, Split, TableEncoder, split_rows
from apod.data.blocks import encode_numbers, fit_numbers, is_large, take_rows
from apod.data.dataset import check_parts
from apod.method.pool import Pool, mapped_tensor
from apod.method.proxy import inputs_for
from apod.method.settings import Settings
from apod.models.body import Body, EmbeddingBody
from apod.models.perceptron import pretrain_body

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dataset ready for Algorithm 1. The pool holds no groups."""

    dataset: Dataset
    split: Split
    encoder: TableEncoder
    body: Body
    embeddings: Tensor  # (n, M) of all rows
    pool: Pool
    inputs: Tensor | None = None  # (n, D) of all rows, where f_a reads them

    @property
    def test(self) -> Tensor:
        """(n_test, M) embeddings of the test part."""
        return self.embeddings[self.split.test]

    @property
    def seen_of_test(self) -> Tensor:
        """What f_a reads of the test part."""
        return self.test if self.inputs is None else self.inputs[self.split.test]


def prepare(dataset: Dataset, settings: Settings, seed: int, progress: Progress | None = None) -> Prepared:
    """Split by seed, fit the encoding and the body on the training part, embed all rows once."""
    split = split_rows(dataset.key, len(dataset), dataset.task.split, seed)
    check_parts(dataset, split)
    if settings.body == "precomputed" and is_large(len(dataset)):
        return _prepare_large(dataset, split, seed)
    encoder = TableEncoder(gaps=settings.body != "precomputed").fit(dataset.features.iloc[split.train])
    encoded = encoder.transform(dataset.features)
    train = encoded[split.train]
    body = table_body(
        train, encoder, dataset.labels[split.train], settings, dataset.task.embedding, seed, dataset.key, progress
    )
    embeddings = torch.from_numpy(body.embed(encoded))
    read = inputs_for(settings.f_a_reads, encoded, len(dataset.group_names))
    inputs = None if read is None else torch.from_numpy(read)
    pool = make_pool(dataset, split, embeddings, seed, inputs)
    return Prepared(dataset, split, encoder, body, embeddings, pool, inputs)


def _prepare_large(dataset: Dataset, split: Split, seed: int) -> Prepared:
    """The same for embeddings that need not fit in memory: scaled in sweeps, the parts taken in sweeps."""
    matrix = dataset.features.to_numpy()
    encoder = fit_numbers(take_rows(matrix, split.train))
    embeddings = encode_numbers(encoder, matrix)
    labels = torch.from_numpy(dataset.labels)
    pool = Pool(
        dataset=dataset.key,
        seed=seed,
        embeddings=mapped_tensor(take_rows(embeddings, split.train)),
        labels=labels[split.train],
        validation=mapped_tensor(take_rows(embeddings, split.validation)),
        validation_labels=labels[split.validation],
        n_groups=len(dataset.group_names),
        metric=dataset.task.metric,
    )
    return Prepared(dataset, split, encoder, EmbeddingBody(matrix.shape[1]), mapped_tensor(embeddings), pool)


def table_body(
    encoded: npt.NDArray[np.float32],
    encoder: TableEncoder,
    labels: IntArray,
    settings: Settings,
    width: int,
    seed: int,
    name: str,
    progress: Progress | None = None,
) -> Body:
    """The body for an encoded training part; none at all where its columns are embeddings already."""
    if settings.body == "precomputed":
        return EmbeddingBody(encoded.shape[1])
    supervised = settings.body == "cross_entropy"
    return pretrain_body(
        encoded,
        width=width,
        blocks=encoder.blocks_,
        labels=labels if supervised else None,
        method="cross_entropy" if supervised else "contrastive",
        epochs=settings.body_epochs,
        batch_size=settings.batch_size,
        seed=seed,
        name=name,
        progress=progress,
    )


def make_pool(dataset: Dataset, split: Split, embeddings: Tensor, seed: int, inputs: Tensor | None = None) -> Pool:
    """The training and validation parts as the mitigation may see them."""
    labels = torch.from_numpy(dataset.labels)
    return Pool(
        dataset=dataset.key,
        seed=seed,
        embeddings=embeddings[split.train],
        labels=labels[split.train],
        validation=embeddings[split.validation],
        validation_labels=labels[split.validation],
        n_groups=len(dataset.group_names),
        metric=dataset.task.metric,
        inputs=None if inputs is None else inputs[split.train],
        validation_inputs=None if inputs is None else inputs[split.validation],
    )
