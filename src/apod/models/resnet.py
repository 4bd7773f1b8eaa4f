"""The paper's body for pictures: an 18-layer residual network, and the two random views it learns from.

T. Chen, S. Kornblith, M. Norouzi, G. Hinton, "A simple framework for contrastive learning of visual
representations", 2020. Every colour change is a 3x3 matrix and a shift, so a picture's whole jitter is one matrix.

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
from torch.nn import functional

from apod.errors import CheckpointError, InputError
from apod.models.body import FloatArray, linear_start

Floats = npt.NDArray[np.float64]

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which checkpoints were trained with
LEAST_AREA = 0.2  # of the picture that a crop keeps
FLIP = 0.5  # probability
JITTER = 0.8  # probability of changing colours at all
BRIGHTNESS = CONTRAST = SATURATION = 0.4  # factors are drawn from 1 - this to 1 + this
HUE = 0.1  # of a full turn, either way
GREY = 0.2  # probability

_LUMA = np.array([0.299, 0.587, 0.114])
_TO_YIQ = np.array([_LUMA, [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])


def view_settings() -> dict[str, float]:
    """The constants of this module by name: part of what a body trained on views is known by."""
    return {
        "least_area": LEAST_AREA,
        "flip": FLIP,
        "jitter": JITTER,
        "brightness": BRIGHTNESS,
        "contrast": CONTRAST,
        "saturation": SATURATION,
        "hue": HUE,
        "grey": GREY,
    }


def normalise(pictures: Tensor) -> Tensor:
    """uint8 (B, 3, H, W) as the network takes them: float32, channels last, centred and scaled per channel."""
    x = pictures.to(torch.float32).div_(255)
    return _centre(x).contiguous(memory_format=torch.channels_last)


def random_views(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """One random view of each picture: uint8 (B, 3, H, W) in, normalised float32 of the same shape out."""
    x = pictures.to(torch.float32).div_(255)
    x = crop(x, random_boxes(rng, len(x)))
    matrix, contrast = random_colours(rng, len(x))
    return _centre(recolour(x, matrix, contrast)).contiguous(memory_format=torch.channels_last)


def random_boxes(rng: np.random.Generator, count: int, least_area: float = LEAST_AREA) -> Floats:
    """Crops (count, 4): left, right, top, bottom in shares of the picture; left > right is a mirrored one."""
    area = rng.uniform(least_area, 1, count)
    ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3), count))
    width, height = np.minimum(np.sqrt(area * ratio), 1), np.minimum(np.sqrt(area / ratio), 1)
    left, top = rng.random(count) * (1 - width), rng.random(count) * (1 - height)
    mirrored = rng.random(count) < FLIP
    right = left + width
    return np.stack([np.where(mirrored, right, left), np.where(mirrored, left, right), top, top + height], axis=1)


def crop(x: Tensor, boxes: Floats) -> Tensor:
    """The boxes of the pictures (B, 3, H, W), each stretched to the full size, bilinear."""
    left, right, top, bottom = boxes.T
    zero = np.zeros_like(left)
    across = np.stack([right - left, zero, right + left - 1], axis=1)  # grid coordinates go from -1 to 1
    down = np.stack([zero, bottom - top, bottom + top - 1], axis=1)
    affine = torch.from_numpy(np.stack([across, down], axis=1).astype(np.float32))  # (B, 2, 3)
    grid = functional.affine_grid(affine, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def random_colours(
    rng: np.random.Generator,
    count: int,
    *,
    jitter: float = JITTER,
    brightness: float = BRIGHTNESS,
    contrast: float = CONTRAST,
    saturation: float = SATURATION,
    hue: float = HUE,
    grey: float = GREY,
) -> tuple[Floats, Floats]:
    """Per picture a colour matrix (count, 3, 3), and the contrast factor (count,) that goes before it."""
    jittered = rng.random(count) < jitter

    def factor(reach: float) -> Floats:
        return np.where(jittered, rng.uniform(1 - reach, 1 + reach, count), 1.0)

    brighter, stretched, stronger = factor(brightness), factor(contrast), factor(saturation)
    turn = np.where(jittered, rng.uniform(-hue, hue, count), 0.0)
    stronger = np.where(rng.random(count) < grey, 0.0, stronger)  # grey: no colour left at all
    cos, sin = stronger * np.cos(2 * np.pi * turn), stronger * np.sin(2 * np.pi * turn)
    in_yiq = np.zeros((count, 3, 3))  # brightness stays, the colour plane is turned and stretched
    in_yiq[:, 0, 0] = 1
    in_yiq[:, 1, 1], in_yiq[:, 1, 2], in_yiq[:, 2, 1], in_yiq[:, 2, 2] = cos, -sin, sin, cos
    matrix = np.linalg.inv(_TO_YIQ) @ in_yiq @ _TO_YIQ
    return matrix * brighter[:, None, None], stretched


def recolour(x: Tensor, matrix: Floats, contrast: Floats) -> Tensor:
    """Stretch each picture (B, 3, H, W) around its mean grey, then apply its matrix; back into 0 to 1."""
    factor = torch.from_numpy(contrast.astype(np.float32)).view(-1, 1, 1, 1)
    luma = torch.from_numpy(_LUMA.astype(np.float32))
    grey = (x.mean(dim=(2, 3)) @ luma).view(-1, 1, 1, 1)
    x = torch.lerp(grey, x, factor)
    colours = torch.from_numpy(matrix.astype(np.float32))  # (B, 3, 3)
    return torch.bmm(colours, x.flatten(2)).view(x.shape).clamp_(0, 1)


def _centre(x: Tensor) -> Tensor:
    mean, spread = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(SPREAD).view(1, 3, 1, 1)
    return x.sub_(mean).div_(spread)


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
