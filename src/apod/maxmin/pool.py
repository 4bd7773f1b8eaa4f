"""A pool in one or many parts, as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from apod.data.parts import Parts
from apod.maxmin.bounds import Geometry, Int, Mask, Stored
from apod.maxmin.contest import Winner
from apod.maxmin.references import References
from apod.maxmin.rows import Rows
from apod.maxmin.shard import Shard

T = TypeVar("T")


class Pool:
    """Parts that follow each other without gaps and share one shift, and the answers they are measured against.

    `each` is the only way anything reaches the parts: where they live elsewhere, that one method is another.
    """

    @classmethod
    def of(cls, parts: Parts, threads: int | None = None) -> Pool:
        """The parts of a matrix in files, one after the other on this machine."""
        rows = [Rows(part.open(), threads) for part in parts.parts]
        shift = np.average([one.middle() for one in rows], axis=0, weights=[len(one) for one in rows])
        return cls([Shard(one, shift, part.start) for one, part in zip(rows, parts.parts, strict=True)])

    def __init__(self, shards: Sequence[Shard], references: References | None = None) -> None:
        self._shards = list(shards)
        self.starts = [shard.start for shard in shards]
        self.ends = [shard.start + len(shard) for shard in shards]
        self.geometry: Geometry = shards[0].geometry
        self.width, self.dtype = shards[0].width, shards[0].dtype
        self.references = References.empty(self.width, self.dtype) if references is None else references

    def __len__(self) -> int:
        return self.ends[-1]

    def each(self, ask: Callable[[Shard], T]) -> list[T]:
        """What every part answers, in their order."""
        return [ask(shard) for shard in self._shards]

    @staticmethod
    def part(mask: Mask | None, shard: Shard) -> Mask | None:
        """A shard's part of a mask over the pool."""
        return None if mask is None else mask[shard.start : shard.start + len(shard)]

    def vectors(self, rows: Sequence[int] | Int) -> Stored:
        """(len(rows), d) stored vectors of these rows, from the parts that hold them."""
        wanted = np.asarray(rows, dtype=np.int64)
        result: Stored = np.empty((len(wanted), self.width), dtype=self.dtype)
        for start, end, found in zip(
            self.starts, self.ends, self.each(lambda shard: shard.vectors_here(wanted)), strict=True
        ):
            result[(wanted >= start) & (wanted < end)] = found
        return result

    def best(self, mask: Mask | None) -> Winner | None:
        """The exact max-min pick among the candidates; ties to the lowest row."""
        return best_of(self.each(lambda shard: shard.best(self.part(mask, shard))))

    def add(self, rows: Sequence[int]) -> None:
        """Count these rows as answered."""
        vectors = self.vectors(rows)
        self.references.put(rows, vectors)
        self.each(lambda shard: shard.add(rows, vectors))

    def remove(self, rows: Sequence[int]) -> None:
        """Take these answers back."""
        self.references.drop(rows)
        self.each(lambda shard: shard.remove(rows))


def best_of(found: list[tuple[int, float] | None]) -> Winner | None:
    """The farthest of what the parts found, row and squared distance; ties to the lowest row."""
    best: Winner | None = None
    for one in found:
        if one is not None and (best is None or best.beaten_by(Winner(*one))):
            best = Winner(*one)
    return best
