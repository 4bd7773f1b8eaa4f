"""What turns a picture or a text into numbers: the contract. `embedders.py` has what there is.

An embedder is frozen: pre-trained elsewhere, or learnt from texts alone. It never sees a label or a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from apod.data.contents import Kind

FloatArray = npt.NDArray[np.float32]

PICTURE_SIZE = (112, 128)
"""Width and height that pictures are squeezed to: portraits, as most pictures of people are."""


@runtime_checkable
class Embedder(Protocol):
    """Turns cells into rows of numbers.

    Invariants: frozen and deterministic; a row depends on its own cell alone; rows are finite; `fingerprint` differs
    where any row could. `prepare` and `forward` may be called from several threads at once.
    """

    @property
    def kind(self) -> Kind:
        """What it reads."""
        ...

    @property
    def name(self) -> str:
        """What it is called: in reports, and to open it again."""
        ...

    @property
    def width(self) -> int:
        """M, the numbers of a row."""
        ...

    @property
    def batch(self) -> int:
        """How many cells a forward pass takes."""
        ...

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height that pictures are squeezed to; None of texts."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of weights and settings: the key of kept embeddings."""
        ...

    def prepare(self, data: bytes) -> Any:
        """A cell ready for `forward`; InputError, without a subject ("it is empty"), where it cannot be used."""
        ...

    def forward(self, cells: Sequence[Any]) -> FloatArray:
        """(b, M) rows of prepared cells."""
        ...


EFFICIENTNET, HASHED = "efficientnet-lite0", "hashed"


@dataclass(frozen=True)
class EmbedderNames:
    """Which embedders to use: names, or folders of models."""

    pictures: str = EFFICIENTNET
    text: str = HASHED
    size: tuple[int, int] = PICTURE_SIZE
