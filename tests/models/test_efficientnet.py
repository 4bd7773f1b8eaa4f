"""The picture body: the published network, from the known file alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from apod.errors import InputError
from apod.models.efficientnet import WIDTH, find_weights, load_efficientnet
from apod.models.embedders import open_picture_embedder

BLOCKS = [(3, 1), *[(3, 2), (3, 1)], *[(5, 2), (5, 1)], *[(3, 2), (3, 1), (3, 1)], *[(5, 1)] * 3, (5, 2), *[(5, 1)] * 3]
BLOCKS += [(3, 1)]


def same(x: Tensor, weight: Tensor, stride: int, groups: int = 1) -> Tensor:
    """TensorFlow's "same" convolution, written out."""
    kernel, sides = weight.shape[-1], []
    for size in x.shape[2:]:
        out = -(-size // stride)
        sides.append(max((out - 1) * stride + kernel - size, 0))
    up, left = sides[0] // 2, sides[1] // 2
    padded = functional.pad(x, (left, sides[1] - left, up, sides[0] - up))
    return functional.conv2d(padded, weight, stride=stride, groups=groups)


def published(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The network with its normalisations as they were published, step by step."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance, scale, shift = (
            weights[f"{name}.{k}"] for k in ("running_mean", "running_var", "weight", "bias")
        )
        return functional.batch_norm(x, mean, variance, scale, shift, eps=1e-3)

    x = functional.relu6(norm(same(x, weights["_conv_stem.weight"], 2), "_bn0"))
    for number, (_, stride) in enumerate(BLOCKS):
        name, before = f"_blocks.{number}", x
        if f"{name}._expand_conv.weight" in weights:
            x = functional.relu6(norm(same(x, weights[f"{name}._expand_conv.weight"], 1), f"{name}._bn0"))
        x = functional.relu6(
            norm(same(x, weights[f"{name}._depthwise_conv.weight"], stride, x.shape[1]), f"{name}._bn1")
        )
        x = norm(same(x, weights[f"{name}._project_conv.weight"], 1), f"{name}._bn2")
        x = x + before if stride == 1 and x.shape == before.shape else x
    return functional.relu6(norm(same(x, weights["_conv_head.weight"], 1), "_bn1")).mean(dim=(2, 3))


def test_the_folded_network_is_the_published_one() -> None:
    weights = torch.load(find_weights(), weights_only=True)
    x = torch.randn(2, 3, 45, 38, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = published(weights, x)
        found = load_efficientnet()(x)
    assert found.shape == (2, WIDTH)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_changed_file_of_weights_is_refused_unread(tmp_path: Path) -> None:
    data = bytearray(find_weights().read_bytes())
    data[len(data) // 2] ^= 1
    changed = tmp_path / "weights.pth"
    changed.write_bytes(data)
    with pytest.raises(InputError, match="is not the weights file that is known"):
        load_efficientnet(changed)


def test_a_picture_has_the_same_bits_alone_and_among_others() -> None:
    embedder = open_picture_embedder()
    rng = torch.Generator().manual_seed(1)
    cells = [torch.randint(0, 256, (128, 112, 3), generator=rng, dtype=torch.uint8).numpy() for _ in range(3)]
    together = embedder.forward(cells)
    assert (embedder.forward(cells[1:2])[0] == together[1]).all()


def test_an_unknown_name_is_no_body() -> None:
    with pytest.raises(InputError, match="did you mean 'efficientnet-lite0'"):
        open_picture_embedder("efficientnet-lite")
