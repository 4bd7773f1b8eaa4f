"""Common random numbers: which rows a training step sees and which units it drops.

Both depend on the seed, the dataset and the round alone, never on the method, the strength or the bank: all heads of
a seed share them, which makes comparisons paired, one mask serve the whole bank, and a head's result the same alone
or in company.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from apod.randomness import generator

STEPS_AT_ONCE = 256
"""Steps whose masks behind the mini-batch are drawn at a time: a million rows would need half a gigabyte."""


@dataclass(frozen=True)
class Step:
    """One training step: the mini-batch and the dropout masks of its rows and of the penalty's rows."""

    rows: Tensor  # (B,) indices into the training part
    masks: list[Tensor]  # per hidden layer (B + S, H), 0 or 1/(1-p)
    penalty_rows: Tensor | None = None  # (P,) places drawn among the rows of the penalty
    scale: float = 1.0  # 1/(1-p), the value of the masks where a unit is kept


@dataclass(frozen=True)
class Schedule:
    """The steps of one round of training.

    `own` rows stand behind each mini-batch (the annotated people, or each head's own). `draw` rows instead asks
    for that many pool rows per step, drawn without replacement, behind the mini-batch.
    """

    n: int
    hidden: Sequence[int]
    seed: int
    dataset: str
    round: str | int
    epochs: int = 10
    batch_size: int = 256
    dropout: float = 0.5
    own: int = 0
    draw: int = 0
    draw_from: int | None = None  # draw among so many rows instead of all n
    dtype: torch.dtype = torch.float32

    def __iter__(self) -> Iterator[Step]:
        for epoch in range(self.epochs):
            yield from self._epoch(epoch)

    def _epoch(self, epoch: int) -> Iterator[Step]:
        key = (self.dataset, self.round, epoch)
        order = torch.from_numpy(generator(self.seed, "batches", *key).permutation(self.n))
        batches = torch.split(order, self.batch_size)
        fronts = self._masks_in_front(batches, generator(self.seed, "dropout", *key))
        behind = self._masks_behind(len(batches), generator(self.seed, "dropout-penalty", *key))
        pool = generator(self.seed, "penalty-rows", *key)
        for rows, front, back in zip(batches, fronts, behind, strict=True):
            drawn = (
                torch.from_numpy(pool.choice(self.draw_from or self.n, self.draw, replace=False)) if self.draw else None
            )
            both = [torch.cat([a, b]) for a, b in zip(front, back, strict=True)] if self.own + self.draw else front
            yield Step(rows, both, drawn, 1 / (1 - self.dropout))

    def _masks_in_front(self, batches: Sequence[Tensor], rng: np.random.Generator) -> Iterator[list[Tensor]]:
        """Masks of the rows of each mini-batch: one stream, batch by batch and within it layer by layer."""
        place = 0
        for first in range(0, len(batches), STEPS_AT_ONCE):
            some = batches[first : first + STEPS_AT_ONCE]
            sizes = [len(rows) * width for rows in some for width in self.hidden]
            layers = iter(torch.split(self._kept(_words(rng, place, sum(sizes))), sizes))
            place += sum(sizes)
            for rows in some:
                yield [next(layers).view(len(rows), width) for width in self.hidden]

    def _masks_behind(self, steps: int, rng: np.random.Generator) -> Iterator[list[Tensor]]:
        """Masks (S, H) of the rows behind each mini-batch.

        The numbers are those of one draw of (S, steps, H): rows lead, so that more rows change no earlier one. Of a
        long epoch some steps are drawn at a time, each row's from its own place in the stream.
        """
        rows, width = self.own + self.draw, sum(self.hidden)
        for first in range(0, steps, STEPS_AT_ONCE):
            some = min(STEPS_AT_ONCE, steps - first)
            if some == steps:
                words = _words(rng, 0, rows * steps * width)
            else:
                places = [(row * steps + first) * width for row in range(rows)]
                words = np.empty((rows, some * width), dtype=np.uint32)
                for row, place in enumerate(places):
                    words[row] = _words(rng, place, some * width)
            drawn = self._kept(words).view(rows, some, width)
            masks = torch.split(drawn, list(self.hidden), dim=2)
            for step in range(some):
                yield [mask[:, step] for mask in masks]

    def _kept(self, words: npt.NDArray[np.uint32]) -> Tensor:
        """1/(1-p) where a unit is kept, with probability 1-p, else 0; float32 is written over the words.

        It is kept where `Generator.random(dtype=float32)` would have said p or more. Those numbers are the upper 24
        bits of the words; comparing the words themselves takes half the time.
        """
        dropped_below = math.ceil(float(np.float32(self.dropout)) * 2**24) << 8
        scale = np.dtype(str(self.dtype).removeprefix("torch.")).type(1 / (1 - self.dropout))
        place = words.view(np.float32) if scale.itemsize == words.itemsize else None
        return torch.from_numpy(np.multiply(words >= dropped_below, scale, out=place))


def _words(rng: np.random.Generator, place: int, count: int) -> npt.NDArray[np.uint32]:
    """Words `place` to `place + count` of a generator's stream; the generator itself stays where it is.

    PCG64 makes two of each of its steps, the lower half first, and can skip steps.
    """
    bits = np.random.PCG64(0)
    bits.state = rng.bit_generator.state  # type: ignore[assignment]
    bits.advance(place // 2)
    skipped = place % 2
    steps = bits.random_raw((skipped + count + 1) // 2)
    return steps.astype("<u8", copy=False).view("<u4")[skipped : skipped + count]
