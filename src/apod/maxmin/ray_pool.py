"""A pool whose parts live in the actors of a Ray cluster.

The coordinator sends vectors out and gets (value, row) back. All it cannot do without is the answers, which it has:
an actor that is lost, with its machine or alone, is started again elsewhere, reads its part from storage, is sent
the answers so far and the batch under way, and gets the question it did not answer. Every pick is decided by the
float64 formula, so a part that was built again gives the same picks.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np

from apod.data.arrays import MatrixParts, Part, Stored, open_parts
from apod.errors import ApodError, ClusterError
from apod.maxmin.coverage import Coverage
from apod.maxmin.geometry import Float64, Geometry, Int
from apod.maxmin.nearest import DEFAULT_SIZES, AnswerSlots, StoredRows
from apod.maxmin.ray_connect import connected, load_ray, machines
from apod.maxmin.select import OpenElsewhere
from apod.maxmin.shard import Shard, Shards

T = TypeVar("T")

PLACE_SECONDS = 120.0  # to find a machine for a part
TRIES = 5  # lives of a part within one question
OF_A_BATCH = ("begin", "batch.watch")  # calls that a part built again gets once more


class ShardActor:
    """A part of the matrix, read from storage when the actor starts, and its shard. One question at a time."""

    def __init__(self, part: Part, threads: int | None = None) -> None:
        self._part, self._threads = part, threads
        self._rows: StoredRows | None = None
        self._shard: Shard | None = None

    def middle(self) -> Float64:
        """(d,) about the mean row; also the first look at the storage."""
        return self._opened().middle()

    def start(self, shift: Float64, row_of_slot: Int, vectors: Stored) -> None:
        """Read every row, and measure it against the answers given so far, by slot."""
        self._shard = Shard(self._opened(), shift, self._part.start)
        self._shard.restart(AnswerSlots(vectors.copy(), row_of_slot.tolist()))

    def node(self) -> str:
        """The machine it is on, by Ray's id."""
        return str(load_ray().get_runtime_context().get_node_id())

    def call(self, path: str, *given: Any) -> Any:
        """What the shard answers."""
        method: Callable[..., Any] = attrgetter(path)(self._shard)
        return method(*given)

    def _opened(self) -> StoredRows:
        if self._rows is None:
            # held in memory: a part is cut so that its machine can hold it, and storage may be far away
            self._rows = StoredRows(np.array(self._part.open()), self._threads)
        return self._rows


class RemoteShard:
    """A part elsewhere: its methods are the shard's, and give promises."""

    def __init__(self, part: Part, threads: int | None, node: str) -> None:
        self.part, self._threads, self.node = part, threads, node
        self.start = part.start
        self.calls: list[tuple[str, tuple[Any, ...]]] = []  # of the batch under way
        self.last: tuple[str, tuple[Any, ...]] = ("", ())
        self.ended = False
        self.actor = self._spawn()

    def __len__(self) -> int:
        return self.part.rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _RemoteBatch(self) if name == "batch" else lambda *given: self.call(name, *given)

    def call(self, path: str, *given: Any) -> Any:
        """A promise of what the shard's method gives."""
        self.last = (path, given)
        return self.actor.call.remote(path, *given)

    def done(self) -> None:
        """The last call was answered."""
        path, given = self.last
        if path in OF_A_BATCH:
            self.calls.append((path, given))
        elif path == "end":
            self.calls.clear()

    def replace(self, node: str) -> None:
        """Give the part to a new actor, on this machine if it can take it."""
        self.stop()  # if it still lives, unreachable, it must not come back
        self.node, self.ended = node, False
        self.actor = self._spawn()

    def stop(self) -> None:
        """End the actor; for a moment it may still answer, from a state nobody is sure of."""
        self.ended = True
        load_ray().kill(self.actor)

    def _spawn(self) -> Any:
        ray = load_ray()
        place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(self.node, soft=True)
        actor = ray.remote(max_restarts=0, scheduling_strategy=place)(ShardActor)
        return actor.remote(self.part, self._threads)


class _RemoteBatch:
    """The batch under way in a part elsewhere."""

    def __init__(self, handle: RemoteShard) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self._handle.call(f"batch.{name}", *given)


class RayShards(Shards):
    """A pool in as many actors as it has parts; use it as a context, or close it, to free them."""

    def __init__(self, parts: MatrixParts, threads: int | None = None) -> None:
        """Start the actors and let each read its part; Ray must be connected."""
        self._ray = load_ray()
        self.remote: list[RemoteShard] = []
        for part in parts.parts:
            self.remote.append(RemoteShard(part, threads, self._roomiest()))
        self._one_at_a_time = threading.Lock()
        self.rebuilt = 0  # how many parts were lost and built again
        self.starts = [part.start for part in parts.parts]
        self.ends = [part.start + part.rows for part in parts.parts]
        self.width, self.dtype = parts.width, parts.dtype
        self.sizes = DEFAULT_SIZES
        self.answers = AnswerSlots.empty(self.width, self.dtype)
        self._kept_answers = self.answers.copy()  # what the parts know outside of a batch
        try:
            self.geometry = Geometry(self._middle())
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RayShards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the actors."""
        for handle in self.remote:
            handle.stop()

    def coverage(self) -> Coverage:
        """Max-min selection over the pool."""
        return Coverage.over(self)

    def nodes(self) -> list[str]:
        """The machine each part is on, by Ray's id."""
        return [str(self._got(handle.actor.node.remote(), handle)) for handle in self.remote]

    def each(self, ask: Callable[[Shard], T]) -> list[T]:
        """What every part answers, in their order; a lost part is built again and asked again. One at a time."""
        with self._one_at_a_time:
            return self._each(ask)

    def _each(self, ask: Callable[[Shard], T]) -> list[T]:
        try:
            for handle in self.remote:
                if handle.ended:
                    self._rebuild(handle)
            asked = [(handle, ask(cast(Shard, handle))) for handle in self.remote]
            answers = [self._kept(handle, ask, promise) for handle, promise in asked]
        except BaseException:
            self._abandon()
            raise
        for handle in self.remote:
            handle.done()
        return answers

    def add(self, rows: Sequence[int]) -> None:
        """Count these rows as answered, even where a part fails: it is sent them when it is built again."""
        try:
            super().add(rows)
        finally:
            self._kept_answers = self.answers.copy()

    def remove(self, rows: Sequence[int]) -> None:
        """Take these answers back, even where a part fails."""
        try:
            super().remove(rows)
        finally:
            self._kept_answers = self.answers.copy()

    def _abandon(self) -> None:
        """A question was cut short: no part's state is sure any more, so all are built again when next asked."""
        for handle in self.remote:
            handle.stop()
            handle.calls.clear()

    def _kept(self, handle: RemoteShard, ask: Callable[[Shard], T], promise: Any) -> T:
        for _ in range(TRIES):
            try:
                return cast(T, self._got(promise, handle))
            except _Lost:
                self._rebuild(handle)
                promise = ask(cast(Shard, handle))
        raise ClusterError(
            f"Rows {handle.start} to {handle.start + len(handle) - 1} were lost {TRIES} times in a row: see to the "
            "cluster. All answers are kept."
        )

    def _rebuild(self, handle: RemoteShard) -> None:
        """A new actor for this part, sent all a living one would know; lost again on the way, tried again later."""
        self.rebuilt += 1
        handle.replace(self._roomiest(besides=handle.node))
        try:
            self._got(handle.actor.middle.remote(), handle, PLACE_SECONDS)
            self._got(self._started(handle), handle)
            for path, given in handle.calls:
                self._got(handle.actor.call.remote(path, *given), handle)
        except _Lost:
            return

    def _roomiest(self, besides: str | None = None) -> str:
        """The machine that holds the fewest parts, another than the one that was just lost if there is one."""
        alive = sorted(str(node["NodeID"]) for node in self._ray.nodes() if node["Alive"])
        if not alive:
            raise ClusterError("The cluster has no machine left: add one. All answers are kept.")
        held = Counter(handle.node for handle in self.remote)
        return min(alive, key=lambda node: (node == besides, held[node]))

    def _middle(self) -> Float64:
        """(d,) a mean row, which every part's bounds are relative to."""
        asked = [handle.actor.middle.remote() for handle in self.remote]
        means = [self._first(handle, promise) for handle, promise in zip(self.remote, asked, strict=True)]
        return np.average(means, axis=0, weights=[len(handle) for handle in self.remote])

    def _first(self, handle: RemoteShard, promise: Any) -> Any:
        for _ in range(TRIES):
            try:
                return self._got(promise, handle, PLACE_SECONDS)
            except _Lost:
                handle.replace(self._roomiest(besides=handle.node))
                promise = handle.actor.middle.remote()
        raise ClusterError(f"No machine keeps rows {handle.start} and on: see to the cluster.")

    def _start(self) -> None:
        promises = [self._started(handle) for handle in self.remote]
        for handle, promise in zip(self.remote, promises, strict=True):
            try:
                self._got(promise, handle)
            except _Lost:
                self._rebuild(handle)

    def _started(self, handle: RemoteShard) -> Any:
        known = self._kept_answers
        vectors = known.vectors(np.arange(known.capacity))
        return handle.actor.start.remote(self.geometry.shift, known.row_of_slot(), vectors)

    def _got(self, promise: Any, handle: RemoteShard, seconds: float | None = None) -> Any:
        """What was promised; `_Lost` where the actor is gone, the actor's own error where it raised one of ours."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(promise, timeout=seconds)
        except errors.RayTaskError as error:
            if isinstance(error.cause, ApodError):
                raise error.cause from None
            raise
        except (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError) as error:
            raise _Lost from error  # with the actor, or what it had answered and nobody had fetched yet
        except errors.GetTimeoutError:
            raise ClusterError(
                f"No machine took rows {handle.start} to {handle.start + len(handle) - 1} within {seconds:.0f} s: "
                "add one to the cluster, or free some of its processors. All answers are kept."
            ) from None
        except errors.RayError as error:
            what = type(error).__name__
            raise ClusterError(f"The cluster failed ({what}): connect again. All answers are kept.") from error


class _Lost(Exception):
    """An actor is gone."""


@contextmanager
def ray_engine(address: str | None, parts: int | None = None) -> Iterator[OpenElsewhere]:
    """Opens the embeddings of a .npy file, or of a folder of them, on the cluster at this address.

    A file is cut into `parts`, one per machine by default; a folder has one part per file. Every machine must see
    the files under the same path.
    """
    with connected(address) as ray, ExitStack() as pools:

        def opened(path: str | os.PathLike[str]) -> Coverage:
            pool = RayShards(open_parts(path, parts or machines(ray)))
            return pools.enter_context(pool).coverage()

        yield opened
