"""One picture from bytes, as the network takes it: whole, upright, RGB, of one size.

Formats are few and sizes limited, so that no file can take the memory: a picture of more than 50 million pixels is
refused before it is decoded. Of an animation it is the first frame; what is transparent becomes white.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from apod.errors import DataUnavailable, InputError

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 50_000_000
LEAST_SIDE = 8
"""Fewer pixels a side show nothing: most likely a placeholder."""


def decode_picture(data: bytes, size: tuple[int, int]) -> Pixels:
    """(height, width, 3) of the whole picture squeezed to `size` (width, height); InputError with what is wrong."""
    image = _pillow()
    if not data:
        raise InputError("it is empty")
    with _decoding(), image.open(io.BytesIO(data), formats=FORMATS) as picture:
        _check_sides(*picture.size)
        picture.draft("RGB", (2 * size[0], 2 * size[1]))  # a large JPEG is decoded at a fraction of its size
        return np.asarray(_upright(picture).resize(size, image.Resampling.BILINEAR, reducing_gap=3.0))


@contextmanager
def _decoding() -> Iterator[None]:
    """Whatever Pillow raises, as an InputError with what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sizes are checked, and damaged EXIF matters to nobody
            yield
    except InputError:
        raise
    except _pillow().DecompressionBombError:
        raise InputError("it has too many pixels") from None
    except (OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, MemoryError):
        raise InputError("it does not decode: no picture, or cut off") from None


def thumbnail(data: bytes, side: int = 96) -> bytes:
    """The picture as a small JPEG, upright, in its proportions, without what its file says besides (place, time)."""
    image, file = _pillow(), io.BytesIO()
    pixels = decode_picture(data, _within(data, side))
    image.fromarray(pixels).save(file, "JPEG", quality=80)
    return file.getvalue()


def _within(data: bytes, side: int) -> tuple[int, int]:
    """Width and height of the upright picture, the longer of them `side`."""
    from PIL import ImageOps

    with _decoding(), _pillow().open(io.BytesIO(data), formats=FORMATS) as picture:
        _check_sides(*picture.size)
        width, height = ImageOps.exif_transpose(picture).size
    longer = max(width, height)
    return max(1, round(side * width / longer)), max(1, round(side * height / longer))


def _check_sides(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise InputError(f"it has {width:,} x {height:,} pixels, more than {MOST_PIXELS:,}")
    if min(width, height) < LEAST_SIDE:
        raise InputError(f"it has {width} x {height} pixels, fewer than {LEAST_SIDE} a side")


def _upright(picture: Any) -> Any:
    """The first frame in RGB, turned as its EXIF says, on white."""
    from PIL import ImageOps

    picture.load()
    turned = ImageOps.exif_transpose(picture)
    if turned.mode.startswith("I;16") or turned.mode in ("I", "F"):
        return _from_deep(turned)
    if "A" in turned.mode or "transparency" in turned.info:
        clear = turned.convert("RGBA")
        white = _pillow().new("RGBA", clear.size, "white")
        white.alpha_composite(clear)
        turned = white
    return turned.convert("RGB")


def _from_deep(picture: Any) -> Any:
    """Grey of more than 8 bits, by its own largest value."""
    values = np.asarray(picture, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError("it holds numbers that are not finite")
    low, high = float(values.min()), float(values.max())
    low = min(low, 0.0)
    scaled = (255 * (values - low) / max(high - low, 1e-12)).astype(np.uint8)
    return _pillow().fromarray(scaled).convert("RGB")


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataUnavailable("Pillow is not installed: pip install 'apod-fairness[images]'.") from error
    return Image
