"""The 18-layer residual network in plain torch, with the parameter names everyone's checkpoints use.

K. He, X. Zhang, S. Ren, J. Sun, "Deep residual learning for image recognition", 2016. Its last layer `fc` is our
projection from 512 features to the embedding's M columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from apod.errors import InputError
from apod.models.contrastive import linear_start

FEATURES = 512


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
