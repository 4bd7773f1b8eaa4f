"""Pictures through a torch module: the default body, or your own."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from apod.data.contents import Kind
from apod.data.decoding import Pixels, decode_picture
from apod.errors import InputError
from apod.files import digest
from apod.models.efficientnet import DEVIATION, MEAN, SHA256, load_efficientnet
from apod.models.embedder import EFFICIENTNET, PICTURE_SIZE, FloatArray

LARGEST_SIDE = 1024


class ModulePictures:
    """A torch module on normalised pictures (b, 3, h, w) that returns (b, M); copied, frozen, in evaluation mode."""

    kind: Kind = "picture"

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        size: tuple[int, int] = PICTURE_SIZE,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        deviation: Sequence[float] = (0.229, 0.224, 0.225),
        name: str | None = None,
        fingerprint: str | None = None,
        batch: int = 32,
    ) -> None:
        """size: width and height pictures are squeezed to · mean, deviation: of channels in [0, 1], as in training."""
        if not all(16 <= side <= LARGEST_SIDE for side in size):
            raise InputError(f"Pictures of {size[0]} x {size[1]}: give sides from 16 to {LARGEST_SIDE}.")
        self._module = copy.deepcopy(module).eval().requires_grad_(False)
        self._module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.size, self.batch, self.name = size, batch, name or type(module).__name__
        self._mean = 255 * torch.tensor(mean, dtype=torch.float32)
        self._scale = 1 / (255 * torch.tensor(deviation, dtype=torch.float32))
        about = f"{size} {list(mean)} {list(deviation)}"
        self.fingerprint = digest(fingerprint or _content(self._module), about)
        self.width = int(self._run(np.zeros((1, size[1], size[0], 3), dtype=np.uint8)).shape[1])

    def prepare(self, data: bytes) -> Pixels:
        """(h, w, 3) pixels."""
        return decode_picture(data, self.size)

    def forward(self, cells: Sequence[Pixels]) -> FloatArray:
        """(b, M); short batches are filled up, so that every pass has the same shape and a row the same bits."""
        pixels = np.zeros((self.batch, self.size[1], self.size[0], 3), dtype=np.uint8)
        pixels[: len(cells)] = np.stack(cells)
        return self._run(pixels)[: len(cells)]

    def _run(self, pixels: Pixels) -> FloatArray:
        x = (torch.from_numpy(pixels).float() - self._mean) * self._scale  # (b, h, w, 3): channels last as it is
        with torch.inference_mode():
            out = self._module(x.permute(0, 3, 1, 2))
        if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != len(pixels):
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise InputError(f"The picture module returned {shape} for {len(pixels)} pictures: return a row for each.")
        if not torch.isfinite(out).all():
            raise InputError("The picture module returned NaN or infinity: check its weights and normalisation.")
        return np.asarray(out.float().cpu().numpy())


def _content(module: torch.nn.Module) -> str:
    state = {name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}
    parts = [f"{name} {tuple(value.shape)}" for name, value in sorted(state.items())]
    return digest(repr(module), *parts, *(value.numpy() for _, value in sorted(state.items()) if value.numel()))


def efficientnet(size: tuple[int, int]) -> ModulePictures:
    """The default for pictures."""
    module = load_efficientnet()
    return ModulePictures(
        module, size=size, mean=MEAN, deviation=DEVIATION, name=EFFICIENTNET, fingerprint=SHA256 + " folded"
    )
