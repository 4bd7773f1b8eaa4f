"""What the actor that holds one part of a pool does: a plain object, called by one question at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from apod.data.parts import Part
from apod.maxmin import open_array
from apod.maxmin.bounds import Float64, Int, Stored
from apod.maxmin.ray.connect import load_ray
from apod.maxmin.ray.inside import Inside
from apod.maxmin.references import References
from apod.maxmin.rows import Rows
from apod.maxmin.shard import Shard

if TYPE_CHECKING:
    from apod.maxmin.ray.scoring import (  # loads torch: a part that only measures distances starts without
        Counts,
        Scorer,
    )


class Keeper:
    """A part of the matrix, read from storage when the actor starts, and what is known of it."""

    def __init__(self, part: Part, threads: int | None = None) -> None:
        self._part, self._threads = part, threads
        self._held: Stored | None = None
        self._rows: Rows | None = None
        self._cells = np.empty(0, dtype=np.uint8)
        self._shard: Shard | None = None

    def middle(self) -> Float64:
        """(d,) about the mean row; also the first look at the storage."""
        return self._opened().middle()

    def start(self, shift: Float64, row_of_slot: Int, vectors: Stored) -> None:
        """Read every row, and measure it against the answers given so far, by slot."""
        self._shard = Shard(self._opened(), shift, self._part.start)
        self._shard.take_up(References(vectors.copy(), row_of_slot.tolist()))

    def node(self) -> str:
        """The machine it is on, by Ray's id."""
        return str(load_ray().get_runtime_context().get_node_id())

    def call(self, path: str, *given: Any) -> Any:
        """What the shard answers; candidates may be a cell of the last scoring."""
        method: Callable[..., Any] = attrgetter(path)(self._shard)
        return method(*(one.of(self._cells) if isinstance(one, Inside) else one for one in given))

    def score(self, scorer: Scorer, labels: Part, barred: Sequence[int]) -> Counts:
        """Members and right predictions of every subgroup, (2, cells), without the barred rows of the pool."""
        column = open_array(labels.path, "labels")[labels.first : labels.first + labels.rows].astype(np.int64)
        here = [row - self._part.start for row in barred if 0 <= row - self._part.start < self._part.rows]
        self._cells, counts = scorer.cells(self._matrix(), column, here)
        return counts

    def _opened(self) -> Rows:
        if self._rows is None:
            self._rows = Rows(self._matrix(), self._threads)
        return self._rows

    def _matrix(self) -> Stored:
        if self._held is None:
            # held in memory: a part is cut so that its machine can hold it, and storage may be far away
            self._held = np.array(self._part.open())
        return self._held
