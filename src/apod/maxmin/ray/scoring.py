"""Scoring where the rows are: head and proxy weights go out, counts by subgroup come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from apod.data.large import blocks, mapped_tensor
from apod.heads.bank import HeadBank
from apod.maxmin.bounds import Int, Stored
from apod.method.proxy import PROXIES, State
from apod.threads import one_thread

Counts = npt.NDArray[np.int64]
LEFT_OUT = 255  # cell of a row that may not be asked about


@dataclass(frozen=True)
class Scorer:
    """One asking head and one group proxy, as plain arrays."""

    parameters: npt.NDArray[np.floating]  # (1, P) of the head
    sizes: tuple[int, ...]
    proxy: str
    state: State  # of the proxy
    n_groups: int

    @one_thread()
    def cells(self, embeddings: Stored, labels: Int, barred: Sequence[int]) -> tuple[npt.NDArray[np.uint8], Counts]:
        """(n,) cell 2 x group + label of every row, and (2, 2 x groups) members and right predictions per cell.

        One sweep. Barred rows are in no cell. Blocks begin where those of a pool on one machine do, so that every
        prediction is the same to the last bit.
        """
        bank = HeadBank(torch.from_numpy(self.parameters.copy()), self.sizes)
        width = self.sizes[0]
        proxy = PROXIES[self.proxy](1, width, self.n_groups, 0, "", bank.parameters.dtype)
        proxy.restore(self.state)
        cells = np.empty(len(labels), dtype=np.uint8)
        right = np.empty(len(labels), dtype=bool)
        for here, block in blocks(embeddings):
            rows = mapped_tensor(block)
            group = proxy.probabilities(rows)[0].numpy().argmax(axis=1)
            cells[here] = 2 * group + labels[here]
            right[here] = (bank.margins(rows)[0].sigmoid() > 0.5).numpy() == labels[here]
        cells[list(barred)] = LEFT_OUT
        kinds = 2 * self.n_groups
        members = np.bincount(cells, minlength=256)[:kinds]
        return cells, np.stack([members, np.bincount(cells[right], minlength=256)[:kinds]])
