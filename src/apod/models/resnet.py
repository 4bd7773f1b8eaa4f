"""The body for pictures: an 18-layer residual network with the parameter names everyone's checkpoints use.

K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", 2016. Its last layer `fc` is our
projection from 512 features to the embedding's M columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from apod.errors import CheckpointError, InputError
from apod.models.module import FloatArray
from apod.models.picture_views import normalise
from apod.models.pretraining import linear_start

FEATURES = 512

Pictures = npt.NDArray[np.uint8]
_EMBED_PICTURES = 32
_LEAST_SIZE = 16


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output (B, outputs, H / stride, W / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = torch.relu_(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        return torch.relu_(x + shortcut)


class ResNet18(nn.Module):
    """Pictures (B, 3, H, W), normalised, in; (B, width) out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(64, 64, 1)
        self.layer2 = _stage(64, 128, 2)
        self.layer3 = _stage(128, 256, 2)
        self.layer4 = _stage(256, FEATURES, 2)
        self.fc = nn.Linear(FEATURES, width)

    def forward(self, x: Tensor) -> Tensor:
        """The embeddings (B, width)."""
        x = self.maxpool(torch.relu_(self.bn1(self.conv1(x))))  # (B, 64, H/4, W/4)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (B, 512, H/32, W/32)
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))


def empty_resnet18(width: int) -> ResNet18:
    """The network without values (on torch's meta device): its names and shapes, and no random draw."""
    with torch.device("meta"):
        return ResNet18(width)


def resnet18_from(state: Mapping[str, Tensor]) -> ResNet18:
    """The network with these values, in the layout (channels last) that is fastest on a CPU."""
    network = empty_resnet18(len(state["fc.bias"]))
    network.load_state_dict(dict(state), assign=True)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def fresh_resnet18(rng: np.random.Generator, width: int) -> dict[str, Tensor]:
    """A fresh network's values: He's normal draws for convolutions, 1 and 0 for batch norms, uniform `fc`."""
    state: dict[str, Tensor] = {}
    for name, like in empty_resnet18(width).state_dict().items():
        if like.ndim == 4:  # a convolution (outputs, inputs, k, k)
            spread = math.sqrt(2 / (like.shape[0] * like.shape[2] * like.shape[3]))
            state[name] = torch.from_numpy(rng.standard_normal(like.shape, dtype=np.float32)) * spread
        elif not name.startswith("fc."):
            one = name.endswith(("weight", "running_var"))
            state[name] = torch.full(like.shape, int(one), dtype=like.dtype)
    state["fc.weight"], state["fc.bias"] = linear_start(rng, FEATURES, width)
    return state


def read_resnet18(path: Path, fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint's values from a safetensors file, with `fresh` values for a missing or differently wide `fc`.

    Only safetensors is read: a pickled checkpoint (.pth, .pt) can run code when opened.
    """
    try:
        saved = safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise InputError(
            f"{path.name} is not a safetensors file ({error}): convert it with safetensors.torch.save_file."
        ) from error
    state = dict(fresh)
    for name, like in fresh.items():
        value = saved.pop(name, None)
        fits = value is not None and value.shape == like.shape
        if value is not None and fits:
            state[name] = value.to(like.dtype)
        elif not name.startswith("fc.") and not name.endswith("num_batches_tracked"):
            found = "missing" if value is None else f"of shape {tuple(value.shape)}, not {tuple(like.shape)}"
            raise InputError(f"{path.name} is no ResNet-18: {name} is {found}.")
    if saved:
        raise InputError(f"{path.name} is no ResNet-18: it also holds {', '.join(sorted(saved)[:3])}.")
    return state


@dataclass(frozen=True, eq=False)
class ResNetBody:
    """A frozen ResNet-18 that takes pictures, uint8 (n, 3, H, W), and keeps the promises of `Body`."""

    network: ResNet18 = field(repr=False)
    history: tuple[float, ...] = field(default=(), repr=False)  # mean loss of each epoch of pre-training

    def __post_init__(self) -> None:
        self.network.eval().requires_grad_(False)  # batch statistics would make a picture depend on its batch

    @property
    def width(self) -> int:
        """M, the number of columns of an embedding."""
        return self.network.fc.out_features

    def embed(self, X: npt.NDArray[Any]) -> FloatArray:
        """The embeddings (n, M) of the pictures X, uint8 (n, 3, H, W)."""
        pictures = check_pictures(X)
        out = np.empty((len(pictures), self.width), dtype=np.float32)
        batch = torch.zeros((_EMBED_PICTURES, *pictures.shape[1:]), dtype=torch.uint8)
        with torch.no_grad():
            for start in range(0, len(pictures), _EMBED_PICTURES):
                part = torch.tensor(pictures[start : start + _EMBED_PICTURES])
                batch[: len(part)] = part  # always a full batch: a picture's rounding does not hang on their number
                out[start : start + len(part)] = self.network(normalise(batch))[: len(part)].numpy()
        if not np.isfinite(out).all():
            raise InputError("The body returned NaN or infinity: its weights are damaged, or its training diverged.")
        return out

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The weights by their usual names, ready for safetensors."""
        return {name: np.array(value.numpy(), order="C") for name, value in self.network.state_dict().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any] | Tensor], history: tuple[float, ...] = ()) -> ResNetBody:
        """The body whose `state()` this is."""
        own = {name: torch.tensor(np.asarray(value)) for name, value in state.items()}
        width = own["fc.bias"].shape[0] if "fc.bias" in own else 0
        expected = {name: value.shape for name, value in empty_resnet18(width).state_dict().items()}
        if {name: value.shape for name, value in own.items()} != expected:
            raise CheckpointError("These are not the weights of a ResNet-18 body: names or shapes differ.")
        return cls(resnet18_from(own), history)


def check_pictures(X: npt.NDArray[Any], size: int | None = None) -> Pictures:
    """X as uint8 pictures (n, 3, H, W), or an error that says what is wrong."""
    pictures = np.asarray(X)
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[1] != 3:
        raise InputError(f"Pictures are {pictures.dtype} {pictures.shape}: pass uint8 of shape (n, 3, height, width).")
    height, width = pictures.shape[2:]
    if min(height, width) < _LEAST_SIZE:
        raise InputError(f"Pictures are {width}x{height}: the network needs at least {_LEAST_SIZE}x{_LEAST_SIZE}.")
    if size is not None and (height, width) != (size, size):
        raise InputError(f"Pictures are {width}x{height} and size is {size}: load them at that size.")
    return pictures
