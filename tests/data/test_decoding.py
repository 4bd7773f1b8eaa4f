"""Pictures from bytes: every odd kind is read as it looks, or refused with what is wrong."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from apod.data.decoding import MOST_PIXELS, decode_picture, thumbnail
from apod.errors import InputError

SIZE = (16, 24)


def saved(picture: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it is so large."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_picture_of_one_colour_stays_so_in_every_format(form: str) -> None:
    found = decode_picture(saved(Image.new("RGB", (40, 30), (200, 100, 50)), form), SIZE)
    assert found.shape == (24, 16, 3)
    np.testing.assert_allclose(found.reshape(-1, 3) - np.array([200, 100, 50]), 0, atol=4)


def test_cmyk_is_read_as_rgb() -> None:
    found = decode_picture(saved(Image.new("CMYK", (40, 30), (0, 255, 255, 0)), "JPEG"), SIZE)
    assert (found[..., 0] > 200).all()
    assert (found[..., 1:] < 60).all()


def test_what_is_transparent_is_white() -> None:
    assert (decode_picture(saved(Image.new("RGBA", (40, 30), (0, 0, 0, 0)), "PNG"), SIZE) == 255).all()
    assert (decode_picture(saved(Image.new("LA", (40, 30), (0, 0)), "PNG"), SIZE) == 255).all()
    palette = Image.new("P", (40, 30), 0)
    assert (decode_picture(saved(palette, "GIF", transparency=0), SIZE) == 255).all()


def test_of_an_animation_the_first_frame_is_read() -> None:
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue")]
    found = decode_picture(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), SIZE)
    assert (found[..., 0] > 240).all()
    assert (found[..., 2] < 16).all()


def test_sixteen_bit_grey_keeps_its_contrast() -> None:
    values = np.zeros((30, 40), dtype=np.uint16)
    values[:, 20:] = 40_000
    found = decode_picture(saved(Image.fromarray(values), "PNG"), SIZE)
    assert (found[:, :6] < 10).all()
    assert (found[:, -6:] > 245).all()


def test_a_picture_is_turned_upright_by_its_exif() -> None:
    picture = Image.new("RGB", (40, 30), "black")
    picture.paste("white", (0, 0, 40, 15))
    about = Image.Exif()
    about[0x0112] = 3  # upside down
    found = decode_picture(saved(picture, "PNG", exif=about), SIZE)
    assert found[:8].mean() < 20
    assert found[-8:].mean() > 235


def test_a_large_jpeg_is_read_whole() -> None:
    picture = Image.new("RGB", (3000, 2000), "black")
    picture.paste("white", (1500, 0, 3000, 2000))
    found = decode_picture(saved(picture, "JPEG"), SIZE)
    assert found[:, :6].mean() < 10
    assert found[:, -6:].mean() > 245


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"not a picture", "it does not decode"),
        (saved(Image.effect_noise((64, 64), 50), "JPEG")[:300], "it does not decode: no picture, or cut off"),
        (saved(Image.effect_noise((64, 64), 50), "PNG")[:200], "it does not decode: no picture, or cut off"),
        (saved(Image.new("RGB", (1, 1)), "PNG"), "it has 1 x 1 pixels, fewer than 8 a side"),
        (bomb(100_000, 100_000), "it has"),
        (bomb(8000, 8000), f"it has 8,000 x 8,000 pixels, more than {MOST_PIXELS:,}"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "it does not decode"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n", "it does not decode"),
    ],
    ids=["empty", "text", "cut jpeg", "cut png", "one pixel", "huge bomb", "bomb", "svg", "postscript"],
)
def test_what_is_no_usable_picture_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(InputError, match=why):
        decode_picture(data, SIZE)


def test_a_thumbnail_keeps_proportions_and_nothing_that_its_file_said() -> None:
    picture, about = Image.new("RGB", (400, 200), (200, 100, 50)), Image.Exif()
    about[0x0112], about[0x010E] = 6, "at home"  # turned by a quarter; a description
    small = thumbnail(saved(picture, "JPEG", exif=about), side=96)
    with Image.open(io.BytesIO(small)) as found:
        assert found.size == (48, 96)
        assert not found.getexif()
        np.testing.assert_allclose(found.getpixel((20, 50)), (200, 100, 50), atol=6)
    assert b"at home" not in small


def test_a_bomb_has_no_thumbnail() -> None:
    with pytest.raises(InputError, match="more than"):
        thumbnail(bomb(8000, 8000))
