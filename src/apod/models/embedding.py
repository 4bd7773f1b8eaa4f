"""Whole columns embedded: read, decoded and passed through on every core at once, kept by content, resumable.

Kept embeddings are named by the digest of a cell's bytes and of the embedder. They hold no file name, label or group,
but an embedding of a face is personal data as the face is: only their owner may read the files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from apod.data.contents import Content, Read, some
from apod.data.sources import cache_dir
from apod.errors import CheckpointError, InputError
from apod.files import digest, packed_arrays, read_checked, replacing
from apod.models.embedder import Embedder, FloatArray
from apod.processes import blas_on_one_thread, one_thread

Progress = Callable[[int, int, str], None]
"""Takes how many rows are done, of how many, and what is being done."""

KEEP_EVERY = 256
"""Rows in a file of kept embeddings: at most so many are computed again after an interruption."""
_AHEAD = 3  # batches per worker that wait: enough to keep it busy, too few to fill the memory
_SUFFIX = ".safetensors"


def silent(done: int, total: int, text: str) -> None:
    """Progress that nobody watches."""


class KeptEmbeddings:
    """Embeddings of one embedder in a folder, by the digest of a cell's bytes; without a folder in memory alone."""

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        self._fingerprint, self._width = embedder.fingerprint, embedder.width
        self._folder = None if folder is None else folder / embedder.fingerprint
        self._rows: dict[str, FloatArray] = {}
        self._new: dict[str, FloatArray] = {}
        self.damaged = 0
        if self._folder is not None and self._folder.is_dir():
            for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
                self._read(path)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> FloatArray:
        return self._rows[key]

    def add(self, keys: Sequence[str], rows: FloatArray) -> None:
        """Keep these rows; now and then a file of them is written."""
        for key, row in zip(keys, rows, strict=True):
            self._rows[key] = self._new[key] = row
        if len(self._new) >= KEEP_EVERY:
            self.flush()

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._folder is None or not self._new:
            return
        keys = np.array([list(bytes.fromhex(key)) for key in self._new], dtype=np.uint8)
        rows = np.stack(list(self._new.values()))
        content = packed_arrays({"keys": keys, "rows": rows}, {"key": self._fingerprint})
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with replacing(self._folder / f"{uuid4().hex}{_SUFFIX}", private=True) as file:
                file.write(content)
        except OSError as error:
            raise InputError(
                f"Embeddings cannot be kept in {self._folder} ({error.strerror}): set APOD_CACHE to a folder that can "
                "be written to, or pass --no-embed-cache."
            ) from None
        self._new = {}

    def _read(self, path: Path) -> None:
        """Take what a file holds; a damaged one is left out, and its rows are computed again."""
        try:
            arrays, facts, checked = read_checked(path)
            keys, rows = arrays["keys"], arrays["rows"]
            if not checked or facts.get("key") != self._fingerprint or rows.shape != (len(keys), self._width):
                raise CheckpointError("it belongs to another embedder")
        except (CheckpointError, KeyError):
            self.damaged += 1
            return
        self._rows.update({bytes(key).hex(): row for key, row in zip(keys, rows, strict=True)})


@dataclass(frozen=True, eq=False)
class EmbeddedCells:
    """A column's embeddings, and the rows that could not be embedded."""

    rows: FloatArray  # (n, M); zeros where a cell is unusable
    unusable: dict[int, str] = field(default_factory=dict)  # row -> why, in words
    computed: int = 0  # cells that were not kept already
    notes: tuple[str, ...] = ()

    def names(self, content: Content) -> str:
        """How many cells are unusable, and why, each kind with a few names."""
        kinds: dict[str, list[str]] = {}
        for row, why in self.unusable.items():
            kinds.setdefault(why, []).append(content.cells.name(row))
        said = [f"{len(names)} because {why} ({some(names)})" for why, names in kinds.items()]
        return f"{len(self.unusable)} of {len(self.rows)} cells of {content.column!r} cannot be used: {'; '.join(said)}"


def embedding_folder() -> Path:
    """Where embeddings are kept unless another folder is named."""
    return cache_dir() / "embeddings"


def embed_content(
    embedder: Embedder, content: Content, folder: Path | None = None, progress: Progress = silent
) -> EmbeddedCells:
    """Every cell's embedding; cells of the same bytes are computed once, and those in `folder` not at all."""
    if embedder.kind != content.kind:
        raise InputError(
            f"{embedder.name} reads {embedder.kind}s, and column {content.column!r} holds {content.kind}s."
        )
    kept, total = KeptEmbeddings(embedder, folder), len(content.cells)
    rows, unusable, computed, done = np.zeros((total, embedder.width), dtype=np.float32), {}, 0, 0
    what = f"Embedding {content.column} with {embedder.name}"
    progress(0, total, what)
    try:
        with content.cells.opened() as read:
            for batch in _in_order(embedder, kept, read, total):
                kept.add(batch.keys, batch.rows)
                computed, done = computed + len(batch.keys), done + len(batch.found) + len(batch.unusable)
                for row, key in batch.found.items():
                    rows[row] = kept[key]
                unusable.update(batch.unusable)
                progress(done, total, what)
    finally:
        kept.flush()
    notes = (f"{kept.damaged} damaged file(s) of kept embeddings were left out.",) if kept.damaged else ()
    return EmbeddedCells(rows, dict(sorted(unusable.items())), computed, notes)


@dataclass(frozen=True, eq=False)
class _Batch:
    keys: list[str]  # of cells that were not kept
    rows: FloatArray  # (len(keys), M)
    found: dict[int, str]  # row -> key
    unusable: dict[int, str]


def _in_order(embedder: Embedder, kept: KeptEmbeddings, read: Read, total: int) -> Iterator[_Batch]:
    """Batches as they are done, in order; each worker reads, decodes and passes its own through on one thread."""
    starts, waiting = list(range(0, total, embedder.batch)), list[Future[_Batch]]()
    workers = min(_cores(), len(starts)) or 1
    with (
        _one_thread_each(),
        blas_on_one_thread,
        ThreadPoolExecutor(workers, "apod-embedding") as pool,
        _cancelling(waiting),
    ):
        for start in starts:
            cells = range(start, min(start + embedder.batch, total))
            waiting.append(pool.submit(_work, embedder, kept, read, cells))
            if len(waiting) >= workers * _AHEAD:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()


def _one_thread_each() -> AbstractContextManager[None]:
    return one_thread() if "torch" in sys.modules else nullcontext()


@contextmanager
def _cancelling(waiting: list[Future[_Batch]]) -> Iterator[None]:
    """Whatever ends the block early, nothing more is begun."""
    try:
        yield
    finally:
        for future in waiting:
            future.cancel()


def _work(embedder: Embedder, kept: KeptEmbeddings, read: Read, cells: range) -> _Batch:
    if "torch" in sys.modules:  # texts do without
        sys.modules["torch"].set_num_threads(1)  # of this thread: workers share the cores among themselves
    found: dict[int, str] = {}
    fresh: dict[str, object] = {}
    unusable: dict[int, str] = {}
    for row in cells:
        try:
            data = read(row)
            key = digest(data)
            if key not in kept and key not in fresh:
                fresh[key] = embedder.prepare(data)
            found[row] = key
        except InputError as error:
            unusable[row] = str(error)
    rows = embedder.forward(list(fresh.values())) if fresh else np.zeros((0, embedder.width), dtype=np.float32)
    return _Batch(list(fresh), _finite(rows, embedder), found, unusable)


def _finite(rows: npt.NDArray[np.floating], embedder: Embedder) -> FloatArray:
    if not np.isfinite(rows).all():
        raise InputError(f"{embedder.name} gave numbers that are not finite: use another embedder.")
    return np.asarray(rows, dtype=np.float32)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
