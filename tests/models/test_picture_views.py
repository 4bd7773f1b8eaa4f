"""Views of a picture are honest crops, flips and colour changes, at their rates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from striped_pictures import generated_pictures

from apod.models.resnet import crop, normalise, random_boxes, random_colours, random_views, recolour

LUMA = np.array([0.299, 0.587, 0.114])


def bilinear(picture: np.ndarray, box: np.ndarray) -> np.ndarray:
    """A crop stretched to full size, one output pixel at a time; beyond the border lies the border's colour."""
    _, height, width = picture.shape
    left, right, top, bottom = box
    out = np.zeros_like(picture)
    for i in range(height):
        for j in range(width):
            y = (top + (bottom - top) * (i + 0.5) / height) * height - 0.5
            x = (left + (right - left) * (j + 0.5) / width) * width - 0.5
            y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
            y0, x0 = min(int(y), height - 2), min(int(x), width - 2)
            b, a = y - y0, x - x0
            corner = picture[:, y0 : y0 + 2, x0 : x0 + 2]
            out[:, i, j] = np.einsum("cij,i,j->c", corner, [1 - b, b], [1 - a, a])
    return out


def test_crops_are_bilinear_pieces_of_the_picture() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((5, 3, 12, 12))
    boxes = np.array([[0, 1, 0, 1], [1, 0, 0, 1], *random_boxes(rng, 3)])
    ours = crop(torch.tensor(x.astype(np.float32)), boxes).numpy()
    np.testing.assert_allclose(ours[0], x[0], atol=1e-5)
    np.testing.assert_allclose(ours[1], x[1, :, :, ::-1], atol=1e-5)
    for index in range(5):
        np.testing.assert_allclose(ours[index], bilinear(x[index], boxes[index]), atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.0))
def test_boxes_lie_in_the_picture_and_are_not_too_small(seed: int, least: float) -> None:
    left, right, top, bottom = random_boxes(np.random.default_rng(seed), 200, least_area=least).T
    for edge in (left, right, top, bottom):
        assert edge.min() >= -1e-12
        assert edge.max() <= 1 + 1e-12
    area = np.abs(right - left) * (bottom - top)
    assert area.min() > least * 3 / 4 - 1e-9, "a box too long for the picture is cut, by a quarter at most"


def test_flips_and_greys_come_at_their_rates() -> None:
    n = 20_000
    left, right, *_ = random_boxes(np.random.default_rng(0), n).T
    assert np.mean(left > right) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(n))
    matrix, contrast = random_colours(np.random.default_rng(1), n)
    grey = np.abs(matrix - matrix[:, :1]).max(axis=(1, 2)) < 1e-9  # all three output channels are the same
    assert grey.mean() == pytest.approx(0.2, abs=4 * 0.4 / np.sqrt(n))
    assert (contrast == 1).mean() == pytest.approx(0.2, abs=4 * 0.4 / np.sqrt(n)), "jitter leaves a fifth alone"
    assert 0.6 <= contrast.min() < 0.61
    assert 1.39 < contrast.max() <= 1.4


def only(**reach: float) -> dict[str, float]:
    none = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0, "grey": 0.0, "jitter": 1.0}
    return none | reach


def coloured(how: dict[str, float], x: np.ndarray) -> np.ndarray:
    matrix, contrast = random_colours(np.random.default_rng(0), len(x), **how)
    return recolour(torch.tensor(x.astype(np.float32)), matrix, contrast).numpy()


def luma(x: np.ndarray) -> np.ndarray:
    return np.einsum("c,bcij->bij", LUMA, x)


def test_each_colour_change_is_what_its_name_says() -> None:
    x = np.random.default_rng(3).uniform(0.35, 0.65, (40, 3, 6, 6))  # far from black and white: nothing is cut off
    close = {"rtol": 0, "atol": 2e-4}
    np.testing.assert_allclose(coloured(only(), x), x, **close)
    grey = coloured(only(grey=1.0), x)
    np.testing.assert_allclose(grey, np.repeat(luma(x)[:, None], 3, axis=1), **close)

    brighter = coloured(only(brightness=0.3), x) / x
    assert np.ptp(brighter.reshape(40, -1), axis=1).max() < 1e-3, "one factor for the whole picture"
    assert brighter.min() >= 0.699
    assert brighter.max() <= 1.301
    assert np.ptp(brighter) > 0.4

    centre = luma(x).mean(axis=(1, 2))[:, None, None, None]
    stretched = (coloured(only(contrast=0.3), x) - centre) / (x - centre)
    factor = np.median(stretched.reshape(40, -1), axis=1)[:, None, None, None]
    np.testing.assert_allclose(coloured(only(contrast=0.3), x), factor * x + (1 - factor) * centre, **close)
    assert np.ptp(factor) > 0.3

    level = luma(x)[:, None]
    faded = coloured(only(saturation=0.3), x)
    factor = np.median(((faded - level) / (x - level)).reshape(40, -1), axis=1)[:, None, None, None]
    np.testing.assert_allclose(faded, factor * x + (1 - factor) * level, **close)
    assert np.ptp(factor) > 0.3

    turned = coloured(only(hue=0.5), x)
    np.testing.assert_allclose(luma(turned), luma(x), **close)
    assert np.abs(turned - x).max() > 0.05


def test_views_depend_on_the_generator_alone() -> None:
    pictures = torch.tensor(generated_pictures(6))
    first, again, other = (random_views(pictures, np.random.default_rng(k)) for k in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == pictures.shape
    assert first.is_contiguous(memory_format=torch.channels_last)


def test_the_network_gets_pictures_centred_as_checkpoints_expect() -> None:
    pictures = generated_pictures(4)
    mean, spread = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (pictures / 255 - mean[:, None, None]) / spread[:, None, None]
    np.testing.assert_allclose(normalise(torch.tensor(pictures)).numpy(), expected, atol=1e-5)
