"""What the actor that holds one part of a pool does: a plain object, called by one question at a time."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from apod.data.parts import Part
from apod.maxmin.bounds import Float64, Int, Stored
from apod.maxmin.ray.connect import load_ray
from apod.maxmin.references import References
from apod.maxmin.rows import Rows
from apod.maxmin.shard import Shard


class Keeper:
    """A part of the matrix, read from storage when the actor starts, and what is known of it."""

    def __init__(self, part: Part, threads: int | None = None) -> None:
        self._part, self._threads = part, threads
        self._rows: Rows | None = None
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
        """What the shard answers."""
        method: Callable[..., Any] = attrgetter(path)(self._shard)
        return method(*given)

    def _opened(self) -> Rows:
        if self._rows is None:
            # held in memory: a part is cut so that its machine can hold it, and storage may be far away
            self._rows = Rows(np.array(self._part.open()), self._threads)
        return self._rows
