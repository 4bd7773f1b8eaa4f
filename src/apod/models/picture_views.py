"""Two random views of each picture, for a whole batch at once: crop, flip, colour, grey.

T. Chen, S. Kornblith, M. Norouzi, G. Hinton, "A simple framework for contrastive learning of visual
representations", 2020. Every colour change is a 3x3 matrix and a shift, so a picture's whole jitter is one matrix.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

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
